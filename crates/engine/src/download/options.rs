//! The options of a download.

use std::sync::Arc;

use tidegate_core::checksum::Checksum;
use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::budget::Budget;
use crate::buffer::BufferPool;
use crate::progress::Progress;
use crate::remote::{BlobInfo, Location};
use crate::sink::file::{Durability, StateFolder};

/// The options of a download. The defaults assume a blob store some 20 ms away that limits each
/// connection to about 100 MiB/s: 32 of them fill a 25 Gbit/s link.
#[derive(Clone, Debug)]
pub(crate) struct ShardedDownloadOptions {
    /// Shards in flight; 32 by default. With 1 the blob is one request.
    pub window: u32,
    /// The smallest shard, and the size of the first one, whose response gives the blob's size; 8
    /// MiB by default. At 100 MiB/s a shard takes 80 ms, so 20 ms of latency cost a fifth. A
    /// shorter blob costs one request.
    pub shard_bytes_min: u64,
    /// The largest shard; 64 MiB by default. It bounds the cost of a restart with a server that
    /// ignores ranges, and the cost of the last shard of a large blob.
    pub shard_bytes_max: u64,
    /// Only these bytes of the blob. A part of a blob can be neither verified nor resumed.
    pub range: Option<ByteRange>,
    /// Other places that hold the same blob.
    pub mirrors: Vec<Location>,
    /// What is synced to the disk at the end.
    pub durability: Durability,
    /// Continue an earlier run of the same download.
    pub resume: bool,
    /// Checksums that the blob must have.
    pub expected: Vec<Checksum>,
    /// Compare an entity tag that may be an MD5, if nothing else can be compared.
    pub entity_tag: bool,
    /// The folder of the key that identifies this user's part files.
    pub state: StateFolder,
    /// How to retry after an interruption.
    pub retry: RetryPolicy,
    /// The process-wide limits.
    pub budget: Budget,
    /// The pool of memory for [`Target::Memory`](crate::Target::Memory). Downloads that share it
    /// reuse each other's memory.
    pub pool: BufferPool,
    /// Filled while the download runs.
    pub progress: Arc<Progress>,
    /// Gets the description of the blob with the first response.
    pub described: Option<watch::Sender<Option<BlobInfo>>>,
    /// Ends the download; the written bytes stay for a resume.
    pub cancel: CancellationToken,
}

impl ShardedDownloadOptions {
    /// The defaults, within these limits.
    pub(crate) fn within(budget: Budget) -> Self {
        Self {
            window: 32,
            shard_bytes_min: 8 << 20,
            shard_bytes_max: 64 << 20,
            range: None,
            mirrors: Vec::new(),
            durability: Durability::default(),
            resume: true,
            expected: Vec::new(),
            entity_tag: false,
            state: StateFolder::default(),
            retry: RetryPolicy::default(),
            budget,
            pool: BufferPool::default(),
            progress: Arc::default(),
            described: None,
            cancel: CancellationToken::new(),
        }
    }
}
