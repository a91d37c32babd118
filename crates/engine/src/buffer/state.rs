//! The table behind a buffer's lock: which writer holds which range, which bytes are written, and
//! which tasks wait. Reservations, retirements and readers use it. Writing bytes does not.

use std::collections::BTreeMap;
use std::ops::Range;
use std::task::Waker;

use tidegate_core::extents::Extents;

use super::error::BufferError;
use super::slot::Slot;
use super::sync::Arc;

/// See the module docs. Invariants: the ranges of `live` are not empty, and overlap neither each
/// other nor `written`. A slot's published part counts as written, but enters `written` only when
/// its writer retires.
#[derive(Debug, Default)]
pub(super) struct State {
    live: BTreeMap<u64, Arc<Slot>>,
    written: Extents,
    waiters: Vec<Waiter>,
    // Some slot may hold a wanted position, possibly of a task that no longer waits.
    wished: bool,
    next_id: u64,
    total: Option<u64>,
    frozen: bool,
    failure: Option<BufferError>,
    // The buffer itself was dropped, so no range can be reserved any more.
    orphaned: bool,
}

/// A task that waits until a range is written.
#[derive(Debug)]
struct Waiter {
    id: u64,
    range: Range<u64>,
    waker: Waker,
}

impl State {
    /// Whether a range can be reserved. The caller then commits it and calls [`Self::hold`].
    pub(super) fn check_free(&self, asked: &Range<u64>, limit: u64) -> Result<(), BufferError> {
        if asked.start > asked.end {
            return Err(BufferError::Reversed { start: asked.start, end: asked.end });
        }
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if self.frozen {
            return Err(BufferError::Frozen);
        }
        if asked.end > limit {
            return Err(BufferError::BeyondLimit { end: asked.end, limit_bytes: limit });
        }
        if let Some(total) = self.total.filter(|total| asked.end > *total) {
            return Err(BufferError::BeyondEnd { end: asked.end, total });
        }
        if let Some(held) = self.held_within(asked) {
            return Err(BufferError::Reserved { asked: asked.clone(), held });
        }
        match self.written_within(asked) {
            Some(written) => Err(BufferError::Written { asked: asked.clone(), written }),
            None => Ok(()),
        }
    }

    /// The first range held by a writer that overlaps this one.
    pub(super) fn held_within(&self, range: &Range<u64>) -> Option<Range<u64>> {
        if range.is_empty() {
            return None;
        }
        let before = self.live.range(..range.start).next_back();
        let before = before.filter(|(_, slot)| slot.range().end > range.start);
        let (_, slot) = before.or_else(|| self.live.range(range.clone()).next())?;
        Some(slot.range())
    }

    fn written_within(&self, range: &Range<u64>) -> Option<Range<u64>> {
        self.written.overlapping(range.clone()).next()
    }

    /// Whether any byte of a range is reserved or written.
    pub(super) fn in_use(&self, range: &Range<u64>) -> bool {
        self.held_within(range).is_some() || self.written_within(range).is_some()
    }

    /// Enters a writer. Its range must be free and not empty.
    pub(super) fn hold(&mut self, slot: Arc<Slot>) {
        self.live.insert(slot.range().start, slot);
    }

    /// Removes a writer. Its written bytes stay; returns the part of its range that it did not
    /// write.
    pub(super) fn retire(&mut self, slot: &Slot) -> Range<u64> {
        let Range { start, end } = slot.range();
        let published = slot.published();
        self.live.remove(&start);
        self.written.insert(start..published);
        published..end
    }

    /// The first position from `at` on that has not been written, or `end`.
    pub(super) fn written_until(&self, at: u64, end: u64) -> u64 {
        self.follow(at, end, |slot, _| slot.published())
    }

    /// As [`Self::written_until`], but also registers the needed position with the writer that is
    /// not there yet.
    fn want(&self, at: u64, end: u64) -> u64 {
        self.follow(at, end, |slot, needed| match slot.published() {
            published if published >= needed => published,
            _ => slot.want(needed),
        })
    }

    /// Walks from run to run from `at` on. Calls `reached` for each writer on the way, which
    /// returns the position that the writer has reached.
    fn follow(&self, mut at: u64, end: u64, reached: impl Fn(&Slot, u64) -> u64) -> u64 {
        while at < end {
            let gap = self.written.gaps(at..end).next().map_or(end, |gap| gap.start);
            if gap > at {
                at = gap;
                continue;
            }
            let Some((_, slot)) = self.live.range(..=at).next_back() else { break };
            let needed = slot.range().end.min(end);
            if needed <= at {
                break;
            }
            let published = reached(slot, needed);
            at = published.clamp(at, needed);
            if published < needed {
                break;
            }
        }
        at
    }

    /// All written ranges, those of writers that are still writing included.
    pub(super) fn extents(&self) -> Extents {
        let mut extents = self.written.clone();
        extents.extend(self.live.values().map(|slot| slot.range().start..slot.published()));
        extents
    }

    /// The position after the furthest byte written.
    pub(super) fn len(&self) -> u64 {
        let live = self.live.values().rev().map(|slot| (slot.range().start, slot.published()));
        let furthest = live.filter(|(start, end)| end > start).map(|(_, end)| end).next();
        furthest.unwrap_or(0).max(self.written.end())
    }

