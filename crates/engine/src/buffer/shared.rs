//! What a buffer, its writers and its readers share, and how a writer has waiting readers woken
//! without ever waiting itself.
//!
//! A writer that passes a position somebody waits for has to look at the table, whose lock a
//! reader may hold. It does not wait for that: it raises `pending` and *tries* the lock. Whoever
//! holds the lock looks at `pending` after letting go, and does what the writer could not. Both
//! sides change `pending` by a read-modify-write, so that of the two one sees the other (the same
//! argument as in [`super::slot`]).

use std::ops::Range;
use std::task::Waker;

use super::error::BufferError;
use super::memory::{Fill, Memory, Slice};
use super::slot::Slot;
use super::state::State;
use super::sync::{Arc, AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, lock, try_lock};

/// The lock is held for some hundred nanoseconds, so it is tried for about as long before the
/// thread goes to sleep, as the standard library's own lock does. In the model one try is as good
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

    /// The memory to oneself: only where nobody else can see any of its bytes.
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

    /// Changes the table, and wakes whoever need not wait any more for it.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let (result, due) = self.look(|state| {
            let result = change(state);
            (result, state.due())
        });
        due.into_iter().for_each(Waker::wake);
        result
    }

    /// A writer has passed a position that somebody waits for. Takes no lock that is not free.
    pub(super) fn passed(&self) {
        self.pending.swap(true, Ordering::AcqRel);
        self.settle();
    }

    /// Does what writers could not do because the lock was held. Called after every time that the
    /// lock was held.
    fn settle(&self) {
        while self.pending.fetch_or(false, Ordering::AcqRel) {
            // Whoever holds it comes here afterwards.
            let Some(mut state) = try_lock(&self.state) else { return };
            // Taken back before the table is looked at: what is published later raises it again.
            self.pending.swap(false, Ordering::AcqRel);
            let due = state.due();
            drop(state);
            due.into_iter().for_each(Waker::wake);
        }
    }

    /// Reserves a range that is free, and pays for it.
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
        // SAFETY: under the lock, the range was found to overlap neither a live reservation nor
        // anything published, was committed, and was entered as reserved; it stays entered until
        // `release` is called with this slot, which whoever owns the fill does after dropping it.
        #[expect(unsafe_code, reason = "the table of reservations is the proof")]
        Ok(unsafe { Fill::new(Arc::clone(&self.memory), slot) })
    }

    /// Takes a fill back: what it has written stays, the rest is free again.
    pub(super) fn release(&self, fill: Fill) {
        let slot = Arc::clone(fill.slot());
        // Before the range is free for others.
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

    /// Bytes that have been written; an error where not all of them are there, or filling has
    /// failed.
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
