//! Blobs on the core: whole, compressed, as chunks, and as slices of another blob. All calls block.
//!
//! | file | idea |
//! |---|---|
//! | `form` | what a value is, and the keys of what stands for a blob |
//! | `presence` | which blobs are there, with everything that they need |
//! | `reader` | the bytes of a blob, in order |
//! | `packed` | the bytes of a blob as a zstd frame |
//! | `by_hash` | blobs whose length is unknown |
//! | `value` | opaque values of clients |
//! | `incoming` | a blob that arrives, plain or compressed |
//! | `unnamed` | a blob that arrives without a name, and is read meanwhile |
//! | `batch` | blobs that arrive together in one message |
//!
//! A blob has up to three values, each under a key of its own:
//!
//! | value | content |
//! |---|---|
//! | whole | its bytes, plain or compressed with zstd |
//! | manifest | its chunks, in order |
//! | slice | where it lies in another blob that is stored whole and plain |
//!
//! A blob is there if its whole value is, or its manifest and all its chunks are, or its slice and
//! the blob that it lies in are. A chunk of a manifest is whole or a slice, and the blob of a slice
//! is whole. So nothing refers to itself, and a check reads at most two values for each chunk.
//!
//! Invariants:
//! - A value has a blob's key only after its bytes were hashed.
//! - Look-ups, reads and manifests use the same rules, so a lost chunk makes the blob missing for
//!   all of them.
//! - A look-up touches everything that it needs to say yes.

mod batch;
mod by_hash;
mod form;
mod incoming;
mod packed;
mod presence;
mod reader;
mod unnamed;
mod value;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::sync::Arc;

use tidegate_core::digest::Digest;

use super::core::{Core, Op};
use super::error::StoreResult;
use super::files::StagedFile;
use super::key::{Key, Owner};
use super::threads::Store;

pub(crate) use batch::BatchEntry;
pub use by_hash::BlobHash;
pub(super) use by_hash::IncomingByHash;
pub(super) use form::{Form, manifest_key, opaque_key, slice_key};
pub(super) use incoming::{Incoming, IncomingPacked};
pub(super) use packed::PackedReader;
pub(super) use presence::Touch;
pub(super) use reader::BlobReader;
pub(super) use unnamed::IncomingUnnamed;
pub(crate) use unnamed::StagedReader;
pub(super) use value::IncomingValue;

/// Bytes of one read and of one piece.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// The blobs of a store. Clones are the same store.
#[derive(Clone, Debug)]
pub(super) struct Blobs {
    pub(super) core: Arc<Core>,
    /// Whose blobs they are.
    owner: Owner,
    /// The store's threads; `None` if the caller takes the steps of the core itself.
    open: Option<OpenStore>,
}

/// An open store, and the lock of its folder, which it holds until its threads have ended.
#[derive(Clone, Debug)]
struct OpenStore {
    store: Store,
    _lock: Arc<File>,
}

impl Blobs {
    /// The blobs of a core without threads.
    #[cfg(test)]
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core, owner: Owner::SHARED, open: None }
    }

    /// The blobs of an open store, whose folder is locked.
    pub(super) fn of(store: Store, lock: File) -> Self {
        let core = Arc::clone(store.core());
        let open = OpenStore { store, _lock: Arc::new(lock) };
        Self { core, owner: Owner::SHARED, open: Some(open) }
    }

    /// The blobs of another owner in the same store.
    pub(super) fn of_owner(&self, owner: Owner) -> Self {
        Self { owner, ..self.clone() }
    }

    /// The key of a blob.
    pub(super) fn key(&self, digest: &Digest) -> Key {
        Key::blob_of(self.owner, digest)
    }

    /// The key of the manifest of a blob.
    pub(super) fn manifest_key(&self, digest: &Digest) -> Key {
        manifest_key(self.owner, digest)
    }

    /// The key of the place of a blob in another one.
    pub(super) fn slice_key(&self, digest: &Digest) -> Key {
        slice_key(self.owner, digest)
    }

    /// A new file. Blocks; waits for the remover while the store is full.
    fn stage(&self) -> StoreResult<StagedFile> {
        match &self.open {
            Some(open) => open.store.stage(),
            None => self.core.stage(None),
        }
    }

    /// Appends to a file. Blocks; waits for the remover while the store is full.
    fn write_staged(&self, file: &mut StagedFile, bytes: &[u8]) -> StoreResult<()> {
        match &self.open {
            Some(open) => open.store.write_staged(file, bytes),
            None => file.write(bytes),
        }
    }

    /// Commits operations, with those of other callers as one group. Blocks.
    pub(super) fn commit(&self, ops: Vec<Op>) -> Vec<StoreResult<()>> {
        match &self.open {
            Some(open) => open.store.commit_blocking(ops),
            None => self.core.commit(ops),
        }
    }

    /// As [`Self::commit`], without blocking.
    ///
    /// CANCEL: operations that were handed over are committed although the future was dropped.
    pub(super) async fn commit_async(&self, ops: Vec<Op>) -> Vec<StoreResult<()>> {
        match &self.open {
            Some(open) => open.store.commit(ops).await,
            None => self.core.commit(ops),
        }
    }
}
