//! Counts of calls and bytes so far, for assertions of tests.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::HeaderMap;
use tokio::sync::watch;

use super::{rpc::Rpc, status::Code};

/// Calls kept in the log; the oldest are dropped first, so that a long measurement cannot fill
/// memory.
const CALLS_MAX: usize = 100_000;

/// Calls of one kind, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallCounts {
    /// How many have arrived.
    pub arrived: usize,
    /// How many are in flight now.
    pub in_flight: usize,
    /// The maximum in flight at the same time.
    pub in_flight_peak: usize,
}

impl CallCounts {
    fn begin(&mut self) {
        self.arrived += 1;
        self.in_flight += 1;
        self.in_flight_peak = self.in_flight_peak.max(self.in_flight);
    }
}

/// One batch, or one `FindMissingBlobs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSize {
    /// `BatchReadBlobs`, `BatchUpdateBlobs` or `FindMissingBlobs`.
    pub rpc: Rpc,
    /// Blobs that it is about.
    pub blobs: usize,
    /// Their bytes together, uncompressed.
    pub bytes: u64,
}

/// Everything that is counted, at one moment.
#[derive(Debug, Clone, Default)]
pub struct ReapiCounts {
    /// All calls.
    pub total: CallCounts,
    /// Received bytes of blobs, as sent on the wire.
    pub bytes_in: u64,
    /// Sent bytes of blobs, as sent on the wire.
    pub bytes_out: u64,
    /// Batches in the order of their arrival.
    pub batches: Vec<BatchSize>,
    calls: [CallCounts; Rpc::ALL.len()],
    served: HashMap<String, u64>,
    stored: HashMap<String, u64>,
}

impl ReapiCounts {
    /// Calls of one kind.
    pub fn rpc(&self, rpc: Rpc) -> CallCounts {
        self.calls[rpc.index()]
    }

    /// How many calls of one kind have arrived.
    pub fn calls(&self, rpc: Rpc) -> usize {
        self.rpc(rpc).arrived
    }

    /// How often a blob was sent, from any offset.
    pub fn served(&self, hash: &str) -> u64 {
        self.served.get(hash).copied().unwrap_or(0)
    }

    /// Every sent blob, with its count.
    pub fn served_all(&self) -> &HashMap<String, u64> {
        &self.served
    }

    /// How often a blob was received whole, including when it existed already.
    pub fn stored(&self, hash: &str) -> u64 {
        self.stored.get(hash).copied().unwrap_or(0)
    }

    /// Every blob that was received whole, with its count.
    pub fn stored_all(&self) -> &HashMap<String, u64> {
        &self.stored
    }
}

/// One call.
#[derive(Debug, Clone)]
pub struct ReapiCall {
    /// Its kind.
    pub rpc: Rpc,
    /// Number of the connection, from 1 in the order of accepting.
    pub connection: u64,
    /// The hashes of the blobs that it is about; empty until its request was read.
    pub hashes: Vec<String>,
    /// Where a `Read` or a `Write` begins, in bytes.
    pub offset: i64,
    /// Its final status; `None` while it is in flight, and if it got no response.
    pub code: Option<Code>,
    headers: HeaderMap,
}

impl ReapiCall {
    /// The metadata of this name, in lower case, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// The counters of calls.
#[derive(Debug)]
pub(crate) struct Ledger {
    counts: watch::Sender<ReapiCounts>,
    log: Mutex<VecDeque<Arc<Mutex<ReapiCall>>>>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { counts: watch::Sender::new(ReapiCounts::default()), log: Mutex::default() }
    }
}

impl Ledger {
    pub(crate) fn snapshot(&self) -> ReapiCounts {
        self.counts.borrow().clone()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.counts.borrow().total.in_flight
    }

    pub(crate) async fn wait_until(&self, holds: impl Fn(&ReapiCounts) -> bool) {
        // An error means that the sender is gone, and `self` holds it.
        let _ = self.counts.subscribe().wait_for(holds).await;
    }

    pub(crate) fn calls(&self) -> Vec<ReapiCall> {
        lock(&self.log).iter().map(|call| lock(call).clone()).collect()
    }

    /// Clears the log and all counts, except calls in flight.
    pub(crate) fn clear(&self) {
        lock(&self.log).clear();
        self.counts.send_modify(|counts| {
            let mut fresh = ReapiCounts::default();
            let now = |old: CallCounts| CallCounts {
                arrived: 0,
                in_flight: old.in_flight,
                in_flight_peak: old.in_flight,
            };
            fresh.total = now(counts.total);
            for (fresh, old) in fresh.calls.iter_mut().zip(counts.calls) {
                *fresh = now(old);
            }
            *counts = fresh;
        });
    }

    pub(crate) fn came(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.counts.send_modify(|counts| counts.bytes_in += bytes);
    }

    pub(crate) fn went(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.counts.send_modify(|counts| counts.bytes_out += bytes);
    }

    pub(crate) fn served(&self, hash: &str) {
        self.counts.send_modify(|counts| *counts.served.entry(hash.to_owned()).or_default() += 1);
    }

    pub(crate) fn stored(&self, hash: &str) {
        self.counts.send_modify(|counts| *counts.stored.entry(hash.to_owned()).or_default() += 1);
    }

    pub(crate) fn batch(&self, batch: BatchSize) {
        self.counts.send_modify(|counts| counts.batches.push(batch));
    }
}

/// Counts a call as in flight while it lives, and holds its entry in the log.
#[derive(Debug)]
pub(crate) struct InFlight {
    ledger: Arc<Ledger>,
    rpc: Rpc,
    call: Arc<Mutex<ReapiCall>>,
}

impl InFlight {
    pub(crate) fn begin(
        ledger: &Arc<Ledger>,
        rpc: Rpc,
        connection: u64,
        headers: HeaderMap,
    ) -> Self {
        let call =
            ReapiCall { rpc, connection, hashes: Vec::new(), offset: 0, code: None, headers };
        let call = Arc::new(Mutex::new(call));
        let mut log = lock(&ledger.log);
        if log.len() >= CALLS_MAX {
            log.pop_front();
        }
        log.push_back(Arc::clone(&call));
        drop(log);
        ledger.counts.send_modify(|counts| {
            counts.total.begin();
            counts.calls[rpc.index()].begin();
        });
        Self { ledger: Arc::clone(ledger), rpc, call }
    }

    pub(crate) fn edit(&self, change: impl FnOnce(&mut ReapiCall)) {
        change(&mut lock(&self.call));
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.ledger.counts.send_modify(|counts| {
            counts.total.in_flight -= 1;
            counts.calls[self.rpc.index()].in_flight -= 1;
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
