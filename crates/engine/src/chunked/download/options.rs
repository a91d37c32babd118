//! What the caller of a chunked download chooses.

use std::path::PathBuf;
use std::sync::Arc;

use tidegate_core::retry::RetryPolicy;
use tidegate_core::window::WindowOptions;
use tokio_util::sync::CancellationToken;

use crate::budget::Budget;
use crate::buffer::BufferPool;
use crate::chunked::inflight::ChunksInFlight;
use crate::progress::Progress;
use crate::sink::file::{Durability, StateFolder};

/// How a chunked download is done. The defaults assume a cache some 25 ms away and chunks of some
/// 512 KiB.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "choices that have nothing to do with each other"
)]
pub(crate) struct ChunkedDownloadOptions {
    /// Requests in flight for this blob: 16 at first, then as many as are worth having.
    pub window: WindowOptions,
    /// Files that may share chunks with the blob, such as older versions of it, the likeliest
    /// first. What is found in them is copied, not fetched.
    pub seeds: Vec<PathBuf>,
    /// The file that has the target's name already is a seed, too. On by default.
    pub seed_target: bool,
    /// Keep an index of the chunks of each of [`seeds`](Self::seeds) beside it
    /// (`.NAME.tidegate-chunks`), and use the one that is there, the target's included. On by
    /// default.
    pub seed_indexes: bool,
    /// Keep such an index beside a target that is a file and came as chunks, so that it need not be
    /// cut when it is a seed. Off by default: whoever names one file expects one file.
    pub index_target: bool,
    /// Fetch the blob as a whole, from its beginning, where chunks of it cannot be had: one is
    /// missing, or the store's list of them cannot be right. On by default; without it, that is an
    /// error.
    pub whole_fallback: bool,
    /// What must be on the disk at the end.
    pub durability: Durability,
    /// Go on with what an earlier attempt left in its part file.
    pub resume: bool,
    /// Where the key lies by which part files of earlier runs are known to be this user's.
    pub state: StateFolder,
    /// How to go on after an interruption.
    pub retry: RetryPolicy,
    /// The process-wide limits.
    pub budget: Budget,
    /// Chunks that other transfers of the client are moving.
    pub(crate) in_flight: ChunksInFlight,
    /// Where memory for [`crate::download::Target::Memory`] comes from and goes to.
    pub pool: BufferPool,
    /// Filled while the download runs.
    pub progress: Arc<Progress>,
    /// Ends the download; what has been written stays for a resume.
    pub cancel: CancellationToken,
}

impl ChunkedDownloadOptions {
    /// The defaults, within these limits.
    pub(crate) fn within(budget: Budget) -> Self {
        Self {
            window: WindowOptions::default(),
            seeds: Vec::new(),
            seed_target: true,
            seed_indexes: true,
            index_target: false,
            whole_fallback: true,
            durability: Durability::default(),
            resume: true,
            state: StateFolder::default(),
            retry: RetryPolicy::default(),
            budget,
            in_flight: ChunksInFlight::default(),
            pool: BufferPool::default(),
            progress: Arc::default(),
            cancel: CancellationToken::new(),
        }
    }
}
