//! Which reader owns which byte. A [`ShardRange`] is a range of the blob that one reader works through,
//! or two readers that race. The first reader that has a byte claims it, and each byte is claimed
//! once. So a piece can be split or raced at any time, and no byte is written or counted twice.
//!
//! Invariants: `next` only grows, `end` only shrinks, and claims are consecutive. Every byte before
//! `next` has been claimed.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::plan::split_point;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub(super) struct ShardRange {
    state: Mutex<State>,
    readers: AtomicU32,
    finished: CancellationToken,
}

#[derive(Debug)]
struct State {
    start: u64,
    next: u64,
    end: u64,
    begun: Instant,
    last_byte: Instant,
    races: u32,
}

/// The progress of a piece.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    pub(super) remaining: Range<u64>,
    /// Time since the last byte was claimed.
    pub(super) idle: Duration,
    /// Bytes per second since it began; 0 before the first byte.
    pub(super) rate: u64,
    pub(super) readers: u32,
    /// Readers that have joined since it began.
    pub(super) races: u32,
}

impl ShardRange {
    /// A piece with one reader; `end` is `u64::MAX` if it is not known.
    pub(super) fn new(range: Range<u64>) -> Self {
        let now = Instant::now();
        Self {
            state: Mutex::new(State {
                start: range.start,
                next: range.start,
                end: range.end,
                begun: now,
                last_byte: now,
                races: 0,
            }),
            readers: AtomicU32::new(1),
            finished: CancellationToken::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the new bytes among the `len` bytes that arrived at `offset`; empty if none are new.
    pub(super) fn claim(&self, offset: u64, len: u64) -> Range<u64> {
        let mut state = self.lock();
        let stop = offset.saturating_add(len).min(state.end);
        if offset > state.next || stop <= state.next {
            return state.next..state.next;
        }
        let claimed = state.next..stop;
        state.next = stop;
        state.last_byte = Instant::now();
        if stop == state.end {
            self.finished.cancel();
        }
        claimed
    }

    /// Ends the piece at `position`, where a blob of unknown length ended.
    pub(super) fn ended_at(&self, position: u64) {
        let mut state = self.lock();
        state.end = state.end.min(position.max(state.next));
        if state.next >= state.end {
            self.finished.cancel();
        }
    }

    /// Waits until every byte has been claimed. Cancel-safe.
    pub(super) async fn finished(&self) {
        self.finished.cancelled().await;
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished.is_cancelled()
    }

    /// Cuts off the far half of the remaining bytes for another reader, if both halves have at
    /// least `min_bytes`.
    pub(super) fn split(&self, min_bytes: u64) -> Option<Range<u64>> {
        let mut state = self.lock();
        if state.end == u64::MAX {
            return None;
        }
        let at = split_point(state.next..state.end, min_bytes)?;
        let far = at..state.end;
        state.end = at;
        Some(far)
    }

    pub(super) fn pace(&self) -> Pace {
        let state = self.lock();
        let millis = u64::try_from(state.begun.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        Pace {
            remaining: state.next..state.end,
            idle: state.last_byte.elapsed(),
            rate: (state.next - state.start).saturating_mul(1000) / millis,
            readers: self.readers.load(Ordering::Relaxed),
            races: state.races,
        }
    }

    /// Adds a reader, and returns the remaining range for it.
    pub(super) fn join(&self) -> Range<u64> {
        self.readers.fetch_add(1, Ordering::Relaxed);
        let mut state = self.lock();
        state.races += 1;
        state.next..state.end
    }

    /// Removes a reader, and returns whether it was the last.
    pub(super) fn leave(&self) -> bool {
        self.readers.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_racing_reader_claims_only_what_is_new() {
        let piece = ShardRange::new(10..100);
        assert_eq!(piece.claim(10, 20), 10..30);
        assert_eq!(piece.join(), 30..100);
        assert_eq!(piece.claim(30, 30), 30..60);
        assert!(piece.claim(30, 20).is_empty());
        assert_eq!(piece.claim(50, 20), 60..70);
        assert!(!piece.leave());
        assert_eq!(piece.claim(70, 1000), 70..100);
        assert!(piece.is_finished() && piece.leave());
    }

    #[test]
    fn a_split_ends_the_near_half_early() {
        let piece = ShardRange::new(0..100);
        piece.claim(0, 20);
        let far = piece.split(10).unwrap();
        assert_eq!(far.end, 100);
        assert_eq!(piece.claim(20, 80), 20..far.start);
        assert!(piece.is_finished());
        assert!(piece.split(10).is_none());
    }

    proptest! {
        /// Two readers deliver pieces of any sizes, and every byte is claimed exactly once.
        #[test]
        fn every_byte_is_claimed_once(steps in prop::collection::vec((any::<bool>(), 1_u64..40), 1..200)) {
            let piece = ShardRange::new(0..500);
            let mut readers = [0_u64, 0];
            let mut claimed = 0;
            for (second, len) in steps {
                let reader = &mut readers[usize::from(second)];
                let range = piece.claim(*reader, len);
                if !range.is_empty() {
                    prop_assert_eq!(range.start, claimed);
                    claimed = range.end;
                }
                *reader += len;
                prop_assert_eq!(piece.is_finished(), claimed == 500);
            }
        }
    }
}
