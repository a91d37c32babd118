//! What an upload shows of itself while it runs: counters, to be read at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::remote::SendProgress;

/// The live counters of one upload, or of several that share them.
#[derive(Debug, Default)]
pub struct UploadProgress {
    len_bytes: AtomicU64,
    cut_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    going_bytes: Arc<AtomicU64>,
    spared_bytes: AtomicU64,
    in_flight: AtomicU64,
}

/// The counters of an [`UploadProgress`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UploadSnapshot {
    /// The file's length.
    pub len_bytes: u64,
    /// Of these, bytes that have been read, cut and hashed.
    pub cut_bytes: u64,
    /// Bytes of chunks that were put.
    pub sent_bytes: u64,
    /// Bytes of requests under way that were handed to the connection: they may have to go again.
    pub going_bytes: u64,
    /// Bytes that need not be put: the store has them, or another upload sees to them, or they
    /// recur.
    pub spared_bytes: u64,
    /// Requests under way that carry bytes.
    pub in_flight: u64,
}

impl UploadProgress {
    /// The counters now.
    pub fn snapshot(&self) -> UploadSnapshot {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        UploadSnapshot {
            len_bytes: now(&self.len_bytes),
            cut_bytes: now(&self.cut_bytes),
            sent_bytes: now(&self.sent_bytes),
            going_bytes: now(&self.going_bytes),
            spared_bytes: now(&self.spared_bytes),
            in_flight: now(&self.in_flight),
        }
    }

    pub(super) fn expect(&self, bytes: u64) {
        self.len_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn cut(&self, bytes: u64) {
        self.cut_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Of one request of `len` bytes.
    pub(super) fn sending(&self, len: u64) -> SendProgress {
        SendProgress::new(&self.going_bytes, len)
    }

    pub(super) fn spared(&self, bytes: u64) {
        self.spared_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A request is under way until what is returned is dropped.
    pub(super) fn begin(&self) -> impl Drop + '_ {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }
}

struct UnderWay<'a>(&'a UploadProgress);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
