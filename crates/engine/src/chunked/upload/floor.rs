//! [`UploadFloor`]: the lowest speed that one upload may have, over all of its requests.
//!
//! A cache that takes one byte a second never stalls. So each request in flight reports every
//! second how many bytes its connection has sent. Bytes of a connection count once, even if several
//! requests report them. The time after a request's last byte does not count: then the cache works,
//! and another limit applies.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::retry::RetryPolicy;
use tidegate_core::speed::{SpeedFloor, SpeedVerdict};
use tokio::time::{Instant, sleep};

use crate::store::{SendProgress, SentBytes};

/// How often a request reports its sent bytes: a sixtieth of the default period.
const LOOK: Duration = Duration::from_secs(1);

/// See the module docs.
#[derive(Debug)]
pub(super) struct UploadFloor {
    epoch: Instant,
    look: Duration,
    state: Mutex<FloorState>,
}

#[derive(Debug)]
struct FloorState {
    floor: SpeedFloor,
    /// The bytes that were reported, by connection.
    connections: HashMap<usize, u64>,
}

impl UploadFloor {
    pub(super) fn new(policy: &RetryPolicy) -> Self {
        let state = FloorState { floor: SpeedFloor::new(policy), connections: HashMap::new() };
        // Tests use short periods, and then requests report more often.
        let look = LOOK.min(Duration::from_millis(policy.slow_ms_max) / 4);
        Self { epoch: Instant::now(), look, state: Mutex::new(state) }
    }

    /// Returns once the upload is too slow for the request to continue. The verdict says whether
    /// the request may be restarted. Cancel-safe.
    pub(super) async fn too_slow(&self, request: &SendProgress) -> SpeedVerdict {
        if !self.lock().floor.is_on() {
            return std::future::pending().await;
        }
        let restarts = self.lock().floor.restarts();
        let (mut since, mut own_bytes) = (self.epoch.elapsed(), 0);
        loop {
            sleep(self.look).await;
            let now = self.epoch.elapsed();
            let Some(sent) = request.sent() else {
                since = now;
                continue;
            };
            let bytes = self.lock().not_reported(sent, &mut own_bytes);
            // If nothing is sent, the stall limit ends the request.
            if bytes == 0 {
                continue;
            }
            match self.lock().floor.on_bytes(bytes, since..now, restarts) {
                SpeedVerdict::Enough => since = now,
                verdict => return verdict,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, FloorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FloorState {
    /// Bytes that were sent and not reported yet. `own_bytes` are the reported bytes of a request
    /// that has no connection.
    fn not_reported(&mut self, sent: SentBytes, own_bytes: &mut u64) -> u64 {
        let reported = match sent.connection {
            // Bytes that it sent before this upload used it do not count.
            Some(connection) => self.connections.entry(connection).or_insert(sent.bytes),
            None => own_bytes,
        };
        sent.bytes.saturating_sub(std::mem::replace(reported, sent.bytes))
    }
}

#[cfg(all(test, feature = "reapi"))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::Outgoing;

    /// Writes a fixed number of bytes each second.
    #[derive(Debug)]
    struct Link(Instant, u64);

    impl Outgoing for Link {
        fn written(&self) -> (u64, Option<Instant>) {
            (self.0.elapsed().as_secs() * self.1, Some(Instant::now()))
        }
    }

    fn policy() -> RetryPolicy {
        RetryPolicy { bytes_per_s_min: 1000, slow_ms_max: 60_000, ..RetryPolicy::default() }
    }

    /// The seconds until the first of `requests` requests over one connection is too slow.
    async fn too_slow_after(requests: usize, bytes_per_s: u64) -> Option<u64> {
        let floor = UploadFloor::new(&policy());
        let link: Arc<dyn Outgoing> = Arc::new(Link(Instant::now(), bytes_per_s));
        let sending: Vec<SendProgress> = (0..requests)
            .map(|_| {
                let progress = SendProgress::new(&Arc::default(), 1 << 30);
                progress.over(Arc::clone(&link));
                progress
            })
            .collect();
        let start = Instant::now();
        let waits = sending.iter().map(|progress| Box::pin(floor.too_slow(progress)));
        let first = futures_util::future::select_all(waits);
        let limit = Duration::from_hours(1);
        let (verdict, ..) = tokio::time::timeout(limit, first).await.ok()?;
        assert_eq!(verdict, SpeedVerdict::Restart);
        Some(start.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn the_bytes_of_a_connection_count_once() {
        for requests in [1, 30] {
            let too_slow = too_slow_after(requests, 900).await;
            assert!(too_slow.is_some_and(|seconds| (59..65).contains(&seconds)), "{too_slow:?}");
            assert_eq!(too_slow_after(requests, 1100).await, None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_the_response_does_not_count() {
        let floor = UploadFloor::new(&policy());
        let progress = SendProgress::new(&Arc::default(), 10);
        // Pings, for instance.
        progress.over(Arc::new(Link(Instant::now(), 1)));
        progress.passed(10);
        let waiting = floor.too_slow(&progress);
        assert!(tokio::time::timeout(Duration::from_hours(1), waiting).await.is_err());
    }
}
