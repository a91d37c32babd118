//! What a download shows of itself while it runs. Counters only: whoever displays them reads
//! them when it likes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::read::ReadStats;

/// Stands for a length that is not known.
const UNKNOWN: u64 = u64::MAX;

/// The live counters of one download, or of several that share them.
#[derive(Debug, Default)]
pub struct Progress {
    len_bytes: AtomicU64,
    done_bytes: AtomicU64,
    resumed_bytes: AtomicU64,
    in_flight: AtomicU32,
    stats: Arc<ReadStats>,
}

/// The counters of a [`Progress`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Bytes to be had in the end, as far as known; `None` before, and where no length is told.
    pub len_bytes: Option<u64>,
    /// Bytes that are in place or handed to the sink, resumed ones included.
    pub done_bytes: u64,
    /// Bytes that an earlier run had left.
    pub resumed_bytes: u64,
    /// Shards in flight.
    pub in_flight: u32,
    /// Requests sent.
    pub requests: u64,
    /// Requests that went on after an interruption.
    pub restarts: u64,
}

impl Progress {
    /// The counters now.
    pub fn snapshot(&self) -> Snapshot {
        let totals = self.stats.totals();
        let len = self.len_bytes.load(Ordering::Relaxed);
        Snapshot {
            len_bytes: (len != 0 && len != UNKNOWN).then_some(len),
            done_bytes: self.done_bytes.load(Ordering::Relaxed),
            resumed_bytes: self.resumed_bytes.load(Ordering::Relaxed),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            requests: totals.requests,
            restarts: totals.restarts,
        }
    }

    pub(crate) fn stats(&self) -> &Arc<ReadStats> {
        &self.stats
    }

    pub(crate) fn expect(&self, len: Option<u64>) {
        match len {
            Some(len) => self.len_bytes.fetch_add(len, Ordering::Relaxed),
            None => self.len_bytes.swap(UNKNOWN, Ordering::Relaxed),
        };
    }

    pub(crate) fn resumed(&self, bytes: u64) {
        self.resumed_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.done(bytes);
    }

    pub(crate) fn done(&self, bytes: u64) {
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that were done have to be brought again.
    pub(crate) fn undone(&self, bytes: u64) {
        self.done_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A whole blob of so many bytes has to be brought again, resumed ones too.
    pub(crate) fn begin_anew(&self, bytes: u64, resumed_bytes: u64) {
        self.undone(bytes);
        self.resumed_bytes.fetch_sub(resumed_bytes, Ordering::Relaxed);
        // It is expected again. Fails only where no length is known, which then stays so.
        let _ = self.len_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |len| {
            if len == UNKNOWN { None } else { len.checked_sub(bytes) }
        });
    }

    pub(crate) fn started(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
