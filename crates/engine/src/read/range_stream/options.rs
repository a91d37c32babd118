//! The options of a [`RangeStream`](super::RangeStream), and the facts that its caller already
//! knows about the blob.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::checksum::StoredChecksum;
use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;

use crate::read::flow::Flow;
use crate::remote::{BlobInfo, Version};
use crate::transfer::window::TransferWindow;

/// The caller's options for a [`RangeStream`](super::RangeStream).
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeOptions {
    /// The requested bytes; the whole blob by default.
    pub(crate) range: Option<ByteRange>,
    /// Known facts about the blob; none by default. A response with a different fact is an error:
    /// it is wrong, or the blob has changed.
    pub(crate) known: Known,
    /// Retries after an interruption.
    pub(crate) retry: RetryPolicy,
    /// After this long without a response, a second request races the first.
    pub(crate) hedge: Option<Duration>,
    /// State that the readers of one transfer share. `None`: this reader gets its own.
    pub(crate) flow: Option<Arc<Flow>>,
    /// It records each request: when it is sent, how many bytes it delivered, how it failed.
    pub(crate) window: Option<Arc<TransferWindow>>,
    /// The reader verifies the bytes against a digest. So bytes beyond the end that the head claims
    /// are cut off, without an error. After an `Integrity` error the bytes are requested once more.
    pub(crate) reader_verifies: bool,
}

/// Facts about a blob from earlier responses, or from the blob's digest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// The version of all bytes.
    pub(crate) version: Option<Version>,
    /// Length of the stored bytes.
    pub(crate) len_bytes: Option<u64>,
    /// The content coding of the bytes; `identity` if there is none.
    pub(crate) coding: Option<String>,
    /// Checksums of the stored bytes. A response with a different value is an error.
    pub(crate) checksums: Vec<StoredChecksum>,
    /// Bytes before this offset have been delivered, so the blob cannot be shorter.
    pub(crate) delivered_end: u64,
}

impl Known {
    /// The facts of the first response.
    pub(crate) fn of(info: &BlobInfo) -> Self {
        let coding = Some(coding(info).to_owned());
        let (version, len_bytes) = (info.version.clone(), info.len_bytes);
        Self { version, len_bytes, coding, checksums: info.checksums.clone(), delivered_end: 0 }
    }
}

pub(super) fn coding(info: &BlobInfo) -> &str {
    info.content_encoding.as_deref().unwrap_or("identity")
}
