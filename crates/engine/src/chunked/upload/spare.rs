//! [`Spares`]: memory that one batch is done with, for the next.
//!
//! New pages have to be found and cleared. To use them again takes 17 % off an upload's processor
//! time, 0.23 s of 1.41 s for 512 MiB on two busy cores; where these limit an upload, that is a fifth
//! of its time at 1 GB/s. See "Weighed again" in `docs/benchmarks.md`. A
//! window's requests end in bunches, and as many begin again: so all that a batch had is kept, and
//! with it what pays for it. An upload holds no more for this than it may hold at once anyway, but
//! holds it for longer; it lets go of what lies idle as soon as somebody's wish for bytes cannot be
//! granted.
//!
//! What is in a room is never read again: whoever takes one fills what it uses of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use memmap2::{MmapMut, MmapOptions};

use super::outbox::BATCH_BYTES_MAX;
use crate::budget::{Budget, BytesPermit, Reclaim};

/// What is shorter comes from the allocator, which has it at hand.
pub(super) const MAPPED_BYTES_MIN: usize = 64 << 10;

/// Room for any batch.
const ROOM_BYTES: usize = 4 << 20;
const _: () = assert!(ROOM_BYTES as u64 >= BATCH_BYTES_MAX);

/// A mapping that any batch fits into, and how much of it has pages, from its beginning: only those
/// are memory, and paid for.
#[derive(Debug)]
pub(super) struct Room {
    mapping: MmapMut,
    touched_bytes: usize,
}

impl Room {
    /// Whether `len` bytes are to go into one.
    pub(super) fn fits(len: usize) -> bool {
        (MAPPED_BYTES_MIN..=ROOM_BYTES).contains(&len)
    }

    /// Without pages; `None` where the system has none to give.
    pub(super) fn new() -> Option<Self> {
        let mapping = MmapOptions::new().len(ROOM_BYTES).map_anon().ok()?;
        Some(Self { mapping, touched_bytes: 0 })
    }

    /// Bytes that have pages.
    pub(super) fn touched_bytes(&self) -> u64 {
        self.touched_bytes as u64
    }

    /// The first `len` bytes, which are no more than a batch has.
    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        self.mapping.get(..len).unwrap_or_default()
    }

    /// As [`Self::bytes`], to be filled. Pages that are missing come all at once, which costs less
    /// than one by one; where the system does not take that advice, they come when written to.
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

/// A room that lies idle, and what pays for it.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) room: Room,
    pub(super) permit: BytesPermit,
}

/// Rooms that lie idle; clones share them.
#[derive(Clone, Debug)]
pub(super) struct Spares(Arc<Store>);

#[derive(Debug)]
struct Store {
    budget: Budget,
    // The last to come is the first to go: more of it is in the processor's caches.
    idle: Mutex<Vec<Spare>>,
}

impl Spares {
    /// None yet.
    pub(super) fn new(budget: &Budget) -> Self {
        let store = Arc::new(Store { budget: budget.clone(), idle: Mutex::default() });
        let weak: Weak<Store> = Arc::downgrade(&store);
        let weak: Weak<dyn Reclaim> = weak;
        budget.call_on(&weak);
        Self(store)
    }

    /// One for a batch of `bytes`, if there is one. None of more than twice as many: all of it would
    /// be held until the batch is sent.
    pub(super) fn take(&self, bytes: u64) -> Option<Spare> {
        usize::try_from(bytes).ok().filter(|len| Room::fits(*len))?;
        let mut idle = self.0.lock();
        let at = idle.iter().rposition(|spare| spare.permit.bytes() / 2 <= bytes)?;
        Some(idle.remove(at))
    }

    /// Keeps one, unless its memory is wanted.
    pub(super) fn put(&self, spare: Spare) {
        let mut idle = self.0.lock();
        // Whoever waits already will not call on us; whoever is about to takes this lock first.
        if !self.0.budget.is_wanted() {
            idle.push(spare);
        }
    }

    /// Lets go of what lies idle, those that have lain longest first, until the rest is within
    /// `bytes_max`.
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
        spares.put(Spare { room: Room::new().unwrap(), permit });
        for bytes in [0, 1 << 10, MAPPED_BYTES_MIN as u64, (1 << 20) - 1, 5 << 20] {
            assert!(spares.take(bytes).is_none(), "{bytes}");
        }
        assert_eq!(spares.take(1 << 20).unwrap().permit.bytes(), 2 << 20);
        assert!(spares.take(1 << 20).is_none());
    }
}
