//! [`StoreError`]: why the store refuses or fails.

use std::io;

/// Why the store refuses or fails. A miss is no error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store is at its limit, and nothing is old enough to be evicted. A retry can help.
    #[error("the store is full: {used_bytes} of {bytes_max} bytes are in use")]
    Full {
        /// Bytes in use.
        used_bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The disk has no space, possibly because of other programs. A retry can help.
    #[error("the disk is full")]
    DiskFull,
    /// The value can never fit.
    #[error("expected at most {bytes_max} bytes, got {bytes}")]
    TooLarge {
        /// The value's length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The bytes differ from their digest.
    #[error("the bytes differ from the digest")]
    Mismatch,
    /// Stored bytes have another checksum than when they were written. The store has dropped the
    /// value.
    #[error("stored bytes are damaged")]
    Damaged,
    /// The disk failed.
    #[error("failed to {operation}")]
    Disk {
        /// What the store was doing.
        operation: &'static str,
        /// The disk's error.
        #[source]
        source: io::Error,
    },
    /// A sync failed, so the log cannot go on before the next checkpoint. A retry can help.
    #[error("the log waits for a checkpoint after a failed sync")]
    LogBroken,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// A function that makes an error of a failed disk operation.
    pub(crate) fn disk(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => Self::Disk { operation, source },
        }
    }

    /// The same error for another operation of the group that failed.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Full { used_bytes, bytes_max } => {
                Self::Full { used_bytes: *used_bytes, bytes_max: *bytes_max }
            }
            Self::DiskFull => Self::DiskFull,
            Self::TooLarge { bytes, bytes_max } => {
                Self::TooLarge { bytes: *bytes, bytes_max: *bytes_max }
            }
            Self::Mismatch => Self::Mismatch,
            Self::Damaged => Self::Damaged,
            Self::Disk { operation, source } => {
                Self::Disk { operation, source: io::Error::new(source.kind(), source.to_string()) }
            }
            Self::LogBroken => Self::LogBroken,
            Self::Closed => Self::Closed,
        }
    }
}

/// A result of the store.
pub type StoreResult<T> = Result<T, StoreError>;
