//! [`Transfer`]: the state that all parts of one upload share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tidegate_core::retry::RetryPolicy;
use tokio::time::Instant;

use super::ChunkedUploadOptions;
use super::floor::UploadFloor;
use super::source::SourceFile;
use super::spare::Spares;
use crate::budget::Budget;
use crate::chunked::ChunkStore;
use crate::chunked::inflight::ChunksInFlight;
use crate::error::{Error, ErrorKind, Operation};
use crate::progress::Progress;
use crate::read::ReadTotals;
use crate::report::StoreRequests;
use crate::transfer::attempt::Calls;
use crate::transfer::window::{Sent, TransferWindow};

/// The lowest speed, in bytes a second, at which a store reads, hashes and writes a blob when it
/// makes it of chunks or finishes a put.
const STORE_BYTES_PER_S: u64 = 32 << 20;

/// One upload.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) store: Arc<dyn ChunkStore>,
    /// Names the store in this process.
    pub(super) identity: Arc<str>,
    /// Shared by all transfers of this client.
    pub(super) in_flight: ChunksInFlight,
    pub(super) file: Arc<SourceFile>,
    pub(super) calls: KindsOfCalls,
    pub(super) budget: Budget,
    pub(super) spares: Spares,
    pub(super) progress: Arc<Progress>,
    /// False once the store has refused a batch.
    pub(super) batches: AtomicBool,
    pub(super) floor: UploadFloor,
    window: Arc<TransferWindow>,
    epoch: Instant,
}

/// The calls of an upload, counted by kind.
#[derive(Clone, Debug)]
pub(super) struct KindsOfCalls {
    pub(super) profile: Calls,
    pub(super) missing: Calls,
    pub(super) put: Calls,
    pub(super) put_batch: Calls,
    pub(super) register: Calls,
}

impl Transfer {
    pub(super) fn new(
        store: &Arc<dyn ChunkStore>,
        file: &Arc<SourceFile>,
        budget: &Budget,
        options: &ChunkedUploadOptions,
    ) -> Self {
        Self {
            store: Arc::clone(store),
            identity: store.identity().into(),
            in_flight: options.in_flight.clone(),
            file: Arc::clone(file),
            calls: KindsOfCalls::new(file, budget, options),
            budget: budget.clone(),
            spares: Spares::new(budget),
            progress: Arc::clone(&options.progress),
            batches: AtomicBool::new(true),
            floor: UploadFloor::new(&options.retry),
            window: Arc::new(TransferWindow::new(options.window)),
            epoch: Instant::now(),
        }
    }

    /// Time since the upload began.
    pub(super) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// The instant of a time since the upload began.
    pub(super) fn at(&self, time: Duration) -> Instant {
        self.epoch + time
    }

    /// Requests that may carry bytes now: the window's limit, but no more than the budget's
    /// requests. Further requests would only hold bytes and wait.
    pub(super) fn window_limit(&self) -> usize {
        let requests = usize::try_from(self.budget.limits().requests).unwrap_or(usize::MAX);
        self.window.limit().min(requests)
    }

    /// The window's limit.
    pub(super) fn window_now(&self) -> u32 {
        self.window.limit_now()
    }

    /// Records that a request with bytes is sent.
    pub(super) fn started(&self) -> Sent {
        self.window.send()
    }

    /// How long a request may go without moving a byte.
    pub(super) fn stall_limit(&self) -> Duration {
        self.calls.register.patience(0)
    }

    /// How long a store may take to respond once it has all bytes of a blob. A retry is harmless,
    /// both of registering and of putting, so a bound that is too short costs only time.
    pub(super) fn answer_limit(&self, len: u64) -> Duration {
        let more_ms = len.saturating_mul(1000) / STORE_BYTES_PER_S;
        self.stall_limit().saturating_add(Duration::from_millis(more_ms))
    }

    /// An error of this upload.
    pub(super) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        self.calls.register.error(kind, message)
    }
}

impl KindsOfCalls {
    fn new(file: &SourceFile, budget: &Budget, options: &ChunkedUploadOptions) -> Self {
        let calls = |stats| Calls {
            // The deadline is that of the whole upload, and `upload` enforces it.
            policy: RetryPolicy { deadline_ms: None, ..options.retry.clone() },
            budget: budget.clone(),
            cancel: options.cancel.clone(),
            operation: Operation::Upload,
            target: Arc::clone(file.name()),
            stats,
        };
        let counted = || calls(options.progress.call_stats());
        Self {
            // A store's profile is asked once for all its blobs, so it counts for none of them.
            profile: calls(Arc::default()),
            missing: counted(),
            put: counted(),
            put_batch: counted(),
            register: counted(),
        }
    }

    /// The attempts made, by kind and in total.
    pub(super) fn totals(&self) -> (StoreRequests, ReadTotals) {
        let kinds = [&self.missing, &self.put, &self.put_batch, &self.register];
        let kinds = kinds.map(|calls| calls.stats.totals());
        let [missing, put, put_batch, register] = kinds.map(|totals| totals.requests);
        let all = ReadTotals {
            requests: kinds.iter().map(|totals| totals.requests).sum(),
            restarts: kinds.iter().map(|totals| totals.restarts).sum(),
            ..ReadTotals::default()
        };
        (StoreRequests { missing, put, put_batch, register }, all)
    }
}
