//! [`Report`]: the outcome of a finished transfer.

use std::time::Duration;

use bytes::Bytes;
use tidegate_core::checksum::Checksum;

use crate::read::ReadTotals;
use crate::remote::{BlobInfo, Version};
use crate::verified::Verified;

/// The outcome of a finished download.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Bytes delivered, those of an earlier run included.
    pub bytes: u64,
    /// Of these, bytes that an earlier run had left and that were checked again.
    pub resumed_bytes: u64,
    /// From the call until the target has its name.
    pub elapsed: Duration,
    /// Requests, restarts and wasted bytes.
    pub totals: ReadTotals,
    /// The most bytes of the budget that were held at once, by all transfers that share it, up to
    /// the end of this one.
    pub held_bytes_peak: u64,
    /// What the remote says of the blob.
    pub info: BlobInfo,
    /// Checksums computed of the bytes delivered.
    pub checksums: Vec<Checksum>,
    /// Those of them that agree with what the remote provides or the caller expected.
    pub verified: Verified,
    /// How the blob came, where the download asked for its chunks.
    pub chunks: Option<ChunkReport>,
    /// What happened that the user may want to know.
    pub notes: Vec<String>,
    /// The blob, where the target was memory; the memory is given back when the last slice of it
    /// is dropped.
    pub memory: Option<Bytes>,
}

impl Report {
    /// The version that was fetched.
    pub fn version(&self) -> Option<&Version> {
        self.info.version.as_ref()
    }

    /// Whether at least one checksum of the whole blob agrees.
    pub fn is_verified(&self) -> bool {
        matches!(self.verified, Verified::By(_))
    }
}

/// Where the chunks of a download came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkReport {
    /// Chunks that make up the blob, those that recur counted each time; 0 where it came whole.
    pub count: u64,
    /// Chunks that were fetched.
    pub fetched_chunks: u64,
    /// Bytes that were fetched and verified, those of a whole blob included.
    pub fetched_bytes: u64,
    /// Chunks that another transfer of the client was fetching.
    pub shared_chunks: u64,
    /// Their bytes.
    pub shared_bytes: u64,
    /// Chunks that were copied from seeds.
    pub copied_chunks: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// The blob, or the rest of it, came whole.
    pub whole: bool,
    /// The window at the end.
    pub window: u32,
}
