//! What the store can do, for the engine.

use tidegate::store::{BatchLimits, StoreProfile};
use tidegate_core::chunking::{Chunking, FastCdc2020Params};

/// The average chunk: the recommendation of the Remote Execution API.
const CHUNK_BYTES_AVG: u64 = 512 << 10;

/// The limits of one batch: as for a batch of the Remote Execution API.
const BATCH: BatchLimits = BatchLimits { bytes_max: 4 << 20, count_max: 4096, overhead_bytes: 0 };

/// Chunks as the Remote Execution API recommends, so that a local store shares them with a cache.
pub(super) fn profile() -> StoreProfile {
    let mut profile = StoreProfile::default();
    let chunking = FastCdc2020Params::new(CHUNK_BYTES_AVG, 0).ok().map(Chunking::FastCdc2020);
    profile.chunkings = chunking.into_iter().collect();
    profile.can_split = true;
    profile.can_splice = true;
    profile.batch = Some(BATCH);
    profile
}