    pub(super) fn total(&self) -> Option<u64> {
        self.total
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen
    }

    pub(super) fn failure(&self) -> Option<&BufferError> {
        self.failure.as_ref()
    }

    pub(super) fn first_held(&self) -> Option<Range<u64>> {
        self.live.values().next().map(|slot| slot.range())
    }

    /// Settles the blob's length. Readers end there.
    pub(super) fn settle(&mut self, total: u64, limit: u64) -> Result<(), BufferError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if let Some(was) = self.total.filter(|was| *was != total) {
            return Err(BufferError::OtherLength { was, is: total });
        }
        if total > limit {
            return Err(BufferError::BeyondLimit { end: total, limit_bytes: limit });
        }
        let held = self.live.values().next_back().map_or(0, |slot| slot.range().end);
        let end = held.max(self.written.end());
        if end > total {
            return Err(BufferError::BeyondEnd { end, total });
        }
        self.total = Some(total);
        Ok(())
    }

    pub(super) fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Marks filling as failed. The first failure stays. Every waiting task gets the error.
    pub(super) fn fail(&mut self, failure: BufferError) {
        self.failure.get_or_insert(failure);
    }

    /// The buffer was dropped. Once the last writer is dropped too, a missing byte can never be
    /// written.
    pub(super) fn orphan(&mut self) {
        self.orphaned = true;
    }

    fn is_abandoned(&self) -> bool {
        self.orphaned && self.live.is_empty()
    }

    /// The result of a wait for a range; `None` while the wait continues.
    pub(super) fn outcome(&self, range: &Range<u64>) -> Option<Result<(), BufferError>> {
        if let Some(failure) = &self.failure {
            return Some(Err(failure.clone()));
        }
        if self.written_until(range.start, range.end) >= range.end {
            return Some(Ok(()));
        }
        if let Some(total) = self.total.filter(|total| range.end > *total) {
            return Some(Err(BufferError::BeyondEnd { end: range.end, total }));
        }
        self.is_abandoned().then_some(Err(BufferError::Abandoned))
    }

    /// As [`Self::outcome`], but if the task must wait, enters it and registers the needed position
    /// with the writer that is not there yet. `id` is the task's entry from an earlier call. A
    /// waker that is not stored stays in `waker`. The caller drops it outside the lock, because
    /// dropping a waker can run arbitrary code.
    pub(super) fn wait(
        &mut self,
        id: &mut Option<u64>,
        range: &Range<u64>,
        waker: &mut Option<Waker>,
    ) -> Option<Result<(), BufferError>> {
        // Registered before the check, so that bytes written after the check wake this task.
        self.want(range.start, range.end);
        self.wished = true;
        let outcome = self.outcome(range);
        let known = id.and_then(|id| self.waiters.iter().position(|waiter| waiter.id == id));
        if outcome.is_some() {
            *id = None;
            if let (Some(known), Some(waker)) = (known, waker.as_mut()) {
                // Overwriting `*waker` drops the current waker under the lock. That is only a
                // clone, and the task holds the original, so the drop runs no code of the task.
                *waker = self.waiters.swap_remove(known).waker;
            }
            return outcome;
        }
        if let Some(waiter) = known.and_then(|known| self.waiters.get_mut(known)) {
            if let Some(waker) = waker {
                std::mem::swap(&mut waiter.waker, waker);
            }
            waiter.range = range.clone();
        } else if let Some(waker) = waker.take() {
            self.next_id += 1;
            *id = Some(self.next_id);
            self.waiters.push(Waiter { id: self.next_id, range: range.clone(), waker });
        }
        None
    }

    /// Removes a task's entry and returns its waker. The caller drops it outside the lock.
    pub(super) fn forget(&mut self, id: &mut Option<u64>) -> Option<Waker> {
        let id = id.take()?;
        let known = self.waiters.iter().position(|waiter| waiter.id == id)?;
        Some(self.waiters.swap_remove(known).waker)
    }

    /// Removes and returns the wakers of tasks whose wait has ended. Registers the positions of the
    /// others again.
    pub(super) fn due(&mut self) -> Vec<Waker> {
        if !self.wished {
            return Vec::new();
        }
        // Also if no task waits any more: otherwise a writer with a stale wanted position would
        // come here on every write.
        for slot in self.live.values() {
            slot.forget_wishes();
        }
        let waiters = std::mem::take(&mut self.waiters);
        let (due, waiting): (Vec<_>, Vec<_>) = waiters.into_iter().partition(|waiter| {
            self.want(waiter.range.start, waiter.range.end);
            self.outcome(&waiter.range).is_some()
        });
        self.wished = !waiting.is_empty();
        self.waiters = waiting;
        due.into_iter().map(|waiter| waiter.waker).collect()
    }

    /// The end of the run from `at` on that can be reserved: no writer, no written byte and no
    /// settled end lies in it.
    pub(super) fn free_until(&self, at: u64, limit: u64) -> u64 {
        let end = limit.min(self.total.unwrap_or(limit));
        let range = at..end.max(at);
        let held = self.held_within(&range).map_or(range.end, |held| held.start.max(at));
        let written = self.written_within(&range).map_or(range.end, |run| run.start.max(at));
        held.min(written)
    }
}
