//! [`ChunksInFlight`]: the chunks that the transfers of one client are moving.
//!
//! One map holds chunks that are fetched into memory, one those that are too long for it, and one
//! those that are sent. The budget decides which chunks are too long, and all transfers of a client
//! share one budget. So two transfers of a client never look for the same chunk in different maps.

use std::fmt;
use std::sync::Arc;

use tidegate_core::digest::Digest;

use super::InFlight;
use crate::chunked::chunk::Chunk;
use crate::chunked::seed::SeedPlace;

/// A chunk on its way to or from a store.
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
        // Not the store: its identity stands for credentials.
        f.debug_struct("Key").field("digest", &self.digest).finish_non_exhaustive()
    }
}

/// What the transfers of one client have in flight; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ChunksInFlight {
    /// Chunks that are being fetched; the outcome is a chunk whose bytes have been verified.
    pub(crate) fetches: InFlight<Key, Chunk>,
    /// Chunks that are being fetched straight into a target, as they are too long for memory. The
    /// outcome is the place where one can be read again. It must be verified then, because the
    /// owner of the target may change it.
    pub(crate) pours: InFlight<Key, SeedPlace>,
    /// Chunks that are being sent; the outcome is that the store has them.
    pub(crate) sends: InFlight<Key, ()>,
}

impl Default for ChunksInFlight {
    fn default() -> Self {
        Self { fetches: InFlight::new(), pours: InFlight::new(), sends: InFlight::new() }
    }
}
