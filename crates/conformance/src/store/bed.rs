//! [`Bed`]: a store under test, blobs that no other case uses, and sources that misbehave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt as _;
use tidegate::store::{BlobStore, PutRequest, PutSource};
use tidegate::{Budget, Digest, DigestFunction, Error, ErrorKind, Operation};

/// The store, and a generator for the blobs of its cases.
pub(super) struct Bed<'a, S: ?Sized> {
    pub(super) store: &'a S,
    pub(super) budget: Budget,
    function: DigestFunction,
    seed: u64,
    made: AtomicU64,
}

impl<'a, S: BlobStore + ?Sized> Bed<'a, S> {
    pub(super) fn new(store: &'a S, function: DigestFunction, seed: u64) -> Self {
        Self { store, budget: Budget::default(), function, seed, made: AtomicU64::new(0) }
    }

    /// Bytes that no other call returns, and their digest.
    pub(super) fn blob(&self, len: usize) -> (Digest, Bytes) {
        // Short blobs of one case must differ: the number comes first.
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let bytes = noise(len, mix(self.seed) ^ mix(number.wrapping_add(1)));
        (self.digest(&bytes), bytes)
    }

    pub(super) fn digest(&self, bytes: &[u8]) -> Digest {
        Digest::of(self.function, bytes)
    }

    pub(super) async fn put(&self, digest: Digest, bytes: &Bytes) -> Result<(), String> {
        self.put_source(digest, bytes.clone()).await.map_err(|error| error.chain())
    }

    pub(super) async fn put_source(
        &self,
        digest: Digest,
        source: impl PutSource + 'static,
    ) -> tidegate::Result<()> {
        self.store.put(&PutRequest::new(digest, Arc::new(source))).await
    }

    pub(super) async fn is_missing(&self, digest: &Digest) -> Result<bool, String> {
        let missing = self.store.missing(&[*digest]).await.map_err(|error| error.chain())?;
        match &*missing {
            [] => Ok(false),
            [one] if one == digest => Ok(true),
            other => Err(format!("expected at most {digest} to be missing, got {other:?}")),
        }
    }

    /// The bytes of a blob from `offset` on. Fails if the store sends more than the digest's
    /// length.
    pub(super) async fn get(&self, digest: &Digest, offset: u64) -> tidegate::Result<Bytes> {
        let mut body = self.store.get(digest, offset, &self.budget).await?;
        let mut all = BytesMut::new();
        while let Some(frame) = body.try_next().await? {
            all.extend_from_slice(&frame);
            if all.len() as u64 > digest.len.saturating_sub(offset) {
                let message = "the body is longer than the blob";
                let target = digest.to_string();
                return Err(Error::new(ErrorKind::Integrity, Operation::Read, target, message));
            }
        }
        Ok(all.freeze())
    }

    /// Fails unless the store has the blob and returns these bytes.
    pub(super) async fn expect(&self, digest: &Digest, bytes: &Bytes) -> Result<(), String> {
        super::ensure(!self.is_missing(digest).await?, || format!("{digest} is missing"))?;
        let got = self.get(digest, 0).await.map_err(|error| error.chain())?;
        super::ensure(got == bytes, || format!("{digest}: got other bytes ({})", got.len()))
    }

    /// Fails unless the store lacks the blob.
    pub(super) async fn expect_none(&self, digest: &Digest) -> Result<(), String> {
        super::ensure(self.is_missing(digest).await?, || format!("{digest} is not missing"))?;
        match self.get(digest, 0).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(format!("expected NotFound, got {}", error.chain())),
            Ok(got) => Err(format!("{digest}: got {} bytes of a blob that is missing", got.len())),
        }
    }
}

/// A source that delivers at most a fixed number of bytes at a time.
#[derive(Debug)]
pub(super) struct InPieces(pub(super) Bytes, pub(super) usize);

#[async_trait]
impl PutSource for InPieces {
    async fn read(&self, offset: u64, len_max: usize) -> tidegate::Result<Bytes> {
        self.0.read(offset, len_max.min(self.1)).await
    }
}

/// A source that delivers the first bytes, and then fails or waits for ever.
#[derive(Debug)]
pub(super) struct Stopping {
    pub(super) bytes: Bytes,
    pub(super) hangs: bool,
}

#[async_trait]
impl PutSource for Stopping {
    async fn read(&self, offset: u64, len_max: usize) -> tidegate::Result<Bytes> {
        let given = self.bytes.read(offset, len_max).await?;
        if !given.is_empty() {
            return Ok(given);
        }
        if self.hangs {
            std::future::pending::<()>().await;
        }
        Err(Error::new(ErrorKind::Changed, Operation::Read, "the source", "it fails"))
    }
}

/// Bytes that do not compress.
fn noise(len: usize, seed: u64) -> Bytes {
    let words = (0..len.div_ceil(8) as u64).map(|index| mix(seed.wrapping_add(mix(index))));
    let mut bytes: BytesMut = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(len);
    bytes.freeze()
}

/// The output function of `SplitMix64` (Steele, Lea, Flood, 2014), after one step.
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
