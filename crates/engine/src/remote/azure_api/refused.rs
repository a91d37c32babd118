//! What a refused write means, by status and code. Pure.
//!
//! Source: "Blob service error codes" in the REST API reference.

use tidegate_core::retry::RetryClass;

use crate::error::{Error, ErrorKind, Operation};
use crate::remote::object_client::Refusal;
use crate::remote::write::Precondition;

/// The error of a refused write.
pub(super) fn explain(refusal: Refusal, precondition: &Precondition, target: &str) -> Error {
    let error = |kind, message: &str| {
        Error::new(kind, Operation::Write, target, message).caused_by(refusal.error.without_cause())
    };
    match (refusal.status(), refusal.code(), precondition) {
        (_, "ContainerNotFound", _) => error(ErrorKind::NotFound, "there is no such container")
            .with_hint("check the spelling of the container, or create it"),
        // These have the status of a condition that does not hold.
        (_, code, _) if code.starts_with("Lease") => {
            error(ErrorKind::NoAccess, "another client holds a lease on the blob")
        }
        (_, "BlobImmutableDueToPolicy", _) => {
            error(ErrorKind::NoAccess, "a policy of the container forbids to change the blob")
        }
        (_, "BlobAlreadyExists", _) | (Some(412), _, Precondition::Absent) => {
            error(ErrorKind::AlreadyExists, "a blob of that name is already there")
        }
        (Some(412), _, _) | (Some(404), _, Precondition::Version(_)) => {
            error(ErrorKind::Changed, "the blob that was to be replaced has another version")
        }
        (_, "Md5Mismatch" | "Crc64Mismatch", _) => error(
            ErrorKind::Integrity,
            "the bytes were damaged on the way: the remote computed another checksum",
        )
        .retryable(RetryClass::Now),
        (_, "InvalidBlockList" | "InvalidBlockId", _) => {
            error(ErrorKind::Invalid, "the remote has not all blocks as they were sent")
        }
        (_, "InvalidBlobOrBlock", _) => error(
            ErrorKind::Invalid,
            "another program's upload to this name is unfinished, with block ids of another length",
        )
        .with_hint("finish that upload, or choose another name: its blocks vanish after a week"),
        (_, "InvalidBlobType", _) => {
            error(ErrorKind::Invalid, "a page blob or an append blob has the name")
                .with_hint("delete it first")
        }
        (Some(413), _, _) | (_, "BlockListTooLong" | "BlockCountExceedsLimit", _) => {
            error(ErrorKind::Invalid, "it is too long for the remote")
        }
        _ => refusal.error,
    }
}
