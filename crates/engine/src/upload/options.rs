//! What the caller of an upload chooses.

use std::sync::Arc;

use tidegate_core::retry::RetryPolicy;
use tidegate_core::window::WindowOptions;
use tokio_util::sync::CancellationToken;

use super::ContentCoding;
use crate::budget::Budget;
use crate::progress::Progress;
use crate::remote::WriteOptions;
use crate::sink::file::StateFolder;

/// What happens to the parts that are stored when an upload fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// They stay, and the same upload goes on with them. Only parts of a file can be used again.
    #[default]
    Keep,
    /// The upload is aborted, and nothing stays at the remote.
    Abort,
}

/// How an upload is done.
#[derive(Clone, Debug)]
pub(crate) struct UploadOptions {
    /// Conditions and description of the blob.
    pub(crate) write: WriteOptions,
    /// Bytes of a part; by default by the length of the blob.
    pub(crate) part_bytes: Option<u64>,
    /// Whether the blob is always sent in one request.
    pub(crate) is_whole: bool,
    /// The expected length of a stream: decides how long its parts are.
    pub(crate) expected_bytes: Option<u64>,
    /// How the source is compressed on the way.
    pub(crate) coding: Option<ContentCoding>,
    pub(crate) on_failure: OnFailure,
    /// Requests in flight that carry bytes.
    pub(crate) window: WindowOptions,
    pub(crate) retry: RetryPolicy,
    pub(crate) budget: Budget,
    pub(crate) progress: Arc<Progress>,
    pub(crate) cancel: CancellationToken,
    /// Where journals are kept.
    pub(crate) state: StateFolder,
}
