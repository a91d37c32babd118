//! [`ChunkStore`]: blobs as lists of chunks, and many small chunks in one call. Every method has a
//! default, so that each [`BlobStore`] can be a `ChunkStore`.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt as _;
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;

use super::{BlobStore, Manifest, PutRequest, SendProgress, StoreProfile};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};

/// The result of registering a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// The blob exists now.
    Done,
    /// A chunk is missing, possibly removed since it was put. The caller puts the missing chunks,
    /// then registers again.
    ChunkMissing,
}

/// A store of chunks, and of blobs as manifests of chunks.
///
/// The defaults suit a store that holds whole blobs, and neither accepts nor returns manifests.
#[async_trait]
pub trait ChunkStore: BlobStore {
    /// The store's capabilities. The store asks for them once and keeps the result.
    async fn profile(&self) -> Result<Arc<StoreProfile>> {
        Ok(Arc::new(StoreProfile::default()))
    }

    /// The bytes of small chunks, in the order of `digests`. Each has its own result: an error, or
    /// `None` if it is missing. They must fit [`StoreProfile::batch`]. The caller verifies them,
    /// and has taken their bytes from its budget. The store takes memory for decoding from
    /// `budget`, as in [`BlobStore::get`].
    ///
    /// Fails with `Unsupported` if the store cannot return this batch; then the caller gets each
    /// chunk by itself.
    ///
    /// The default gets one after another.
    async fn get_batch(
        &self,
        digests: &[Digest],
        budget: &Budget,
    ) -> Result<Vec<Result<Option<Bytes>>>> {
        let mut answers = Vec::with_capacity(digests.len());
        for digest in digests {
            answers.push(match get_whole(self, digest, budget).await {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                outcome => outcome.map(Some),
            });
        }
        Ok(answers)
    }

    /// Puts small chunks, in one request; the results are in their order. They must fit
    /// [`StoreProfile::batch`].
    ///
    /// Fails with `Unsupported` if the store does not accept this batch; then the caller puts each
    /// chunk by itself.
    ///
    /// The bytes stay charged to the caller's budget until the last clone of them is dropped. So
    /// bytes that a connection is still sending are counted. A store that keeps bytes after the
    /// call must copy them: otherwise an upload larger than the budget never ends.
    ///
    /// The store counts in `progress` the bytes that it hands to the connection, if it knows them.
    ///
    /// The default puts one after another.
    async fn put_batch(
        &self,
        chunks: &[(Digest, Bytes)],
        progress: &SendProgress,
    ) -> Result<Vec<Result<()>>> {
        let mut answers = Vec::with_capacity(chunks.len());
        for (digest, bytes) in chunks {
            let request = PutRequest::new(*digest, Arc::new(bytes.clone()));
            answers.push(self.put(&request).await);
            progress.passed(digest.len);
        }
        Ok(answers)
    }

    /// As [`BlobStore::put_buffer_bytes`], for a batch with `len` bytes. 0 by default.
    fn put_batch_buffer_bytes(&self, len: u64) -> u64 {
        let _ = len;
        0
    }

    /// The chunks that make up a blob, validated; `None` if the blob is missing, or has no list of
    /// chunks.
    ///
    /// `chunking` is the chunking that the caller prefers; the store may use another one.
    ///
    /// Fails with `Integrity` for a response that cannot be a manifest of this blob.
    ///
    /// Memory for the incomplete manifest is taken from `budget` without waiting, because the
    /// caller already holds one of its request permits. Fails with `Unsupported` if the budget has
    /// too little.
    ///
    /// The default returns `None`.
    async fn manifest(
        &self,
        digest: &Digest,
        chunking: Option<&Chunking>,
        budget: &Budget,
    ) -> Result<Option<Manifest>> {
        let _ = (digest, chunking, budget);
        Ok(None)
    }

    /// Makes a blob from existing chunks. If the blob already exists, that is a success.
    ///
    /// Fails with `Unsupported` if the store cannot accept this manifest, as by default; then the
    /// caller may put the whole blob.
    async fn register(&self, manifest: &Manifest) -> Result<Registered> {
        let message = "the store takes no manifests";
        let target = manifest.blob().to_string();
        Err(Error::new(ErrorKind::Unsupported, Operation::Write, target, message))
    }
}

/// Gets one small blob, and checks its length.
async fn get_whole(
    store: &(impl BlobStore + ?Sized),
    digest: &Digest,
    budget: &Budget,
) -> Result<Bytes> {
    let mut body = store.get(digest, 0, budget).await?;
    let mut all = BytesMut::new();
    while let Some(frame) = body.try_next().await? {
        all.extend_from_slice(&frame);
        if all.len() as u64 > digest.len {
            break;
        }
    }
    if all.len() as u64 == digest.len {
        return Ok(all.freeze());
    }
    let message = format!("expected {} bytes, got {}", digest.len, all.len());
    Err(Error::new(ErrorKind::Integrity, Operation::Read, digest.to_string(), message))
}
