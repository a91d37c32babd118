//! [`Flow`]: the state that all readers of one transfer share: its minimum speed, and the limit on
//! its requests before the first byte.
//!
//! Shards and races multiply the attempts of a single reader. With 32 shards of 8 attempts each, a
//! server that sends heads but no bytes would get 256 requests. So the readers of a download share
//! [`REQUESTS_MAX`] requests until one of them receives a byte. After that, each reader is limited
//! only by its own policy.
//!
//! [`Share`] is the part of one connection. A `Flow` sends no requests and closes no connections:
//! it only counts, and the readers act on the result.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::retry::RetryPolicy;
use tidegate_core::speed::{SpeedFloor, SpeedVerdict};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::Setting;

/// Maximum number of requests for bytes before the first byte: all 8 attempts of two readers with
/// the default policy, and 4 in reserve. Up to 4 requests for facts come in addition, so a silent
/// server gets at most 24.
const REQUESTS_MAX: u32 = 20;

/// A connection that never waits reports its bytes each time they reach 1 MiB. So the verdict on
/// the connections that wait includes them.
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
    /// For a download. Its readers share the limit on requests before the first byte.
    pub(crate) fn of_download(policy: &RetryPolicy) -> Arc<Self> {
        Arc::new(Self::new(policy, REQUESTS_MAX))
    }

    /// For a read by one reader. Requests before the first byte have no limit here: the caller's
    /// policy decides their number.
    pub(crate) fn of_read(policy: &RetryPolicy) -> Arc<Self> {
        Arc::new(Self::new(policy, u32::MAX))
    }

    /// For the readers of another source of the same blob. They have a minimum speed and a limit on
    /// requests of their own. The first byte of either source counts for both.
    pub(crate) fn of_another_source(&self, policy: &RetryPolicy) -> Arc<Self> {
        Arc::new(Self { begun: self.begun.clone(), ..Self::new(policy, self.requests_max) })
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

    /// Counts a request before the first byte; false if the limit is reached. After the first byte
    /// always true.
    pub(super) fn try_request(&self) -> bool {
        self.has_begun() || self.requests.fetch_add(1, Ordering::Relaxed) < self.requests_max
    }

    /// Records that a byte has arrived.
    pub(super) fn begin(&self) {
        self.begun.cancel();
    }

    /// Counts bytes from a call that has its own timeout. So the time of the call does not count.
    pub(crate) fn on_bytes(&self, bytes: u64) {
        // The verdict is ignored here: waiting connections get it at their next report.
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

/// One connection's part in a [`Flow`]. It reports its bytes when it next waits, so that all bytes
/// that have already arrived count before the verdict.
#[derive(Debug)]
pub(super) struct Share {
    flow: Arc<Flow>,
    // The floor's count of restarts at the connection's start.
    restarts: u64,
    begun: bool,
    // Not reported yet.
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

    /// Counts bytes that arrived. `since` is the start of the wait before them, if there was one.
    pub(super) fn on_bytes(&mut self, bytes: u64, since: Option<Instant>) {
        if !self.begun && bytes > 0 {
            self.begun = true;
            self.flow.begin();
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.wait = since.map(|since| (since, Instant::now())).or(self.wait);
        if self.bytes >= UNTOLD_BYTES_MAX {
            // A verdict against the connection is repeated at its next wait.
            self.tell();
        }
    }

    /// Reports the bytes that have arrived, and returns the verdict.
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

/// Describes the policy's minimum speed in a message. `moved` is `arrived` or `were sent`.
pub(crate) fn floor_of(policy: &RetryPolicy, moved: &str) -> String {
    let seconds = Duration::from_millis(policy.slow_ms_max).as_secs_f64();
    format!("less than {} bytes/s {moved} over {seconds} s of waiting", policy.bytes_per_s_min)
}

/// The setting that a message names if the minimum speed is too high for the link.
pub(crate) const SLOW_HINT: Setting = Setting::SpeedMin;
