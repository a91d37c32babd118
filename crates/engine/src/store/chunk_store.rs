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

/// What became of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// The blob is there.
    Done,
    /// A chunk is not there (any more); put what is missing, then register again.
    ChunkMissing,
}

/// A place that holds chunks, and blobs as manifests of them.
///
/// The defaults are those of a store that holds whole blobs, and neither takes nor gives manifests.
#[async_trait]
pub trait ChunkStore: BlobStore {
    /// What it can do. The store asks once and keeps the answer.
    async fn profile(&self) -> Result<Arc<StoreProfile>> {
        Ok(Arc::new(StoreProfile::default()))
    }

    /// The bytes of small chunks, in the order of `digests`, each by itself: one may fail, and
    /// `None` is not there. They must fit [`StoreProfile::batch`]. The caller verifies them, and has
    /// taken their bytes from its budget; the store takes from `budget` what it needs to decode
    /// them, as in [`BlobStore::get`].
    ///
    /// Fails with `Unsupported` where it gives no such batch; each may be got by itself.
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

    /// Puts small chunks, in one request; the answers are in their order. They must fit
    /// [`StoreProfile::batch`].
    ///
    /// Fails with `Unsupported` where it takes no such batch; each may be put by itself.
    ///
    /// The bytes stay charged to the caller's budget until the last clone of them is dropped, so
    /// that what a connection is still sending counts. A store that keeps bytes beyond the call has
    /// to copy them: otherwise an upload larger than the budget never ends.
    ///
    /// Counts in `progress` what it hands to the connection, where it knows.
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

    /// As [`BlobStore::put_buffer_bytes`], of a batch with `len` bytes. 0 by default.
    fn put_batch_buffer_bytes(&self, len: u64) -> u64 {
        let _ = len;
        0
    }

    /// The chunks that make up a blob, validated; `None` where the blob is not there, or cannot be
    /// given as chunks.
    ///
    /// `chunking` is how the caller would have it cut; the store may know better.
    ///
    /// Fails with `Integrity` for an answer that cannot be a manifest of this blob.
    ///
    /// What is gathered until the manifest is whole is taken from `budget`, without waiting, since
    /// the caller holds a request of it. Fails with `Unsupported` where the budget has less.
    ///
    /// The default gives none.
    async fn manifest(
        &self,
        digest: &Digest,
        chunking: Option<&Chunking>,
        budget: &Budget,
    ) -> Result<Option<Manifest>> {
        let _ = (digest, chunking, budget);
        Ok(None)
    }

    /// Makes a blob of chunks that are there. That the blob is there already is success.
    ///
    /// Fails with `Unsupported` where it cannot take this manifest, as by default; the blob may be
    /// put whole.
    async fn register(&self, manifest: &Manifest) -> Result<Registered> {
        let message = "the store takes no manifests";
        let target = manifest.blob().to_string();
        Err(Error::new(ErrorKind::Unsupported, Operation::Write, target, message))
    }
}

/// One small blob, as many bytes as its digest says.
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
