//! [`Activity`]: what the store counts of its own work since it opened: commits, evictions, damage, the
//! scrub.
//!
//! The counters are atomic. A group of commits adds to four of them, so a blob in a full group costs
//! next to nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// The upper bounds of the buckets of [`ActivityCounts::commits`], in operations of one group.
pub const COMMIT_OPERATIONS_BOUNDS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// The upper bounds of the buckets of [`ActivityCounts::evictions`], in seconds since the last use: a
/// minute, ten, an hour, six; a day, three, a week, a month.
pub const EVICTION_AGE_BOUNDS_SECONDS: [u64; 8] =
    [60, 600, 3600, 21_600, 86_400, 259_200, 604_800, 2_592_000];

/// How often a quantity was within each bucket. The last bucket has no bound.
#[derive(Debug)]
struct Histogram<const BUCKETS: usize> {
    counts: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl<const BUCKETS: usize> Default for Histogram<BUCKETS> {
    fn default() -> Self {
        Self { counts: std::array::from_fn(|_| AtomicU64::new(0)), sum: AtomicU64::new(0) }
    }
}

impl<const BUCKETS: usize> Histogram<BUCKETS> {
    fn add(&self, bounds: &[u64], value: u64) {
        let bucket = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
        self.counts[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    fn counts(&self) -> HistogramCounts<BUCKETS> {
        HistogramCounts {
            counts: std::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed)),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

/// A histogram as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistogramCounts<const BUCKETS: usize> {
    /// By bucket; not cumulative. The last bucket has no bound.
    pub counts: [u64; BUCKETS],
    /// The sum of all values.
    pub sum: u64,
}

const COMMITS: usize = COMMIT_OPERATIONS_BOUNDS.len() + 1;
const EVICTIONS: usize = EVICTION_AGE_BOUNDS_SECONDS.len() + 1;

/// What the store counts.
#[derive(Debug, Default)]
pub(super) struct Activity {
    commits: Histogram<COMMITS>,
    committed_bytes: AtomicU64,
    evictions: Histogram<EVICTIONS>,
    evicted_bytes: AtomicU64,
    damaged_values: AtomicU64,
    scrubbed_values: AtomicU64,
    scrubbed_bytes: AtomicU64,
    scrubs: AtomicU64,
}

/// What the store counted since it opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActivityCounts {
    /// Groups of commits by their operations; see [`COMMIT_OPERATIONS_BOUNDS`].
    pub commits: HistogramCounts<COMMITS>,
    /// Bytes of the records of these groups.
    pub committed_bytes: u64,
    /// Evicted values by the seconds since their last use; see [`EVICTION_AGE_BOUNDS_SECONDS`].
    pub evictions: HistogramCounts<EVICTIONS>,
    /// Bytes of evicted values.
    pub evicted_bytes: u64,
    /// Values that were dropped because their bytes were damaged.
    pub damaged_values: u64,
    /// Values that the scrub has read.
    pub scrubbed_values: u64,
    /// Bytes that the scrub has read.
    pub scrubbed_bytes: u64,
    /// Scrubs of the whole store that have ended.
    pub scrubs: u64,
}

impl Activity {
    pub(super) fn count_commit(&self, operations: usize, bytes: u64) {
        self.commits.add(&COMMIT_OPERATIONS_BOUNDS, operations as u64);
        self.committed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn count_eviction(&self, age_seconds: u64, bytes: u64) {
        self.evictions.add(&EVICTION_AGE_BOUNDS_SECONDS, age_seconds);
        self.evicted_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn count_damage(&self) {
        self.damaged_values.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_scrubbed(&self, bytes: u64) {
        self.scrubbed_values.fetch_add(1, Ordering::Relaxed);
        self.scrubbed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn count_scrub(&self) {
        self.scrubs.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> ActivityCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ActivityCounts {
            commits: self.commits.counts(),
            committed_bytes: read(&self.committed_bytes),
            evictions: self.evictions.counts(),
            evicted_bytes: read(&self.evicted_bytes),
            damaged_values: read(&self.damaged_values),
            scrubbed_values: read(&self.scrubbed_values),
            scrubbed_bytes: read(&self.scrubbed_bytes),
            scrubs: read(&self.scrubs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_bucket_of_their_bound() {
        let activity = Activity::default();
        for operations in [1, 2, 3, 4, 1024, 5000] {
            activity.count_commit(operations, 10);
        }
        activity.count_eviction(60, 7);
        activity.count_eviction(61, 8);
        activity.count_eviction(u64::from(u32::MAX), 9);
        let counts = activity.counts();
        assert_eq!(counts.commits.counts, [1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!((counts.commits.sum, counts.committed_bytes), (6034, 60));
        assert_eq!(counts.evictions.counts, [1, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(counts.evicted_bytes, 24);
    }
}
