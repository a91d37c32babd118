//! [`Spares`]: memory of finished batches, kept for the next batches.
//!
//! Why: the system has to find and clear new pages. Reusing pages takes 17 % off an upload's
//! processor time, 0.23 s of 1.41 s for 512 MiB on two busy cores. If these cores limit an upload,
//! that is a fifth of its time at 1 GB/s. See "Weighed again" in `docs/benchmarks.md`.
//!
//! Requests of a window end in bunches, and the same number start again. So all rooms of finished
//! batches are kept, each with its permit. An upload holds no more bytes than without spares, but
//! it holds them for longer. It releases idle rooms as soon as the budget cannot grant another
//! request for bytes.
//!
//! Invariant: old bytes of a room are never read. A batch fills the part of the room that it uses.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use memmap2::{MmapMut, MmapOptions};

use super::send_queue::BATCH_BYTES_MAX;
use crate::budget::{Budget, BytesPermit, Reclaim};

/// Shorter runs come from the allocator, which keeps small blocks ready.
pub(super) const MAPPED_BYTES_MIN: usize = 64 << 10;

/// Large enough for any batch.
const ROOM_BYTES: usize = 4 << 20;
const _: () = assert!(ROOM_BYTES as u64 >= BATCH_BYTES_MAX);

/// A mapping that any batch fits into. Only its first `touched_bytes` have pages: only they take
/// memory, and only they are charged.
#[derive(Debug)]
pub(super) struct SpareMemory {
    mapping: MmapMut,
    touched_bytes: usize,
}

impl SpareMemory {
    /// Whether a run of `len` bytes goes into a room.
    pub(super) fn fits(len: usize) -> bool {
        (MAPPED_BYTES_MIN..=ROOM_BYTES).contains(&len)
    }

    /// A room without pages; `None` if the system cannot map one.
    pub(super) fn new() -> Option<Self> {
        let mapping = MmapOptions::new().len(ROOM_BYTES).map_anon().ok()?;
        Some(Self { mapping, touched_bytes: 0 })
    }

    /// The number of bytes that have pages.
    pub(super) fn touched_bytes(&self) -> u64 {
        self.touched_bytes as u64
    }

    /// The first `len` bytes; `len` is at most a batch.
    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        self.mapping.get(..len).unwrap_or_default()
    }

    /// Like [`Self::bytes`], to be filled. Missing pages are populated in one call, which costs
    /// less than one page fault each. If the system does not support that advice, each page is
    /// populated at its first write.
    pub(super) fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        #[cfg(target_os = "linux")]
        if let Some(missing) = len.checked_sub(self.touched_bytes) {
            let advice = memmap2::Advice::PopulateWrite;
            let _ = self.mapping.advise_range(advice, self.touched_bytes, missing);
        }
        self.touched_bytes = self.touched_bytes.max(len);
        self.mapping.get_mut(..len).unwrap_or_default()
    }
}

/// An idle room and its permit.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) room: SpareMemory,
    pub(super) permit: BytesPermit,
}

/// Idle rooms; clones share them.
#[derive(Clone, Debug)]
pub(super) struct Spares(Arc<Store>);

#[derive(Debug)]
struct Store {
    budget: Budget,
    // Last in, first out: the processor's caches hold more of the last room.
    idle: Mutex<Vec<Spare>>,
}

impl Spares {
    /// Starts empty, and registers with `budget` to release idle rooms when it runs short.
    pub(super) fn new(budget: &Budget) -> Self {
        let store = Arc::new(Store { budget: budget.clone(), idle: Mutex::default() });
        let weak: Weak<Store> = Arc::downgrade(&store);
        let weak: Weak<dyn Reclaim> = weak;
        budget.call_on(&weak);
        Self(store)
    }

    /// An idle room for a batch of `bytes`, if there is one. Its permit is at most twice `bytes`:
    /// all of the permit is held until the batch is sent.
    pub(super) fn take(&self, bytes: u64) -> Option<Spare> {
        usize::try_from(bytes).ok().filter(|len| SpareMemory::fits(*len))?;
        let mut idle = self.0.lock();
        let at = idle.iter().rposition(|spare| spare.permit.bytes() / 2 <= bytes)?;
        Some(idle.remove(at))
    }

    /// Keeps a room, unless the budget has waiters.
    pub(super) fn put(&self, spare: Spare) {
        let mut idle = self.0.lock();
        // A task that already waits for bytes does not call `reclaim` again: it is counted in
        // `is_wanted`. A task that is about to wait is counted before it takes this lock.
        if !self.0.budget.is_wanted() {
            idle.push(spare);
        }
    }

    /// Releases idle rooms, the longest idle first, until the rest is within `bytes_max`.
    pub(super) fn shed(&self, bytes_max: u64) {
        let mut idle = self.0.lock();
        let mut bytes = 0;
        let kept = idle.iter().rev().take_while(|spare| {
            bytes += spare.permit.bytes();
            bytes <= bytes_max
        });
        let surplus = idle.len() - kept.count();
        let dropped: Vec<Spare> = idle.drain(..surplus).collect();
        drop(idle);
        // Unmapped outside the lock.
        drop(dropped);
    }
}

impl Store {
    fn lock(&self) -> MutexGuard<'_, Vec<Spare>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reclaim for Store {
    fn reclaim(&self) {
        let dropped = std::mem::take(&mut *self.lock());
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_batch_leaves_a_large_room_alone() {
        let budget = Budget::default();
        let spares = Spares::new(&budget);
        let permit = budget.try_bytes(2 << 20).unwrap();
        spares.put(Spare { room: SpareMemory::new().unwrap(), permit });
        for bytes in [0, 1 << 10, MAPPED_BYTES_MIN as u64, (1 << 20) - 1, 5 << 20] {
            assert!(spares.take(bytes).is_none(), "{bytes}");
        }
        assert_eq!(spares.take(1 << 20).unwrap().permit.bytes(), 2 << 20);
        assert!(spares.take(1 << 20).is_none());
    }
}
