//! [`MemoryStore`]: blobs, chunks and manifests in memory.
//!
//! Invariants: the bytes of each blob are charged to the store's budget as long as the store has
//! them. A blob that does not fit is refused: the store evicts nothing. [`BlobStore::put`] and
//! [`ChunkStore::register`] compare the bytes with the digest before they keep them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;

use super::verify::Verifier;
use super::{
    BlobStore, ChunkStore, Manifest, PutRequest, Registered, StoreProfile, body, failed, not_found,
};
use crate::budget::{Budget, BudgetOptions, BytesPermit};
use crate::error::{ErrorKind, Operation, Result};
use crate::offload::offload;
use crate::remote::Body;

/// Blobs in memory. Clones are the same store.
///
/// A blob that was registered as a manifest takes no memory in addition to its chunks, which other
/// blobs may share.
#[derive(Clone, Debug)]
pub struct MemoryStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    budget: Budget,
    profile: Arc<StoreProfile>,
    content: Mutex<Content>,
}

#[derive(Debug, Default)]
struct Content {
    blobs: HashMap<Digest, StoredBlob>,
    manifests: HashMap<Digest, Manifest>,
}

#[derive(Debug)]
struct StoredBlob {
    bytes: Bytes,
    _permit: BytesPermit,
}

impl MemoryStore {
    /// A store of up to `bytes_max` bytes, with each blob rounded up to 4 KiB.
    pub fn new(bytes_max: u64) -> Self {
        Self::in_budget(&Budget::new(BudgetOptions { requests: 0, bytes: bytes_max }))
    }

    /// A store that takes its bytes from `budget`. Transfers with the same budget have less room,
    /// the more the store holds.
    pub fn in_budget(budget: &Budget) -> Self {
        Self(Arc::new(Inner {
            budget: budget.share(),
            profile: Arc::new(StoreProfile::local()),
            content: Mutex::default(),
        }))
    }

    /// The digests of all blobs, including those that exist as manifests, in no order.
    pub fn digests(&self) -> Vec<Digest> {
        let content = self.content();
        let manifests = content.manifests.keys().filter(|blob| !content.blobs.contains_key(*blob));
        content.blobs.keys().chain(manifests).copied().collect()
    }

    /// The bytes of a blob; copied if they are in several chunks.
    pub fn bytes(&self, digest: &Digest) -> Option<Bytes> {
        let runs = self.content().runs(digest)?;
        if let [bytes] = &*runs {
            return Some(bytes.clone());
        }
        let mut all = BytesMut::new();
        for run in runs {
            all.extend_from_slice(&run);
        }
        Some(all.freeze())
    }

    /// Holds `bytes` as the blob `digest` without verifying them: for a caller that has verified
    /// them, and for tests of readers with wrong bytes.
    ///
    /// Fails with `Storage` if the store is full.
    pub fn insert_unverified(&self, digest: Digest, bytes: Bytes) -> Result<()> {
        let permit = self.reserve(&digest, bytes.len() as u64)?;
        self.content().blobs.insert(digest, StoredBlob { bytes, _permit: permit });
        Ok(())
    }

    /// Removes a blob and its manifest, but not its chunks; returns whether there was one.
    pub fn remove(&self, digest: &Digest) -> bool {
        let mut content = self.content();
        let manifest = content.manifests.remove(digest);
        content.blobs.remove(digest).is_some() || manifest.is_some()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserve(&self, digest: &Digest, len: u64) -> Result<BytesPermit> {
        let bytes_max = self.0.budget.limits().bytes;
        let permit = if len > bytes_max { None } else { self.0.budget.try_bytes(len) };
        permit.ok_or_else(|| {
            let message = format!("the store is full: no room for {len} of its {bytes_max} bytes");
            failed(ErrorKind::Storage, Operation::Write, digest, message)
        })
    }
}

impl Content {
    /// A blob's bytes in order: one run, or one run for each chunk.
    fn runs(&self, digest: &Digest) -> Option<Vec<Bytes>> {
        if digest.len == 0 {
            return Some(vec![Bytes::new()]);
        }
        if let Some(blob) = self.blobs.get(digest) {
            return Some(vec![blob.bytes.clone()]);
        }
        self.chunks(self.manifests.get(digest)?)
    }

    /// The chunks' bytes, if none is missing.
    fn chunks(&self, manifest: &Manifest) -> Option<Vec<Bytes>> {
        let bytes = |chunk| self.blobs.get(chunk).map(|blob| blob.bytes.clone());
        manifest.chunks().iter().map(bytes).collect()
    }

    fn has(&self, digest: &Digest) -> bool {
        let is_there = |chunk: &Digest| self.blobs.contains_key(chunk);
        let mut chunks = self.manifests.get(digest).map(|known| known.chunks().iter());
        is_there(digest) || chunks.as_mut().is_some_and(|chunks| chunks.all(is_there))
    }
}

#[async_trait]
impl BlobStore for MemoryStore {
    async fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>> {
        let content = self.content();
        let is_missing = |digest: &&Digest| digest.len > 0 && !content.has(digest);
        Ok(digests.iter().filter(is_missing).copied().collect())
    }

    async fn get(&self, digest: &Digest, offset: u64, _budget: &Budget) -> Result<Body> {
        let runs = self.content().runs(digest).ok_or_else(|| not_found(digest))?;
        let mut start = 0_u64;
        let bodies: Vec<Body> = (runs.into_iter())
            .map(|run| {
                let skipped = offset.saturating_sub(start);
                start += run.len() as u64;
                body(run, skipped)
            })
            .collect();
        Ok(Box::pin(stream::iter(bodies).flatten()))
    }

    async fn put(&self, request: &PutRequest) -> Result<()> {
        let digest = request.digest;
        if digest.len > 0 && self.content().blobs.contains_key(&digest) {
            return Ok(());
        }
        let permit = self.reserve(&digest, digest.len)?;
        // CANCEL: nothing is kept yet.
        let bytes = request.read_verified().await?;
        if digest.len > 0 {
            self.content().blobs.insert(digest, StoredBlob { bytes, _permit: permit });
        }
        Ok(())
    }

    fn identity(&self) -> Cow<'_, str> {
        Cow::Owned(format!("memory at {:p}", Arc::as_ptr(&self.0)))
    }
}

#[async_trait]
impl ChunkStore for MemoryStore {
    async fn profile(&self) -> Result<Arc<StoreProfile>> {
        Ok(Arc::clone(&self.0.profile))
    }

    async fn manifest(
        &self,
        digest: &Digest,
        _: Option<&Chunking>,
        _: &Budget,
    ) -> Result<Option<Manifest>> {
        let content = self.content();
        let whole = |manifest: &&Manifest| content.chunks(manifest).is_some();
        Ok(content.manifests.get(digest).filter(whole).cloned())
    }

    async fn register(&self, manifest: &Manifest) -> Result<Registered> {
        let blob = *manifest.blob();
        let runs = {
            let content = self.content();
            match content.chunks(manifest) {
                Some(runs) => runs,
                None if content.has(&blob) => return Ok(Registered::Done),
                None => return Ok(Registered::ChunkMissing),
            }
        };
        // CANCEL: nothing is kept yet.
        offload(Operation::Write, &blob.to_string(), move || {
            let mut verifier = Verifier::new(&blob);
            for run in runs {
                verifier.update(&run);
            }
            let mismatch = |message| failed(ErrorKind::Integrity, Operation::Write, &blob, message);
            verifier.finish().map_err(mismatch)
        })
        .await?;
        self.content().manifests.insert(blob, manifest.clone());
        Ok(Registered::Done)
    }
}
