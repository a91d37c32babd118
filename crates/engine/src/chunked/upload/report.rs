//! What an upload reports at its end.

use std::time::Duration;

use tidegate_core::digest::Digest;

/// How a blob came to be at the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UploadOutcome {
    /// It was there already.
    Present,
    /// It was put whole: it is short, or the store takes no manifests, or not this one.
    Whole,
    /// Its chunks were put, as far as they were missing, and it was made of them.
    Chunked,
}

/// Chunks and their bytes. A blob that is put whole counts as one chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkTotals {
    /// How many.
    pub chunks: u64,
    /// Their bytes together.
    pub bytes: u64,
}

/// Attempts at calls of the store, by kind, those that failed included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UploadRequests {
    /// Asking what is missing.
    pub missing: u64,
    /// Putting one chunk, or the blob.
    pub put: u64,
    /// Putting small chunks together.
    pub put_batch: u64,
    /// Making the blob of its chunks.
    pub register: u64,
    /// Of all of these, those made again after a failure.
    pub retries: u64,
}

/// The outcome of a finished upload.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UploadReport {
    /// The blob's name.
    pub digest: Digest,
    /// How it came to be there.
    pub outcome: UploadOutcome,
    /// All chunks that the blob was cut into, as far as it was cut.
    pub cut: ChunkTotals,
    /// Of these, the distinct ones.
    pub distinct: ChunkTotals,
    /// Distinct chunks that were put by this upload.
    pub sent: ChunkTotals,
    /// Distinct chunks that the store said it had.
    pub present: ChunkTotals,
    /// Distinct chunks that another upload of this process has seen to.
    pub shared: ChunkTotals,
    /// Times that the store had lost chunks when the blob was to be made of them.
    pub rounds: u32,
    /// The window at the end.
    pub window: u32,
    /// Requests that it took.
    pub requests: UploadRequests,
    /// From the call to its end.
    pub elapsed: Duration,
    /// The most bytes of the budget that were held at once, by all transfers that share it, up to
    /// the end of this one.
    pub held_bytes_peak: u64,
    /// What happened on the way that the caller may want to know.
    pub notes: Vec<String>,
}
