//! [`Flow`]: what all readers of one transfer share about what arrives: the floor under its speed,
//! and how many requests it may spend before the first byte.
//!
//! Shards and races multiply the attempts of a single reader: 32 shards of 8 attempts are 256
//! requests to a server that sends heads and never a byte. So a download's readers share
//! [`REQUESTS_MAX`] until one of them has a byte. From then on each is bound by its own policy.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::retry::RetryPolicy;
use tidegate_core::speed::{SpeedFloor, SpeedVerdict};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::Setting;

/// Requests for bytes before the first byte, at most: three readers of 6 attempts, and some. With 4
/// for the facts beside them a silent server gets 24.
const REQUESTS_MAX: u32 = 20;

/// A connection that never waits tells of this many bytes at once, for the sake of those that do.
const UNTOLD_BYTES_MAX: u64 = 1 << 20;

/// See the module docs.
#[derive(Debug)]
pub(crate) struct Flow {
    epoch: Instant,
    floor: Mutex<SpeedFloor>,
    requests_max: u32,
    requests: AtomicU32,
    begun: CancellationToken,
}

impl Flow {
    /// Of a download, whose readers share the requests before the first byte.
    pub(crate) fn of_download(policy: &RetryPolicy) -> Arc<Self> {
        Arc::new(Self::new(policy, REQUESTS_MAX))
    }

    /// Of a read by one reader, whose caller decides how often it asks.
    pub(crate) fn of_read(policy: &RetryPolicy) -> Arc<Self> {
        Arc::new(Self::new(policy, u32::MAX))
    }

    fn new(policy: &RetryPolicy, requests_max: u32) -> Self {
        Self {
            epoch: Instant::now(),
            floor: Mutex::new(SpeedFloor::new(policy)),
            requests_max,
            requests: AtomicU32::new(0),
            begun: CancellationToken::new(),
        }
    }

    fn floor(&self) -> MutexGuard<'_, SpeedFloor> {
        self.floor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one of the requests that may be spent before the first byte; false where none is left.
    pub(super) fn try_request(&self) -> bool {
        self.has_begun() || self.requests.fetch_add(1, Ordering::Relaxed) < self.requests_max
    }

    /// A byte has arrived.
    pub(super) fn begin(&self) {
        self.begun.cancel();
    }

    /// Bytes arrived by a call that has a limit of its own, so that its time does not count.
    pub(crate) fn on_bytes(&self, bytes: u64) {
        // The connections that wait get the verdict.
        let _ = self.floor().on_bytes(bytes, Duration::ZERO..Duration::ZERO, 0);
    }

    /// Whether any byte has arrived.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Waits for the first byte. Cancel-safe.
    pub(crate) async fn begun(&self) {
        self.begun.cancelled().await;
    }
}

/// One connection's part in a [`Flow`]: what it brought is told when it next waits, so that all that
/// is there already counts before the verdict.
#[derive(Debug)]
pub(super) struct Share {
    flow: Arc<Flow>,
    // At the connection's start.
    restarts: u64,
    begun: bool,
    // Not told yet.
    bytes: u64,
    wait: Option<(Instant, Instant)>,
}

impl Share {
    pub(super) fn new(flow: &Arc<Flow>) -> Self {
        let restarts = flow.floor().restarts();
        Self { flow: Arc::clone(flow), restarts, begun: false, bytes: 0, wait: None }
    }

    /// Counts as a new connection from here.
    pub(super) fn renew(&mut self) {
        self.restarts = self.flow.floor().restarts();
    }

    /// Bytes arrived, after a wait where `since` tells its beginning.
    pub(super) fn on_bytes(&mut self, bytes: u64, since: Option<Instant>) {
        if !self.begun && bytes > 0 {
            self.begun = true;
            self.flow.begin();
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.wait = since.map(|since| (since, Instant::now())).or(self.wait);
        if self.bytes >= UNTOLD_BYTES_MAX {
            // A verdict against the connection stands until its next wait.
            self.tell();
        }
    }

    /// Tells what has arrived; the verdict on it.
    pub(super) fn tell(&mut self) -> SpeedVerdict {
        let bytes = std::mem::take(&mut self.bytes);
        let epoch = self.flow.epoch;
        let (since, until) = self.wait.take().unwrap_or((epoch, epoch));
        let wait = since.saturating_duration_since(epoch)..until.saturating_duration_since(epoch);
        self.flow.floor().on_bytes(bytes, wait, self.restarts)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.tell();
    }
}

/// What a policy calls its floor, for messages; bytes `arrived` or `were sent`.
pub(crate) fn floor_of(policy: &RetryPolicy, moved: &str) -> String {
    let seconds = Duration::from_millis(policy.slow_ms_max).as_secs_f64();
    format!("less than {} bytes/s {moved} over {seconds} s of waiting", policy.bytes_per_s_min)
}

/// What the user can do about a floor that is too high for the link.
pub(crate) const SLOW_HINT: Setting = Setting::SpeedMin;
