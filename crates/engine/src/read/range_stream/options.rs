//! What the caller of a [`RangeStream`](super::RangeStream) chooses, and what it knows of the blob.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::checksum::StoredChecksum;
use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;

use crate::read::flow::Flow;
use crate::remote::{BlobInfo, Version};
use crate::transfer::window::TransferWindow;

/// What the caller chooses of a [`RangeStream`](super::RangeStream).
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeOptions {
    /// The bytes wanted; everything by default.
    pub(crate) range: Option<ByteRange>,
    /// What is known of the blob: an answer that tells otherwise contradicts itself, or is of
    /// another blob. Nothing by default.
    pub(crate) known: Known,
    /// How to go on after an interruption.
    pub(crate) retry: RetryPolicy,
    /// After this long without an answer a second request races the first.
    pub(crate) hedge: Option<Duration>,
    /// What the readers of one transfer share; this one's own where there are no others.
    pub(crate) flow: Option<Arc<Flow>>,
    /// Learns of each request: when it is sent, what it brought, how it failed.
    pub(crate) window: Option<Arc<TransferWindow>>,
    /// The reader compares the bytes with a digest. So what a body brings beyond the end that its
    /// head claims is cut off. After an `Integrity` error the bytes are asked for once more.
    pub(crate) reader_verifies: bool,
}

/// What earlier answers told of a blob.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// The version that the bytes must be of.
    pub(crate) version: Option<Version>,
    /// Length of what is stored.
    pub(crate) len_bytes: Option<u64>,
    /// The coding that the bytes came in, `identity` for none.
    pub(crate) coding: Option<String>,
    /// Checksums of what is stored: an answer may not tell another value of one.
    pub(crate) checksums: Vec<StoredChecksum>,
    /// Bytes before this offset have been delivered, so that the blob cannot be shorter.
    pub(crate) delivered_end: u64,
}

impl Known {
    /// By the first answer.
    pub(crate) fn of(info: &BlobInfo) -> Self {
        let coding = Some(coding(info).to_owned());
        let (version, len_bytes) = (info.version.clone(), info.len_bytes);
        Self { version, len_bytes, coding, checksums: info.checksums.clone(), delivered_end: 0 }
    }
}

pub(super) fn coding(info: &BlobInfo) -> &str {
    info.content_encoding.as_deref().unwrap_or("identity")
}
