//! What the caller of a download chooses.

use std::sync::Arc;

use tidegate_core::checksum::Checksum;
use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;
use tokio_util::sync::CancellationToken;

use crate::budget::Budget;
use crate::buffer::BufferPool;
use crate::progress::Progress;
use crate::sink::file::{Durability, StateFolder};

/// How a download is done. The defaults assume a blob store some 20 ms away that holds each
/// connection to about 100 MiB/s: 32 of them fill a 25 Gbit/s link.
#[derive(Clone, Debug)]
pub(crate) struct ShardedDownloadOptions {
    /// Shards in flight; 32 by default. With 1 the blob is one request.
    pub window: u32,
    /// The smallest shard, and the size of the first one, whose answer tells the blob's size;
    /// 8 MiB by default: at 100 MiB/s it takes 80 ms, so that 20 ms of latency cost a fifth, and
    /// blobs below it cost one request.
    pub shard_bytes_min: u64,
    /// The largest shard; 64 MiB by default, which bounds what a restart of a server that
    /// ignores ranges, or the tail of a large blob, can cost.
    pub shard_bytes_max: u64,
    /// Only these bytes of the blob; such a part cannot be verified, nor resumed.
    pub range: Option<ByteRange>,
    /// What must be on the disk at the end.
    pub durability: Durability,
    /// Go on where an earlier run of the same download stopped.
    pub resume: bool,
    /// Checksums that the blob must have.
    pub expected: Vec<Checksum>,
    /// Where the key lies by which part files of earlier runs are known to be this user's.
    pub state: StateFolder,
    /// How to go on after an interruption.
    pub retry: RetryPolicy,
    /// The process-wide limits.
    pub budget: Budget,
    /// Where memory for [`Target::Memory`](crate::Target::Memory) comes from and goes to; downloads that share it reuse
    /// each other's.
    pub pool: BufferPool,
    /// Filled while the download runs.
    pub progress: Arc<Progress>,
    /// Ends the download; what has been written stays for a resume.
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
            durability: Durability::default(),
            resume: true,
            expected: Vec::new(),
            state: StateFolder::default(),
            retry: RetryPolicy::default(),
            budget,
            pool: BufferPool::default(),
            progress: Arc::default(),
            cancel: CancellationToken::new(),
        }
    }
}
