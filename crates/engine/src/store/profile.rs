//! [`StoreProfile`]: the capabilities of a store.

use tidegate_core::chunking::{Chunking, FastCdc2020Params};
use tidegate_core::digest::DigestFunction;

/// The average chunk size of the stores in this crate: the recommendation of the Remote Execution
/// API, so that a local store shares chunks with a cache.
const CHUNK_BYTES_AVG: u64 = 512 << 10;

/// The limits of one batch of a local store: as for a batch of the Remote Execution API.
const BATCH: BatchLimits = BatchLimits { bytes_max: 4 << 20, count_max: 4096, overhead_bytes: 0 };

/// The limits of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Maximum sum of the chunks' bytes, with `overhead_bytes` added for each chunk.
    pub bytes_max: u64,
    /// Maximum number of chunks in one batch.
    pub count_max: usize,
    /// Maximum overhead of the protocol for each chunk, in bytes.
    pub overhead_bytes: u64,
}

/// The capabilities of a store, as it reports them.
///
/// The default is a store of whole blobs that are named by SHA-256 or BLAKE3.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreProfile {
    /// The hash functions for names of blobs, the preferred one first; never empty.
    pub digest_functions: Vec<DigestFunction>,
    /// Chunkings for this store, the preferred one first; empty if the store names none.
    pub chunkings: Vec<Chunking>,
    /// Whether it returns manifests.
    pub can_split: bool,
    /// Whether it accepts manifests.
    pub can_splice: bool,
    /// Batches of small chunks; `None` if it accepts none.
    pub batch: Option<BatchLimits>,
    /// Maximum length of a blob, in bytes; `None` if the store names none.
    pub blob_bytes_max: Option<u64>,
}

impl StoreProfile {
    /// The profile of a store that holds whole blobs only.
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

    /// The profile of a store on this machine that holds chunks and manifests.
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
