//! What is in flight in this process: one map for chunks that are fetched, one for those that are
//! too long to be held, and one for those sent.
//!
//! Whether a chunk may be held is the budget's to say: where two downloads of one process have
//! budgets of different sizes, a chunk that the one holds and the other does not is not shared.

use std::fmt;
use std::sync::{Arc, LazyLock};

use tidegate_core::digest::Digest;

use super::InFlight;
use crate::chunked::chunk::Chunk;
use crate::chunked::seed::SeedPlace;

/// A chunk on its way to or from a store.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// [`crate::chunked::ChunkStore::identity`]: of two callers with other credentials, another.
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

/// Chunks that are being fetched; the outcome is a chunk whose bytes have been verified.
pub(crate) fn fetches() -> &'static InFlight<Key, Chunk> {
    static FETCHES: LazyLock<InFlight<Key, Chunk>> = LazyLock::new(InFlight::new);
    &FETCHES
}

/// Chunks that are being fetched straight into a target, too long to be held; the outcome is where
/// one can be read again, and must be verified, as whoever has the target may change it.
pub(crate) fn pours() -> &'static InFlight<Key, SeedPlace> {
    static POURS: LazyLock<InFlight<Key, SeedPlace>> = LazyLock::new(InFlight::new);
    &POURS
}

/// Chunks that are being sent; the outcome is that the store has them.
pub(crate) fn sends() -> &'static InFlight<Key, ()> {
    static SENDS: LazyLock<InFlight<Key, ()>> = LazyLock::new(InFlight::new);
    &SENDS
}
