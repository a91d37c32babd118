//! [`ChunkedDownloadOptions`]: the caller's choices for a chunked download.

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

/// Options of a chunked download. The defaults assume a cache at a distance of about 25 ms and
/// chunks of about 512 KiB.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "choices that have nothing to do with each other"
)]
pub(crate) struct ChunkedDownloadOptions {
    /// The window: requests in flight for this blob. It starts at 16 and grows while more requests
    /// give more throughput.
    pub window: WindowOptions,
    /// Files that may share chunks with the blob, such as older versions of it. List the most
    /// likely file first. Chunks found in them are copied, not fetched.
    pub seeds: Vec<PathBuf>,
    /// Also use the existing file of the target's name as a seed. On by default.
    pub seed_target: bool,
    /// Keep an index of the chunks of each of [`seeds`](Self::seeds) next to it
    /// (`.NAME.tidegate-chunks`). Use existing indexes, also that of the target. On by default.
    pub seed_indexes: bool,
    /// Also keep such an index next to the target, if it is a file and arrived as chunks. The file
    /// is then not cut again when it is a seed. Off by default, because a caller that names one
    /// file expects one file.
    pub index_target: bool,
    /// Fetch the blob as one stream if its chunks cannot be used: a chunk is missing, the manifest
    /// is invalid or cannot be fetched, or its list of chunks takes too much memory. On by default.
    /// If off, these cases are errors.
    pub whole_fallback: bool,
    /// The data that must be durable on disk at the end.
    pub durability: Durability,
    /// Resume from the part file of an earlier attempt.
    pub resume: bool,
    /// The folder of the key that shows that a part file is from this user's earlier runs.
    pub state: StateFolder,
    /// Retries and timeouts.
    pub retry: RetryPolicy,
    /// The process-wide limits.
    pub budget: Budget,
    /// The chunks that other transfers of the client have in flight.
    pub(crate) in_flight: ChunksInFlight,
    /// The pool of memory for [`crate::download::Target::Memory`].
    pub pool: BufferPool,
    /// Updated while the download runs.
    pub progress: Arc<Progress>,
    /// Cancels the download. The written bytes stay for a resume.
    pub cancel: CancellationToken,
}

impl ChunkedDownloadOptions {
    /// The default options with this budget.
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
