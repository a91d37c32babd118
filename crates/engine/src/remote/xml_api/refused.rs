//! What a refused write means, by status and code. Pure.
//!
//! Sources: "Error responses" and "Conditional writes" in the S3 user guide; the error table of
//! Google Cloud Storage's XML API.

use tidegate_core::retry::RetryClass;

use crate::error::{Error, ErrorKind, Operation};
use crate::remote::object_client::Refusal;
use crate::remote::write::Precondition;

/// The service's code for an upload that it does not know.
pub(super) const NO_UPLOAD: &str = "NoSuchUpload";

/// The service's code for a write that raced with another one.
pub(super) const RACED: &str = "ConditionalRequestConflict";

/// The error of a refused write.
pub(super) fn explain(refusal: Refusal, precondition: &Precondition, target: &str) -> Error {
    let error = |kind, message: &str| {
        Error::new(kind, Operation::Write, target, message).caused_by(refusal.error.without_cause())
    };
    match (refusal.status(), refusal.code(), precondition) {
        (_, NO_UPLOAD, _) => error(
            ErrorKind::NotFound,
            "the remote does not know the upload: it was completed, aborted or has expired",
        ),
        (_, "NoSuchBucket", _) => error(ErrorKind::NotFound, "there is no such bucket")
            .with_hint("check the spelling of the bucket, or create it"),
        (_, RACED | "OperationAborted", _) => {
            error(ErrorKind::Remote, "another write to the same name was in progress")
                .retryable(RetryClass::Now)
        }
        (Some(412), _, Precondition::Absent) => {
            error(ErrorKind::AlreadyExists, "a blob of that name is already there")
        }
        (Some(412), _, _) | (Some(404), _, Precondition::Version(_)) => {
            error(ErrorKind::Changed, "the blob that was to be replaced has another version")
        }
        (_, "BadDigest" | "InvalidDigest" | "XAmzContentChecksumMismatch", _) => error(
            ErrorKind::Integrity,
            "the bytes were damaged on the way: the remote computed another checksum",
        )
        .retryable(RetryClass::Now),
        (_, "EntityTooLarge", _) => error(ErrorKind::Invalid, "it is too long for the remote"),
        (_, "EntityTooSmall", _) => error(ErrorKind::Invalid, "a part is too short for the remote"),
        (_, "InvalidPart" | "InvalidPartOrder", _) => {
            error(ErrorKind::Invalid, "the remote has not all parts as they were sent")
        }
        (Some(507), _, _) | (_, "QuotaExceeded" | "XMinioStorageFull" | "StorageFull", _) => {
            error(ErrorKind::Storage, "the remote has no space left")
        }
        _ => refusal.error,
    }
}
