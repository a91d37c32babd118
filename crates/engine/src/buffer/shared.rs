//! The state that a buffer, its writers and its readers share. It lets a writer wake waiting
//! readers without ever waiting itself.
//!
//! A writer that passes a position that a reader waits for must look at the table. Another thread
//! may hold the table's lock. The writer does not wait for the lock: it sets `pending` and *tries*
//! the lock. If the try fails, the lock holder checks `pending` after it unlocks, and wakes the
//! readers instead. Both sides change `pending` by a read-modify-write, so one of the two always
//! sees the other (the same argument as in [`super::slot`]).

use std::ops::Range;
use std::task::Waker;

use super::error::BufferError;
use super::memory::{Fill, Memory, Slice};
use super::slot::Slot;
use super::state::State;
use super::sync::{Arc, AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, lock, try_lock};

/// The lock is held for some hundred nanoseconds. So a thread spins for about that long before it
/// sleeps, as the standard library's lock does. In the model, one try covers the same interleavings
/// as many.
const LOCK_TRIES: u32 = if cfg!(tidegate_loom) { 1 } else { 100 };

#[derive(Debug)]
pub(super) struct Shared {
    memory: Arc<Memory>,
    state: Mutex<State>,
    pending: AtomicBool,
    lock_waits: AtomicU64,
}

impl Shared {
    pub(super) fn new(memory: Memory) -> Self {
        Self {
            memory: Arc::new(memory),
            state: Mutex::new(State::default()),
            pending: AtomicBool::new(false),
            lock_waits: AtomicU64::new(0),
        }
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Exclusive access to the memory: `None` while a fill or a slice holds it.
    pub(super) fn memory_mut(&mut self) -> Option<&mut Memory> {
        Arc::get_mut(&mut self.memory)
    }

    pub(super) fn lock_waits(&self) -> u64 {
        self.lock_waits.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        for _ in 0..LOCK_TRIES {
            if let Some(state) = try_lock(&self.state) {
                return state;
            }
            std::hint::spin_loop();
        }
        self.lock_waits.fetch_add(1, Ordering::Relaxed);
        lock(&self.state)
    }

    /// Looks at the table.
    pub(super) fn look<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = look(&mut state);
        drop(state);
        self.settle();
        result
    }

    /// Changes the table, and wakes every task whose wait ended by that.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let (result, due) = self.look(|state| {
            let result = change(state);
            (result, state.due())
        });
        due.into_iter().for_each(Waker::wake);
        result
    }

    /// Called by a writer that has passed a position that a reader waits for. Never blocks on the
    /// lock.
    pub(super) fn passed(&self) {
        self.pending.swap(true, Ordering::AcqRel);
        self.settle();
    }

    /// Wakes the readers for writers that found the lock held. Called after each unlock.
    fn settle(&self) {
        while self.pending.fetch_or(false, Ordering::AcqRel) {
            // The lock holder calls `settle` after it unlocks.
            let Some(mut state) = try_lock(&self.state) else { return };
            // Cleared before the table is read: a later publish sets it again.
            self.pending.swap(false, Ordering::AcqRel);
            let due = state.due();
            drop(state);
            due.into_iter().for_each(Waker::wake);
        }
    }

    /// Reserves a free range, and charges the budget for it.
    pub(super) fn reserve(&self, range: &Range<u64>) -> Result<Fill, BufferError> {
        let slot = Arc::new(Slot::new(range.clone()));
        self.change(|state| {
            state.check_free(range, self.memory.limit_bytes())?;
            if !range.is_empty() {
                self.memory.commit(range)?;
                state.hold(Arc::clone(&slot));
            }
            Ok(())
        })?;
        // SAFETY: under the lock, the range overlapped neither a live reservation nor a published
        // byte, was committed, and was entered as reserved. It stays entered until `release` is
        // called with this slot. The fill's owner (`ShardWriter`) hands the fill to `release`,
        // which drops it first.
        #[expect(unsafe_code, reason = "the table of reservations is the proof")]
        Ok(unsafe { Fill::new(Arc::clone(&self.memory), slot) })
    }

    /// Releases a fill: its written bytes stay, the rest of its range is free again.
    pub(super) fn release(&self, fill: Fill) {
        let slot = Arc::clone(fill.slot());
        // The fill must be gone before other writers can reserve the range.
        drop(fill);
        if slot.range().is_empty() {
            return;
        }
        self.change(|state| {
            let rest = state.retire(&slot);
            if !rest.is_empty() {
                self.memory.uncommit(&rest, |range| state.in_use(&range));
            }
        });
    }

    /// Written bytes. An error if some of them are missing, or if filling has failed.
    pub(super) fn slice(&self, range: Range<u64>) -> Result<Slice, BufferError> {
        self.look(|state| {
            if let Some(failure) = state.failure() {
                return Err(failure.clone());
            }
            let until = state.written_until(range.start, range.end);
            if until >= range.end {
                return Ok(());
            }
            let gap = state.extents().gaps(range.clone()).next();
            Err(BufferError::Gap { gap: gap.unwrap_or(until..range.end) })
        })?;
        // SAFETY: every byte of the range was seen as published, with acquire or under the lock.
        #[expect(unsafe_code, reason = "the table is the proof")]
        Ok(unsafe { Slice::new(Arc::clone(&self.memory), range) })
    }
}
