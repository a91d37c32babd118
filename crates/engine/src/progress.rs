//! [`Progress`]: the live counters of a transfer, for polling or as a stream.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream;
use tokio::sync::watch;

use crate::read::ReadStats;
use crate::store::SendProgress;

/// The value of a length that is not known.
const UNKNOWN: u64 = u64::MAX;

/// The live counters of one transfer, or of several that share them.
///
/// Poll [`Self::snapshot`], or follow [`Self::events`]:
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use futures_util::StreamExt;
/// use tidegate::{Client, Progress, Target};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidegate::Result<()> {
/// let client = Client::default();
/// let blob = client.locate("Cargo.toml")?;
/// let progress = Arc::<Progress>::default();
/// let mut events = Box::pin(progress.events(Duration::from_millis(100)));
/// let shown = tokio::spawn(async move {
///     let mut last = None;
///     while let Some(snapshot) = events.next().await {
///         last = Some(snapshot.done_bytes);
///     }
///     last
/// });
/// let report = client.download(&blob, Target::Memory).progress(progress).await?;
/// assert_eq!(shown.await.unwrap(), Some(report.bytes));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Progress {
    len_bytes: AtomicU64,
    read_bytes: AtomicU64,
    done_bytes: AtomicU64,
    reused_bytes: AtomicU64,
    going_bytes: Arc<AtomicU64>,
    in_flight: AtomicU32,
    stats: Arc<ReadStats>,
    call_stats: Mutex<CallStats>,
    transfers: watch::Sender<Transfers>,
}

/// The counters of the calls of uploads, one for each kind of call.
#[derive(Debug, Default)]
struct CallStats {
    running: Vec<Arc<ReadStats>>,
    /// Requests and restarts of uploads that have ended.
    ended: (u64, u64),
}

impl CallStats {
    /// Adds up the counters that no upload uses any more, so that their number stays bounded.
    fn fold(&mut self) {
        let ended = self.running.extract_if(.., |stats| Arc::strong_count(stats) == 1);
        for totals in ended.map(|stats| stats.totals()) {
            self.ended.0 += totals.requests;
            self.ended.1 += totals.restarts;
        }
    }
}

/// The transfers that use these counters.
#[derive(Clone, Copy, Debug, Default)]
struct Transfers {
    begun: u64,
    running: u64,
}

/// The counters of a [`Progress`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Bytes to be moved in total, as far as known; `None` before the transfer knows it, and if the
    /// length is unknown.
    pub len_bytes: Option<u64>,
    /// For an upload: bytes of the source that have been read, cut and hashed.
    pub read_bytes: u64,
    /// Bytes that are complete: written to the target or handed to it, or acknowledged by the
    /// store.
    pub done_bytes: u64,
    /// Of `done_bytes`, bytes that this transfer did not move: an earlier run left them, the store
    /// had them, they recur in the blob, or another upload sends them.
    pub reused_bytes: u64,
    /// For an upload: bytes handed to a connection in requests that have not ended. A retry may
    /// send them again.
    pub going_bytes: u64,
    /// Shards, chunks or batches of chunks in flight.
    pub in_flight: u32,
    /// Requests sent.
    pub requests: u64,
    /// Requests sent again after a failure.
    pub restarts: u64,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            len_bytes: AtomicU64::default(),
            read_bytes: AtomicU64::default(),
            done_bytes: AtomicU64::default(),
            reused_bytes: AtomicU64::default(),
            going_bytes: Arc::default(),
            in_flight: AtomicU32::default(),
            stats: Arc::default(),
            call_stats: Mutex::default(),
            transfers: watch::Sender::new(Transfers::default()),
        }
    }
}

impl Progress {
    /// The counters now.
    pub fn snapshot(&self) -> Snapshot {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut totals = self.stats.totals();
        {
            let calls = self.call_stats.lock().unwrap_or_else(PoisonError::into_inner);
            totals.requests += calls.ended.0;
            totals.restarts += calls.ended.1;
            for running in calls.running.iter().map(|stats| stats.totals()) {
                totals.requests += running.requests;
                totals.restarts += running.restarts;
            }
        }
        let len = now(&self.len_bytes);
        Snapshot {
            len_bytes: (len != 0 && len != UNKNOWN).then_some(len),
            read_bytes: now(&self.read_bytes),
            done_bytes: now(&self.done_bytes),
            reused_bytes: now(&self.reused_bytes),
            going_bytes: now(&self.going_bytes),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            requests: totals.requests,
            restarts: totals.restarts,
        }
    }

