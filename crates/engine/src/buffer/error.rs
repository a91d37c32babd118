//! [`BufferError`]: the errors of a buffer. A refused reservation names both ranges that conflict.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Operation};

/// A refusal by a [`super::ShardBuffer`]. The call that returns it wrote, reserved and charged
/// nothing, unless the variant says otherwise.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BufferError {
    /// The range ends before it begins.
    #[error("the range {start}..{end} ends before it begins")]
    Reversed {
        /// Where it begins.
        start: u64,
        /// Where it ends.
        end: u64,
    },
    /// A position would pass 2^64, or what this platform can address.
    #[error("offset {offset} and {len} bytes pass what can be addressed")]
    Overflow {
        /// Where it would begin.
        offset: u64,
        /// How long it would be.
        len: u64,
    },
    /// The range passes the buffer's limit.
    #[error("the range ends at {end}, beyond the buffer's limit of {limit_bytes} bytes")]
    BeyondLimit {
        /// Where it would end.
        end: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The hint is larger than the limit.
    #[error("the length hint of {len_hint} bytes is beyond the limit of {limit_bytes} bytes")]
    HintBeyondLimit {
        /// The hint.
        len_hint: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The range passes the end of a blob whose length is settled.
    #[error("the range ends at {end}, beyond the blob's {total} bytes")]
    BeyondEnd {
        /// Where it ends.
        end: u64,
        /// The blob's length.
        total: u64,
    },
    /// The blob's length was settled before, to another value.
    #[error("the blob was said to have {was} bytes, and now {is}")]
    OtherLength {
        /// The length settled first.
        was: u64,
        /// The length given now.
        is: u64,
    },
    /// Another writer owns some of the range.
    #[error("{}..{} overlaps {}..{}, which another writer holds", asked.start, asked.end, held.start, held.end)]
    Reserved {
        /// The range that the caller asked for.
        asked: Range<u64>,
        /// The range that the other writer holds.
        held: Range<u64>,
    },
    /// Some of the range has been written, and readers may be reading it.
    #[error("{}..{} overlaps {}..{}, which has been written", asked.start, asked.end, written.start, written.end)]
    Written {
        /// The range that the caller asked for.
        asked: Range<u64>,
        /// The written run that it overlaps.
        written: Range<u64>,
    },
    /// Some of the bytes have not been written (yet).
    #[error("bytes {}..{} have not been written", gap.start, gap.end)]
    Gap {
        /// The first run of bytes that are missing.
        gap: Range<u64>,
    },
    /// Some writers are still alive.
    #[error("a writer still holds {}..{}", held.start, held.end)]
    WritersRemain {
        /// The range of the first of them.
        held: Range<u64>,
    },
    /// The buffer was frozen.
    #[error("the buffer is frozen")]
    Frozen,
    /// Overwriting needs exclusive access, and another handle can still see the bytes.
    #[error("bytes cannot be overwritten while a reader, a writer or a slice of them is alive")]
    Shared,
    /// The budget has no room.
    #[error("{wanted_bytes} bytes do not fit what is left of the memory budget")]
    OverBudget {
        /// The bytes that would have been committed.
        wanted_bytes: u64,
    },
    /// The system refuses to provide the memory.
    #[error("the system gives no {bytes} bytes of memory")]
    OutOfMemory {
        /// The bytes asked for.
        bytes: u64,
    },
    /// The buffer and its writers were dropped, so the missing bytes can never be written.
    #[error("the buffer was given up before all of it was written")]
    Abandoned,
    /// Filling the buffer failed.
    #[error("filling the buffer failed")]
    Failed {
        /// The reason.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
}

impl BufferError {
    pub(super) fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Failed { source: Arc::new(error) }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::OverBudget { .. } | Self::OutOfMemory { .. } => ErrorKind::Storage,
            Self::Abandoned => ErrorKind::Cancelled,
            Self::BeyondEnd { .. } | Self::Gap { .. } => ErrorKind::OutOfRange,
            Self::Failed { source } => {
                source.downcast_ref::<Error>().map_or(ErrorKind::Storage, Error::kind)
            }
            _ => ErrorKind::Invalid,
        }
    }
}

impl From<BufferError> for Error {
    fn from(error: BufferError) -> Self {
        Self::new(error.kind(), Operation::Write, "memory", "the buffer refuses").caused_by(error)
    }
}

impl From<BufferError> for io::Error {
    fn from(error: BufferError) -> Self {
        let kind = match &error {
            BufferError::OutOfMemory { .. } | BufferError::OverBudget { .. } => {
                io::ErrorKind::OutOfMemory
            }
            BufferError::BeyondLimit { .. } | BufferError::BeyondEnd { .. } => {
                io::ErrorKind::FileTooLarge
            }
            BufferError::Gap { .. } => io::ErrorKind::UnexpectedEof,
            BufferError::Frozen => io::ErrorKind::ReadOnlyFilesystem,
            BufferError::Reserved { .. }
            | BufferError::Written { .. }
            | BufferError::Shared
            | BufferError::WritersRemain { .. } => io::ErrorKind::ResourceBusy,
            BufferError::Abandoned => io::ErrorKind::BrokenPipe,
            BufferError::Failed { .. } => io::ErrorKind::Other,
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}
