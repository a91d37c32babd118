//! [`ChunksInFlight`]: the chunks that the transfers of one client are moving.
//!
//! One map is for chunks that are fetched into memory, one is for chunks that are too long for
//! memory, and one is for chunks that are sent. The budget decides which chunks are too long. All
//! transfers of a client share one budget. So two transfers of a client never look for the same
//! chunk in different maps.

use std::fmt;
use std::sync::Arc;

use tidegate_core::digest::Digest;

use super::InFlight;
use crate::chunked::chunk::Chunk;
use crate::chunked::seed::SeedPlace;

/// Names a chunk in flight to or from a store.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// [`crate::chunked::BlobStore::identity`]: it differs between callers with different
    /// credentials.
    pub(crate) store: Arc<str>,
    /// The chunk.
    pub(crate) digest: Digest,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The store is left out: its identity stands for credentials.
        f.debug_struct("Key").field("digest", &self.digest).finish_non_exhaustive()
    }
}

/// The chunks that the transfers of one client have in flight. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ChunksInFlight {
    /// Chunks that are being fetched into memory. The result is the verified chunk.
    pub(crate) fetches: InFlight<Key, Chunk>,
    /// Chunks that are too long for memory and are fetched straight into a target. The result is
    /// the place where the chunk can be read again. The reader must verify it again, because the
    /// owner of the target may change it.
    pub(crate) long_chunks: InFlight<Key, SeedPlace>,
    /// Chunks that are being sent. The result is that the store has them.
    pub(crate) sends: InFlight<Key, ()>,
}

impl Default for ChunksInFlight {
    fn default() -> Self {
        Self { fetches: InFlight::new(), long_chunks: InFlight::new(), sends: InFlight::new() }
    }
}
