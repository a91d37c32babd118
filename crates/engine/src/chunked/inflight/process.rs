//! What is in flight in this process: one map for chunks that are fetched, one for those sent.

use std::sync::{Arc, LazyLock};

use tidegate_core::digest::Digest;

use super::InFlight;
use crate::chunked::chunk::Chunk;

/// A chunk on its way to or from a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// [`crate::chunked::ChunkStore::identity`].
    pub(crate) store: Arc<str>,
    /// The chunk.
    pub(crate) digest: Digest,
}

/// Chunks that are being fetched; the outcome is a chunk whose bytes have been verified.
pub(crate) fn fetches() -> &'static InFlight<Key, Chunk> {
    static FETCHES: LazyLock<InFlight<Key, Chunk>> = LazyLock::new(InFlight::new);
    &FETCHES
}

/// Chunks that are being sent; the outcome is that the store has them.
pub(crate) fn sends() -> &'static InFlight<Key, ()> {
    static SENDS: LazyLock<InFlight<Key, ()>> = LazyLock::new(InFlight::new);
    &SENDS
}
