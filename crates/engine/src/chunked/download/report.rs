//! What a chunked download reports at its end.

use std::time::Duration;

use bytes::Bytes;
use tidegate_core::digest::Digest;

use crate::read::ReadTotals;

/// The outcome of a finished chunked download. The blob has been verified against its digest.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChunkedReport {
    /// The blob.
    pub digest: Digest,
    /// Chunks that make it up, those that recur counted each time; 0 where it came as a whole.
    pub chunks: u64,
    /// Chunks that were fetched.
    pub fetched_chunks: u64,
    /// Bytes that were fetched and verified, those of a whole blob included.
    pub fetched_bytes: u64,
    /// Chunks that somebody else in this process was fetching.
    pub shared_chunks: u64,
    /// Their bytes.
    pub shared_bytes: u64,
    /// Chunks that were copied from seeds.
    pub copied_chunks: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// Bytes that an earlier attempt had left in their place.
    pub resumed_bytes: u64,
    /// The blob came as a whole, or the rest of it did.
    pub whole: bool,
    /// The window at the end.
    pub window: u32,
    /// From the call to the target's having its name.
    pub elapsed: Duration,
    /// Requests and restarts.
    pub totals: ReadTotals,
    /// The most bytes of the budget that were held at once, by all transfers that share it, up to
    /// the end of this one.
    pub held_bytes_peak: u64,
    /// What happened on the way that the user may want to know.
    pub notes: Vec<String>,
    /// The blob, where the target was memory; the memory is given back when the last slice of it
    /// is gone.
    pub memory: Option<Bytes>,
}
