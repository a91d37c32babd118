//! [`Report`]: the outcome of a finished transfer.

use std::ops::Add;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::checksum::Checksum;
use tidegate_core::digest::Digest;

use crate::read::ReadTotals;
use crate::remote::{BlobInfo, Version};
use crate::verified::Verified;

/// The outcome of a finished transfer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Bytes of the blob, or of the range of it, that the target has now.
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
    /// The blob's name at a store of chunks.
    pub digest: Option<Digest>,
    /// Checksums computed of the bytes.
    pub checksums: Vec<Checksum>,
    /// Those of them that agree with what the remote provides or the caller expected.
    pub verified: Verified,
    /// How the blob was moved.
    pub form: Form,
    /// The chunks of a blob that was moved to or from a store of chunks; a blob that was moved whole
    /// is one chunk.
    pub chunks: Option<ChunkReport>,
    /// What happened that the user may want to know.
    pub notes: Vec<String>,
    /// The blob, where the target was memory; the memory is given back when the last slice of it
    /// is dropped.
    pub memory: Option<Bytes>,
}

/// How a blob was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// In ranges, many at once.
    Shards,
    /// As chunks.
    Chunks,
    /// Whole, from or to a store of chunks, or the rest of it: it is short, or the store gives or takes
    /// no chunks of it.
    Whole,
    /// Not at all: the store had it.
    Present,
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

/// Chunks and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkTotals {
    /// The number of chunks.
    pub chunks: u64,
    /// Their bytes together.
    pub bytes: u64,
}

impl Add for ChunkTotals {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { chunks: self.chunks + other.chunks, bytes: self.bytes + other.bytes }
    }
}

/// What became of the chunks of a blob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkReport {
    /// Chunks that make up the blob, those that recur counted each time. Of an upload, as far as the
    /// file was cut; of a download that came whole, none.
    pub all: ChunkTotals,
    /// The distinct ones of these; of a download, as far as an earlier run had not left them.
    pub distinct: ChunkTotals,
    /// Distinct chunks that this transfer fetched or sent, and their bytes. Of a download that came
    /// whole, its bytes.
    pub moved: ChunkTotals,
    /// Distinct chunks that another transfer of the client was fetching or sending.
    pub shared: ChunkTotals,
    /// Distinct chunks that did not travel: copied from seeds, or present at the store.
    pub reused: ChunkTotals,
    /// The window at the end.
    pub window: u32,
    /// Of an upload: how often the store had lost chunks when the blob was to be made of them.
    pub rounds: u32,
    /// Of an upload: its requests.
    pub requests: StoreRequests,
}

/// Attempts at calls of a store by an upload, by kind; those that failed count too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreRequests {
    /// Asking what is missing.
    pub missing: u64,
    /// Putting one chunk, or the blob.
    pub put: u64,
    /// Putting small chunks together.
    pub put_batch: u64,
    /// Making the blob of its chunks.
    pub register: u64,
}
