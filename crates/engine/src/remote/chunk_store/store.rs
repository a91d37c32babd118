//! [`ChunkStore`]: what is asked of a store of chunks, and nothing more, so that other stores than
//! the Remote Execution API's can follow.
//!
//! Like a [`crate::remote::Read`], a store makes exactly one attempt for each call and says in
//! the error whether another can help; trying again, windows, batches' make-up and the budget are
//! the business of whoever calls. Every method is cancel-safe: dropping its future ends what it
//! has in flight.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::{Digest, DigestFunction};

use super::{Manifest, SendProgress};
use crate::budget::Budget;
use crate::error::Result;
use crate::remote::Body;

/// How much fits into one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// The chunks' bytes together, what the protocol adds to each already taken off.
    pub bytes_max: u64,
    /// Chunks in one batch.
    pub count_max: usize,
    /// What the protocol adds to each chunk, at most, in bytes.
    pub overhead_bytes: u64,
}

/// What a store can do, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreProfile {
    /// The hash functions that may name blobs here, the preferred first; never empty.
    pub digest_functions: Vec<DigestFunction>,
    /// How blobs may be cut for this store, the preferred first; empty where it does not say.
    pub chunkings: Vec<Chunking>,
    /// It gives manifests.
    pub can_split: bool,
    /// It takes manifests.
    pub can_splice: bool,
    /// Batches of small chunks; `None` where it takes none.
    pub batch: Option<BatchLimits>,
    /// The longest blob that it takes, in bytes, where it says so.
    pub blob_bytes_max: Option<u64>,
    /// What is put is packed before it is sent: while it is on its way it may take twice the
    /// memory.
    pub packs: bool,
}

impl StoreProfile {
    /// Of a store that holds whole blobs only.
    pub fn new(digest_function: DigestFunction) -> Self {
        Self {
            digest_functions: vec![digest_function],
            chunkings: Vec::new(),
            can_split: false,
            can_splice: false,
            batch: None,
            blob_bytes_max: None,
            packs: false,
        }
    }
}

/// Where the bytes of a blob that is put come from. They may be asked for again after a failure.
#[async_trait]
pub trait PutSource: fmt::Debug + Send + Sync {
    /// The bytes from `offset` on: at least one and at most `len_max`, or none at the end. They are
    /// paid for by whoever puts; see [`ChunkStore::put_batch`].
    async fn read(&self, offset: u64, len_max: usize) -> Result<Bytes>;
}

#[async_trait]
impl PutSource for Bytes {
    async fn read(&self, offset: u64, len_max: usize) -> Result<Bytes> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let end = start.saturating_add(len_max).min(self.len());
        Ok(self.slice(start..end))
    }
}

/// One attempt to put one blob.
#[derive(Clone, Debug)]
pub struct PutRequest {
    /// The blob's name.
    pub digest: Digest,
    /// The same for attempts that go on where an earlier one broke, and for no others: 32
    /// hexadecimal digits.
    pub upload_id: String,
    /// An earlier attempt failed: ask how much of it was kept, and go on there.
    pub resume: bool,
    /// Its bytes.
    pub source: Arc<dyn PutSource>,
    /// Told what is handed to the connection. What `source` gives is told by the source.
    pub progress: SendProgress,
}

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
/// All digests of one call are of one function. The empty blob is always there and is never asked
/// for.
#[async_trait]
pub trait ChunkStore: fmt::Debug + Send + Sync {
    /// What names this store, and who asks it, among all others of the process: chunks in flight to
    /// or from stores of equal identity are shared. So it must differ between callers whom the store
    /// could treat differently, such as those with other credentials; it must not hold these.
    fn identity(&self) -> &str;

    /// What it can do; asked once and kept.
    async fn profile(&self) -> Result<Arc<StoreProfile>>;

    /// Those of `digests` that are not there, in any order. However many: the store splits what
    /// does not fit into one request.
    async fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>>;

    /// The bytes of one blob, chunk or not, from `offset` on. Not verified.
    ///
    /// Fails with `NotFound` where it is not there.
    ///
    /// What the store needs to decode the bytes is taken from `budget`, without waiting, since the
    /// caller holds a request of it.
    async fn get(&self, digest: &Digest, offset: u64, budget: &Budget) -> Result<Body>;

    /// The bytes of small chunks, in the order of `digests`, each alone: one may fail, and `None`
    /// is not there. Must fit [`StoreProfile::batch`]. Not verified.
    ///
    /// Fails with `Unsupported` where it gives no such batch; each may be got by itself.
    async fn get_batch(&self, digests: &[Digest]) -> Result<Vec<Result<Option<Bytes>>>>;

    /// Puts one blob. That it is there already is success.
    async fn put(&self, request: &PutRequest) -> Result<()>;

    /// Puts small chunks, in one request; the answers are in their order. Must fit
    /// [`StoreProfile::batch`].
    ///
    /// Fails with `Unsupported` where it takes no such batch; each may be put by itself.
    ///
    /// The bytes are held on whoever's budget puts them until the last clone of them is gone, so
    /// that what a connection is still sending counts. A store that keeps bytes beyond the call has
    /// to copy them, or nobody can put more than the budget has.
    ///
    /// Tells `progress` what it hands to the connection, where it knows.
    async fn put_batch(
        &self,
        chunks: &[(Digest, Bytes)],
        progress: &SendProgress,
    ) -> Result<Vec<Result<()>>>;

    /// The chunks that make up a blob, validated; `None` where the blob is not there, or cannot be
    /// given as chunks.
    ///
    /// `chunking` is how the caller would have it cut; the store may know better.
    ///
    /// Fails with `Integrity` for an answer that cannot be a manifest of this blob.
    ///
    /// What is gathered until the manifest is whole is taken from `budget`, without waiting, since the
    /// caller holds a request of it. Fails with `Unsupported` where the budget has not so much.
    async fn manifest(
        &self,
        digest: &Digest,
        chunking: Option<&Chunking>,
        budget: &Budget,
    ) -> Result<Option<Manifest>>;

    /// Makes a blob of chunks that are there. That the blob is there already is success.
    ///
    /// Fails with `Unsupported` where it cannot take this manifest; the blob may be put whole.
    async fn register(&self, manifest: &Manifest) -> Result<Registered>;
}
