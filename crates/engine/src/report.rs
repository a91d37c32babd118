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
    /// Bytes of the blob, or of the requested range, that the target now has.
    pub bytes: u64,
    /// Of these, bytes that an earlier run left and that this run verified.
    pub resumed_bytes: u64,
    /// Time from the call until the target has its name.
    pub elapsed: Duration,
    /// Requests, restarts and wasted bytes.
    pub totals: ReadTotals,
    /// The most bytes of the budget that all its transfers together held at once, up to the end of
    /// this transfer.
    pub held_bytes_peak: u64,
    /// The remote's description of the blob.
    pub info: BlobInfo,
    /// The blob's name in a store of chunks.
    pub digest: Option<Digest>,
    /// Checksums that were computed of the bytes.
    pub checksums: Vec<Checksum>,
    /// The checksums among them that match those that the remote provides or the caller expected.
    pub verified: Verified,
    /// How the blob was moved.
    pub form: Form,
    /// The chunks of a blob that was moved to or from a store of chunks. A blob that was moved
    /// whole is one chunk.
    pub chunks: Option<ChunkReport>,
    /// For an upload that was compressed on the way: the bytes of its source. [`Self::bytes`] are
    /// those that the remote stores.
    pub source_bytes: Option<u64>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// What each mirror of the blob did, in the order given, with the blob's own place as the first.
    /// Empty if there are no mirrors.
    pub mirrors: Vec<MirrorReport>,
    /// The blob, if the target was memory. The memory is released when its last slice is dropped.
    pub memory: Option<Bytes>,
}

/// What one mirror of a blob did in a download.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MirrorReport {
    /// Its URL without secrets.
    pub location: String,
    /// Bytes of the blob that it delivered.
    pub bytes: u64,
    /// Why it was dropped, or why it was not used; `None` if it was used to the end.
    pub unused: Option<String>,
}

/// How a blob was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// In ranges, many in parallel.
    Shards,
    /// As chunks.
    Chunks,
    /// In parts, many in parallel: an upload.
    Parts,
    /// By the provider itself, within one remote.
    Copied,
    /// Whole, from or to a store of chunks, or the remaining bytes of it. The blob is short, or the
    /// store does not support chunks of it.
    Whole,
    /// Not moved: the store already had it.
    Present,
}

impl Report {
    /// The version that was fetched.
    pub fn version(&self) -> Option<&Version> {
        self.info.version.as_ref()
    }

    /// Whether at least one checksum of the whole blob, or of all its parts, matches.
    pub fn is_verified(&self) -> bool {
        !matches!(self.verified, Verified::Not(_))
    }
}

/// A number of chunks, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkTotals {
    /// The number of chunks.
    pub chunks: u64,
    /// The sum of their bytes.
    pub bytes: u64,
}

impl Add for ChunkTotals {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { chunks: self.chunks + other.chunks, bytes: self.bytes + other.bytes }
    }
}

/// How the chunks of a blob were moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkReport {
    /// Chunks that make up the blob; a chunk that recurs counts each time. For an upload: those
    /// that were cut from the file. For a download that was fetched whole: none.
    pub all: ChunkTotals,
    /// The distinct chunks among these. For a download: without those that an earlier run left.
    pub distinct: ChunkTotals,
    /// Distinct chunks that this transfer fetched or sent, and their bytes. For a download that was
    /// fetched whole: its bytes.
    pub moved: ChunkTotals,
    /// Distinct chunks that another transfer of the client was fetching or sending.
    pub shared: ChunkTotals,
    /// Distinct chunks that were not moved: copied from seeds, or present in the store.
    pub reused: ChunkTotals,
    /// The window at the end.
    pub window: u32,
    /// For an upload: how often the store had lost chunks when the blob was to be registered.
    pub rounds: u32,
    /// For an upload: its requests.
    pub requests: StoreRequests,
}

/// Attempts of an upload at calls of a store, by kind. Failed attempts count too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreRequests {
    /// Requests for the missing digests.
    pub missing: u64,
    /// Uploads of one chunk, or of the whole blob.
    pub put: u64,
    /// Uploads of a batch of small chunks.
    pub put_batch: u64,
    /// Registrations of the blob as a list of its chunks.
    pub register: u64,
}
