//! [`CutEnded`]: the chunks that a thread has hashed and not yet reported to the board.
//!
//! The caller asks a store about many chunks in one request, and acts on all chunks that are ready.
//! So a thread reports short chunks together: single chunks would cause many small requests.

use super::stream::CutChunk;

/// The thread reports its chunks once they have this many bytes together.
const REPORT_BYTES_MIN: u64 = 512 << 10;

/// Hashed chunks that are not yet reported, with their indices.
#[derive(Debug, Default)]
pub(super) struct CutEnded {
    chunks: Vec<(u64, CutChunk)>,
    bytes: u64,
}

impl CutEnded {
    pub(super) fn push(&mut self, index: u64, chunk: CutChunk) {
        self.bytes += chunk.digest.len;
        self.chunks.push((index, chunk));
    }

    /// The chunks to report now. All of them, if nothing else `is_under_way`.
    pub(super) fn take(&mut self, is_under_way: bool) -> Vec<(u64, CutChunk)> {
        if is_under_way && self.bytes < REPORT_BYTES_MIN {
            return Vec::new();
        }
        self.bytes = 0;
        std::mem::take(&mut self.chunks)
    }
}
