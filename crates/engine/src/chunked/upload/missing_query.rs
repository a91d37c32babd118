//! [`MissingQuery`]: when the store is asked which chunks it lacks, and for how many at once.
//!
//! Pure. The first chunks are asked for soon, so that sending begins while the file is still being
//! cut. Later batches double as they fill, up to a bound: 16, 32, 64, ... 1,024 chunks. If cutting
//! is slower than asking, a batch goes before it is full: after a short linger, which is longer the
//! more batches are in flight. This has three effects:
//!
//! - There is always something to send.
//! - The last batch is small. Everything after it waits for it.
//! - A file that is cut within the linger costs one request.

use std::time::Duration;

/// The first batch: the window at the start of sending.
const BATCH_FIRST: usize = 16;

/// The largest batch. It takes some 40 KiB of request and covers half a GiB of blob at the usual
/// 512 KiB a chunk. That is more than any window sends in one round trip.
const BATCH_MAX: usize = 1024;

/// Batches in flight at once: enough that latency does not limit 4,096 chunks a round trip.
const IN_FLIGHT_MAX: usize = 4;

/// A batch that is not full waits this long after its first chunk, and as long again for each batch
/// in flight. This is a tenth of a round trip within a region, and allows at most 200 requests a
/// second if there is no latency.
const LINGER: Duration = Duration::from_millis(5);

/// The chunks that are still to be asked for.
#[derive(Debug)]
pub(super) struct MissingQuery {
    waiting: Vec<usize>,
    since: Duration,
    batch: usize,
    in_flight: usize,
    /// No more chunks will be added.
    is_closed: bool,
}

impl MissingQuery {
    /// Starts empty.
    pub(super) fn new() -> Self {
        let since = Duration::ZERO;
        Self { waiting: Vec::new(), since, batch: BATCH_FIRST, in_flight: 0, is_closed: false }
    }

    /// Adds a chunk by its number. `now` may count from any fixed start.
    pub(super) fn push(&mut self, id: usize, now: Duration) {
        if self.waiting.is_empty() {
            self.since = now;
        }
        self.waiting.push(id);
    }

    /// No more chunks will be added: waiting chunks do not linger any more.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// The next batch to ask for now, if there is one. It is in flight until [`Self::answered`].
    /// `has_lingered` says that [`Self::due`] has passed and nothing else was to be done.
    pub(super) fn next(&mut self, now: Duration, has_lingered: bool) -> Option<Vec<usize>> {
        let is_full = self.waiting.len() >= self.batch;
        let is_due = is_full || self.is_closed || has_lingered;
        if self.waiting.is_empty() || self.in_flight >= IN_FLIGHT_MAX || !is_due {
            return None;
        }
        let rest = self.waiting.split_off(self.waiting.len().min(BATCH_MAX));
        let batch = std::mem::replace(&mut self.waiting, rest);
        self.since = now;
        if is_full {
            self.batch = (self.batch * 2).min(BATCH_MAX);
        }
        self.in_flight += 1;
        Some(batch)
    }

    /// The store has responded to a batch.
    pub(super) fn answered(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// When to call [`Self::next`] again even if nothing happens.
    pub(super) fn due(&self) -> Option<Duration> {
        let under_way = u32::try_from(self.in_flight).unwrap_or(u32::MAX);
        let has_room = self.in_flight < IN_FLIGHT_MAX;
        let lingers = !self.waiting.is_empty() && !self.is_closed && has_room;
        lingers.then(|| self.since + LINGER.saturating_mul(under_way.saturating_add(1)))
    }

    /// Whether cutting may add more: it should not run far ahead of asking.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < 2 * BATCH_MAX
    }

    /// Whether every batch has been asked for and has its response.
    pub(super) fn is_over(&self) -> bool {
        self.is_closed && self.waiting.is_empty() && self.in_flight == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1);

    fn sizes(missing_query: &mut MissingQuery, has_lingered: bool) -> Vec<usize> {
        let batches = std::iter::from_fn(|| missing_query.next(START, has_lingered));
        batches.map(|batch| batch.len()).collect()
    }

    #[test]
    fn full_batches_go_at_once_and_grow() {
        let mut missing_query = MissingQuery::new();
        let mut asked = Vec::new();
        for id in 0..4000 {
            missing_query.push(id, START);
            if let Some(batch) = missing_query.next(START, false) {
                asked.push(batch.len());
                missing_query.answered();
            }
        }
        assert_eq!(asked, [16, 32, 64, 128, 256, 512, 1024, 1024]);
    }

    #[test]
    fn what_is_not_full_goes_after_a_linger_that_is_longer_the_more_are_under_way() {
        let mut missing_query = MissingQuery::new();
        for id in 0..IN_FLIGHT_MAX {
            missing_query.push(id, START);
            let under_way = u32::try_from(id).unwrap();
            assert_eq!(missing_query.due(), Some(START + (under_way + 1) * LINGER));
            assert!(sizes(&mut missing_query, false).is_empty());
            assert_eq!(sizes(&mut missing_query, true), [1]);
        }
        missing_query.push(0, START);
        assert_eq!(missing_query.due(), None);
        assert!(sizes(&mut missing_query, true).is_empty());
        missing_query.answered();
        assert_eq!(sizes(&mut missing_query, true), [1]);
    }

    #[test]
    fn batches_grow_only_as_they_fill() {
        let mut missing_query = MissingQuery::new();
        missing_query.push(0, START);
        assert_eq!(sizes(&mut missing_query, true), [1]);
        (0..BATCH_FIRST).for_each(|id| missing_query.push(id, START));
        assert_eq!(sizes(&mut missing_query, false), [BATCH_FIRST]);
    }

    #[test]
    fn the_end_waits_for_nothing_but_room() {
        let mut missing_query = MissingQuery::new();
        for id in 0..5 * BATCH_MAX {
            missing_query.push(id, START);
        }
        missing_query.close();
        assert_eq!(sizes(&mut missing_query, false), [BATCH_MAX; IN_FLIGHT_MAX]);
        assert!(!missing_query.is_over());
        missing_query.answered();
        assert_eq!(sizes(&mut missing_query, false), [BATCH_MAX]);
        for _ in 0..IN_FLIGHT_MAX {
            assert!(!missing_query.is_over());
            missing_query.answered();
        }
        assert!(missing_query.is_over());
    }
}
