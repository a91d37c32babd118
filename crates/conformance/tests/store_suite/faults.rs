//! Stores with one fault each: the suite must find every fault.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use tidegate::chunked::Chunking;
use tidegate::remote::Body;
use tidegate::store::{
    self, BlobStore, ChunkStore, Manifest, MemoryStore, PutRequest, Registered, SendProgress,
    StoreProfile,
};
use tidegate::{Budget, Digest, Result};
use tidegate_conformance::store::check;

/// The fault of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Takes bytes without verifying their digest.
    Believes,
    /// Reports that nothing is missing.
    MissesNothing,
    /// Reports an empty blob as missing.
    MissesEmpty,
    /// Sends blobs from their start, and ignores the offset.
    NoOffset,
    /// Sends the last byte twice.
    Longer,
    /// Sends no bytes for an unknown blob, instead of `NotFound`.
    EmptyUnknown,
    /// Keeps the bytes of a put that fails or is dropped.
    KeepsParts,
    /// Responds to a batch in the opposite order.
    Reversed,
    /// Makes a blob of chunks that are missing.
    LostChunk,
    /// Has forgotten a manifest.
    NoManifest,
}

#[derive(Debug)]
struct Faulty {
    memory: MemoryStore,
    fault: Fault,
}

#[async_trait]
impl BlobStore for Faulty {
    async fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>> {
        let mut missing = self.memory.missing(digests).await?;
        match self.fault {
            Fault::MissesNothing => missing.clear(),
            Fault::MissesEmpty => missing.extend(digests.iter().filter(|digest| digest.len == 0)),
            _ => {}
        }
        Ok(missing)
    }

    async fn get(&self, digest: &Digest, offset: u64, budget: &Budget) -> Result<Body> {
        let bytes = match (self.fault, self.memory.bytes(digest)) {
            (Fault::NoOffset, Some(bytes)) => return Ok(store::body(bytes, 0)),
            (Fault::Longer, Some(bytes)) if !bytes.is_empty() => {
                [&*bytes, &bytes[bytes.len() - 1..]].concat().into()
            }
            (Fault::EmptyUnknown, None) => Bytes::new(),
            _ => return self.memory.get(digest, offset, budget).await,
        };
        Ok(store::body(bytes, offset))
    }

    async fn put(&self, request: &PutRequest) -> Result<()> {
        if !matches!(self.fault, Fault::Believes | Fault::KeepsParts) {
            return self.memory.put(request).await;
        }
        let mut all = BytesMut::new();
        while (all.len() as u64) < request.digest.len {
            let piece = request.source.read(all.len() as u64, 100_000).await?;
            if piece.is_empty() {
                break;
            }
            all.extend_from_slice(&piece);
            if self.fault == Fault::KeepsParts {
                self.memory.insert_unverified(request.digest, all.clone().freeze())?;
            }
        }
        if self.fault == Fault::KeepsParts {
            return request.read_verified().await.map(drop);
        }
        self.memory.insert_unverified(request.digest, all.freeze())
    }
}

#[async_trait]
impl ChunkStore for Faulty {
    async fn profile(&self) -> Result<Arc<StoreProfile>> {
        self.memory.profile().await
    }

    async fn put_batch(
        &self,
        chunks: &[(Digest, Bytes)],
        progress: &SendProgress,
    ) -> Result<Vec<Result<()>>> {
        self.memory.put_batch(chunks, progress).await
    }

    async fn get_batch(
        &self,
        digests: &[Digest],
        budget: &Budget,
    ) -> Result<Vec<Result<Option<Bytes>>>> {
        let mut answers = self.memory.get_batch(digests, budget).await?;
        if self.fault == Fault::Reversed {
            answers.reverse();
        }
        Ok(answers)
    }

    async fn manifest(
        &self,
        digest: &Digest,
        chunking: Option<&Chunking>,
        budget: &Budget,
    ) -> Result<Option<Manifest>> {
        if self.fault == Fault::NoManifest {
            return Ok(None);
        }
        self.memory.manifest(digest, chunking, budget).await
    }

    async fn register(&self, manifest: &Manifest) -> Result<Registered> {
        let registered = self.memory.register(manifest).await?;
        if self.fault == Fault::LostChunk { Ok(Registered::Done) } else { Ok(registered) }
    }
}

/// The cases that find this fault.
async fn found(fault: Fault) -> HashSet<&'static str> {
    let store = Faulty { memory: MemoryStore::new(1 << 30), fault };
    check(&store, 6).await.into_iter().map(|violation| violation.case).collect()
}

#[tokio::test]
async fn each_fault_is_found() {
    assert_eq!(found(Fault::None).await, HashSet::new());
    for (fault, case) in [
        (Fault::Believes, "wrong bytes are refused"),
        (Fault::MissesNothing, "missing blobs are found among many"),
        (Fault::MissesEmpty, "the empty blob is always there"),
        (Fault::NoOffset, "a blob is got from any offset"),
        (Fault::Longer, "a blob is there after its put"),
        (Fault::EmptyUnknown, "an unknown blob is a miss"),
        (Fault::KeepsParts, "a put that is dropped keeps nothing"),
        (Fault::Reversed, "a batch puts and gets"),
        (Fault::LostChunk, "a missing chunk is said to be missing"),
        (Fault::NoManifest, "a manifest makes a blob of chunks"),
    ] {
        let found = found(fault).await;
        assert!(found.contains(case), "{fault:?}: {found:?}");
    }
}
