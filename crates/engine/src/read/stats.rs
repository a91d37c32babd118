//! What reading cost: counted by every channel that shares the counters.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters shared by the channels of one transfer. Relaxed: they are read for display and, at
/// the end, after every channel has been joined.
#[derive(Debug, Default)]
pub struct ReadStats {
    requests: AtomicU64,
    restarts: AtomicU64,
    bytes_delivered: AtomicU64,
    bytes_wasted: AtomicU64,
}

/// A copy of [`ReadStats`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadTotals {
    /// Requests sent.
    pub requests: u64,
    /// Requests that continued, or began again, one that had failed.
    pub restarts: u64,
    /// Bytes handed to the reader.
    pub bytes_delivered: u64,
    /// Bytes that arrived but were already there, or were not asked for.
    pub bytes_wasted: u64,
}

impl ReadStats {
    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that an answer took besides the one that was counted when it was asked for.
    pub(crate) fn more_requests(&self, count: u32) {
        self.requests.fetch_add(u64::from(count), Ordering::Relaxed);
    }

    pub(crate) fn restart(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn delivered(&self, bytes: u64) {
        self.bytes_delivered.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn wasted(&self, bytes: u64) {
        self.bytes_wasted.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The counters now.
    pub fn totals(&self) -> ReadTotals {
        ReadTotals {
            requests: self.requests.load(Ordering::Relaxed),
            restarts: self.restarts.load(Ordering::Relaxed),
            bytes_delivered: self.bytes_delivered.load(Ordering::Relaxed),
            bytes_wasted: self.bytes_wasted.load(Ordering::Relaxed),
        }
    }
}
