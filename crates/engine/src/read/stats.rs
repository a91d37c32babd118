//! Counters of requests, bytes and times, shared by the reads of one transfer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counters shared by the channels of one transfer. The atomics use relaxed ordering: they are read
/// for display and, at the end, after every channel has been joined.
#[derive(Debug, Default)]
pub struct ReadStats {
    requests: AtomicU64,
    restarts: AtomicU64,
    hedges: AtomicU64,
    bytes_delivered: AtomicU64,
    bytes_wasted: AtomicU64,
    asked: OnceLock<Instant>,
    first_answer: OnceLock<Duration>,
    first_byte: OnceLock<Duration>,
}

/// A copy of [`ReadStats`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadTotals {
    /// Requests sent, including hedges and requests that only led to a response (redirects, stats).
    pub requests: u64,
    /// Requests that continued or repeated a failed one.
    pub restarts: u64,
    /// Second requests, sent because the response of the first was late.
    pub hedges: u64,
    /// Stored bytes given to the reader, including those in its buffer.
    pub bytes_delivered: u64,
    /// Bytes that arrived but were already there, were skipped, or were not requested.
    pub bytes_wasted: u64,
    /// From the first request to the head of the first response; `None` until then.
    pub first_answer: Option<Duration>,
    /// From the first request to the first byte that was delivered; `None` until then.
    pub first_byte: Option<Duration>,
}

impl ReadStats {
    pub(crate) fn request(&self) {
        self.asked.get_or_init(Instant::now);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the requests that a response took in addition to the one that is already counted.
    pub(crate) fn more_requests(&self, count: u32) {
        self.requests.fetch_add(u64::from(count), Ordering::Relaxed);
    }

    pub(crate) fn restart(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn hedge(&self) {
        self.hedges.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn answered(&self) {
        if self.first_answer.get().is_none()
            && let Some(asked) = self.asked.get()
        {
            self.first_answer.get_or_init(|| asked.elapsed());
        }
    }

    pub(crate) fn delivered(&self, bytes: u64) {
        if self.first_byte.get().is_none()
            && let Some(asked) = self.asked.get()
        {
            self.first_byte.get_or_init(|| asked.elapsed());
        }
        self.bytes_delivered.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn wasted(&self, bytes: u64) {
        if bytes > 0 {
            self.bytes_wasted.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// The counters now.
    pub fn totals(&self) -> ReadTotals {
        ReadTotals {
            requests: self.requests.load(Ordering::Relaxed),
            restarts: self.restarts.load(Ordering::Relaxed),
            hedges: self.hedges.load(Ordering::Relaxed),
            bytes_delivered: self.bytes_delivered.load(Ordering::Relaxed),
            bytes_wasted: self.bytes_wasted.load(Ordering::Relaxed),
            first_answer: self.first_answer.get().copied(),
            first_byte: self.first_byte.get().copied(),
        }
    }
}
