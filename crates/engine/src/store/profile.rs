//! [`StoreProfile`]: what a store can do.

use tidegate_core::chunking::{Chunking, FastCdc2020Params};
use tidegate_core::digest::DigestFunction;

/// The average chunk of the stores that this crate implements: the Remote Execution API's
/// recommendation, so that a local store shares chunks with a cache.
const CHUNK_BYTES_AVG: u64 = 512 << 10;

/// The chunks of one batch of a local store: as a batch of the Remote Execution API.
const BATCH: BatchLimits = BatchLimits { bytes_max: 4 << 20, count_max: 4096, overhead_bytes: 0 };

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
///
/// The default is a store of whole blobs that are named by SHA-256 or BLAKE3.
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
        }
    }

    /// Of a store on this machine that holds chunks and manifests.
    pub(super) fn local() -> Self {
        let chunking = FastCdc2020Params::new(CHUNK_BYTES_AVG, 0).ok().map(Chunking::FastCdc2020);
        Self {
            chunkings: chunking.into_iter().collect(),
            can_split: true,
            can_splice: true,
            batch: Some(BATCH),
            ..Self::default()
        }
    }
}

impl Default for StoreProfile {
    fn default() -> Self {
        let mut profile = Self::new(DigestFunction::Sha256);
        profile.digest_functions.push(DigestFunction::Blake3);
        profile
    }
}
