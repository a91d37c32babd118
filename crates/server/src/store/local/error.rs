//! Errors of the store as errors of the engine.

use tidegate::{Error, ErrorKind, Operation};

use crate::store::error::StoreError;

/// The error of an operation on `target`.
pub(in crate::store) fn error(operation: Operation, target: &str, error: StoreError) -> Error {
    let failed = |kind, message: &str| Error::new(kind, operation, target, message);
    match &error {
        StoreError::Full { .. } => failed(ErrorKind::Storage, "the store is full")
            .with_hint("raise the limit of the store, or lower the minimum age of what it evicts"),
        StoreError::DiskFull => failed(ErrorKind::Storage, "the disk is full")
            .with_hint("free space on the disk of the store"),
        StoreError::TooLarge { .. } => failed(ErrorKind::Unsupported, "it is too large"),
        StoreError::Mismatch => failed(ErrorKind::Integrity, "the bytes differ from the digest"),
        StoreError::Damaged => failed(ErrorKind::Integrity, "the stored bytes are damaged")
            .with_hint("the damaged value was dropped; put the blob again"),
        StoreError::Closed => failed(ErrorKind::Cancelled, "the store is closed"),
        _ => failed(ErrorKind::Storage, "the store failed"),
    }
    .caused_by(error)
}
