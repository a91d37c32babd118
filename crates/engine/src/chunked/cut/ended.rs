//! [`Ended`]: chunks that a thread has hashed, until the others are told.
//!
//! Whoever takes chunks asks a store for many at once, and acts at once on whatever is there: so
//! short chunks are told of together.

use super::stream::CutChunk;

/// Chunks are told of together up to so many bytes.
const TOLD_BYTES: u64 = 512 << 10;

/// Chunks that have ended and were not told of yet, with their indices.
#[derive(Debug, Default)]
pub(super) struct Ended {
    chunks: Vec<(u64, CutChunk)>,
    bytes: u64,
}

impl Ended {
    pub(super) fn push(&mut self, index: u64, chunk: CutChunk) {
        self.bytes += chunk.digest.len;
        self.chunks.push((index, chunk));
    }

    /// Those to be told of now; all, if nothing else `is_under_way`.
    pub(super) fn take(&mut self, is_under_way: bool) -> Vec<(u64, CutChunk)> {
        if is_under_way && self.bytes < TOLD_BYTES {
            return Vec::new();
        }
        self.bytes = 0;
        std::mem::take(&mut self.chunks)
    }
}
