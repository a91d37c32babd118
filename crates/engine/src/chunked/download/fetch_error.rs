//! [`FetchError`]: why a chunk cannot be fetched.

use crate::error::{Error, ErrorKind};
use crate::transfer::attempt::Calls;
use crate::transfer::blob_part::BlobPart;

/// Why a chunk cannot be fetched.
#[derive(Debug)]
pub(super) enum FetchError {
    /// The store does not have it any more. The store may still have the blob as a whole.
    Missing(Error),
    /// Anything else.
    Failed(Error),
}

impl From<Error> for FetchError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl FetchError {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Missing(error) | Self::Failed(error) => error,
        }
    }

    /// The same error, as one of this part of the blob.
    pub(super) fn with(self, part: &BlobPart, calls: &Calls) -> Self {
        match self {
            Self::Missing(error) => Self::Missing(in_part(error, part, calls)),
            Self::Failed(error) => Self::Failed(in_part(error, part, calls)),
        }
    }
}

/// The error, as one of a part of the blob. An error of the target, or a cancellation, concerns no
/// part.
pub(super) fn in_part(error: Error, part: &BlobPart, calls: &Calls) -> Error {
    let has_part = error.target() == &*calls.target && error.range().is_some();
    if has_part || matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Storage) {
        return error;
    }
    part.add_to(error, calls, "failed")
}