    /// Snapshots of the counters when they have changed, at most one in each `every`. The stream
    /// waits for the first transfer that uses these counters; drop it if none will begin. It ends
    /// after the last transfer with a final snapshot, also if the transfer fails.
    ///
    /// Needs a tokio runtime with a time driver.
    pub fn events(
        self: &Arc<Self>,
        every: Duration,
    ) -> impl Stream<Item = Snapshot> + Send + 'static {
        let follower = Follower {
            transfers: self.transfers.subscribe(),
            progress: Arc::clone(self),
            every,
            last: None,
            has_ended: false,
        };
        stream::unfold(follower, |mut follower| async move {
            follower.next().await.map(|snapshot| (snapshot, follower))
        })
    }

    /// Counts a transfer until the guard is dropped.
    pub(crate) fn begin_transfer(self: &Arc<Self>) -> TransferGuard {
        self.transfers.send_modify(|transfers| {
            transfers.begun += 1;
            transfers.running += 1;
        });
        TransferGuard(Arc::clone(self))
    }

    pub(crate) fn stats(&self) -> &Arc<ReadStats> {
        &self.stats
    }

    /// Counters for one kind of call, for a transfer that uses this `Progress`.
    pub(crate) fn call_stats(&self) -> Arc<ReadStats> {
        let stats = Arc::<ReadStats>::default();
        let mut calls = self.call_stats.lock().unwrap_or_else(PoisonError::into_inner);
        calls.fold();
        calls.running.push(Arc::clone(&stats));
        stats
    }

    pub(crate) fn expect(&self, len: Option<u64>) {
        match len {
            Some(len) => self.len_bytes.fetch_add(len, Ordering::Relaxed),
            None => self.len_bytes.swap(UNKNOWN, Ordering::Relaxed),
        };
    }

    /// Counts bytes of the source that have been read, cut and hashed.
    pub(crate) fn read(&self, bytes: u64) {
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that are complete without being moved.
    pub(crate) fn reused(&self, bytes: u64) {
        self.reused_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.done(bytes);
    }

    pub(crate) fn done(&self, bytes: u64) {
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts bytes that have to be fetched again.
    pub(crate) fn undone(&self, bytes: u64) {
        self.done_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Starts a blob of `bytes` again: all its bytes have to be fetched, including the
    /// `reused_bytes`.
    pub(crate) fn begin_anew(&self, bytes: u64, reused_bytes: u64) {
        self.forget(bytes, reused_bytes, bytes);
    }

    /// Starts a blob again whose `len_bytes` are expected: of these `done_bytes` were complete, with
    /// the `reused_bytes`.
    pub(crate) fn forget(&self, done_bytes: u64, reused_bytes: u64, len_bytes: u64) {
        self.undone(done_bytes);
        self.reused_bytes.fetch_sub(reused_bytes, Ordering::Relaxed);
        // The restarted blob is expected again. The update fails only if the length is unknown, and
        // then it stays unknown.
        let _ = self.len_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |len| {
            if len == UNKNOWN { None } else { len.checked_sub(len_bytes) }
        });
    }

    /// Counts the bytes sent of one request of `len` bytes.
    pub(crate) fn sending(&self, len: u64) -> SendProgress {
        SendProgress::new(&self.going_bytes, len)
    }

    /// Counts a unit as in flight until the guard is dropped.
    pub(crate) fn begin_unit(self: &Arc<Self>) -> UnitGuard {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        UnitGuard(Arc::clone(self))
    }
}

/// A running transfer.
pub(crate) struct TransferGuard(Arc<Progress>);

impl Drop for TransferGuard {
    fn drop(&mut self) {
        self.0.transfers.send_modify(|transfers| transfers.running -= 1);
    }
}

/// A unit in flight.
pub(crate) struct UnitGuard(Arc<Progress>);

impl Drop for UnitGuard {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state of [`Progress::events`] between two snapshots.
struct Follower {
    progress: Arc<Progress>,
    transfers: watch::Receiver<Transfers>,
    every: Duration,
    last: Option<Snapshot>,
    has_ended: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<Snapshot> {
        if self.has_ended {
            return None;
        }
        // The sender lives as long as the progress, and this holds the progress. So no wait here
        // fails.
        let _ = self.transfers.wait_for(|transfers| transfers.begun > 0).await;
        loop {
            let ended = self.transfers.wait_for(|transfers| transfers.running == 0);
            let has_ended = tokio::time::timeout(self.every, ended).await.is_ok();
            let now = self.progress.snapshot();
            if has_ended || self.last != Some(now) {
                self.has_ended = has_ended;
                self.last = Some(now);
                return Some(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_uploads_that_ended_are_added_up_and_dropped() {
        let progress = Progress::default();
        for _ in 0..1_000 {
            progress.call_stats().request();
        }
        let last = progress.call_stats();
        last.request();
        assert_eq!(progress.snapshot().requests, 1_001);
        assert_eq!(progress.call_stats.lock().unwrap().running.len(), 1);
    }
}
