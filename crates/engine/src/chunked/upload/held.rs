//! [`Held`]: memory that the budget has granted, and the bytes that are in it.
//!
//! Bytes go to the store, and from there to a connection, which may be sending them still when the
//! request that they belong to was given up. So what was granted goes back when the last of them is
//! gone, and not when somebody has lost interest.
//!
//! Long runs are mappings of their own. From the allocator, runs of a megabyte that come and go on
//! many threads leave holes that nobody sees: with 55 MiB held, a process had 110 to 140 MiB. A batch
//! has its run in a room that the batch before it had (see [`super::spare`], which says what that
//! brings).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use memmap2::{MmapMut, MmapOptions};

use super::spare::{MAPPED_BYTES_MIN, Room, Spare, Spares};
use crate::budget::BytesPermit;
use crate::error::Result;

/// Memory that the budget has granted, for as long as anybody holds a clone.
#[derive(Clone, Debug)]
pub(super) struct Held {
    bytes: u64,
    grant: Arc<Grant>,
}

/// What was granted, and where it goes once nobody holds it.
#[derive(Debug)]
struct Grant {
    // There until the end.
    permit: Option<BytesPermit>,
    room: Mutex<Option<Room>>,
    spares: Option<Spares>,
}

impl Held {
    /// So many of the bytes of `permit`, if it has as many.
    pub(super) fn new(permit: BytesPermit, bytes: u64) -> Self {
        let bytes = bytes.min(permit.bytes());
        let grant = Grant { permit: Some(permit), room: Mutex::default(), spares: None };
        Self { bytes, grant: Arc::new(grant) }
    }

    /// As [`Self::new`], and then to `spares`: what one run takes, in `room` where there is one.
    pub(super) fn spared(
        permit: BytesPermit,
        bytes: u64,
        room: Option<Room>,
        spares: &Spares,
    ) -> Self {
        let bytes = bytes.min(permit.bytes());
        let (room, spares) = (Mutex::new(room), Some(spares.clone()));
        Self { bytes, grant: Arc::new(Grant { permit: Some(permit), room, spares }) }
    }

    /// Bytes that may be held.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A run of `len` bytes, as `fill` leaves all of it, which this pays for as long as anybody has
    /// any of it.
    pub(super) fn filled(
        &self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<Bytes> {
        let mut run = Run::new(len);
        fill(run.as_mut())?;
        Ok(Bytes::from_owner(Paid { run, _held: self.clone() }))
    }

    /// As [`Self::filled`], for a run that takes all that was granted, in a room where it fits one.
    pub(super) fn filled_whole(
        &self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<Bytes> {
        let room = self.grant.spares.as_ref().filter(|_| Room::fits(len));
        let Some(room) = room.and_then(|_| self.grant.room().take().or_else(Room::new)) else {
            return self.filled(len, fill);
        };
        let mut run = RoomRun { room: Some(room), len, held: self.clone() };
        fill(run.as_mut())?;
        Ok(Bytes::from_owner(run))
    }

    /// Lets go of the room, before something else is held instead of what was in it.
    pub(super) fn let_go_of_room(&self) {
        let room = self.grant.room().take();
        drop(room);
    }
}

impl Grant {
    fn room(&self) -> MutexGuard<'_, Option<Room>> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let room = self.room().take();
        if let (Some(room), Some(mut permit), Some(spares)) =
            (room, self.permit.take(), &self.spares)
        {
            permit.shrink(room.touched_bytes());
            if permit.bytes() >= room.touched_bytes() {
                spares.put(Spare { room, permit });
            }
        }
    }
}

/// A run of memory.
enum Run {
    Allocated(Vec<u8>),
    Mapped(MmapMut),
}

impl Run {
    fn new(len: usize) -> Self {
        if len >= MAPPED_BYTES_MIN
            && let Ok(mapped) = MmapOptions::new().len(len).populate().map_anon()
        {
            return Self::Mapped(mapped);
        }
        Self::Allocated(vec![0; len])
    }

    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Allocated(bytes) => bytes,
            Self::Mapped(bytes) => bytes,
        }
    }
}

/// Bytes, and after them what pays for them.
struct Paid {
    run: Run,
    _held: Held,
}

impl AsRef<[u8]> for Paid {
    fn as_ref(&self) -> &[u8] {
        match &self.run {
            Run::Allocated(bytes) => bytes,
            Run::Mapped(bytes) => bytes,
        }
    }
}

/// Bytes in a room, which goes back to what pays for it.
struct RoomRun {
    // There until the end.
    room: Option<Room>,
    len: usize,
    held: Held,
}

impl RoomRun {
    fn as_mut(&mut self) -> &mut [u8] {
        self.room.as_mut().map_or(&mut [], |room| room.bytes_mut(self.len))
    }
}

impl AsRef<[u8]> for RoomRun {
    fn as_ref(&self) -> &[u8] {
        self.room.as_ref().map_or(&[], |room| room.bytes(self.len))
    }
}

impl Drop for RoomRun {
    fn drop(&mut self) {
        *self.held.grant.room() = self.room.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    fn bytes_are_paid_for(filled: impl FnOnce(&Budget, &Spares, usize) -> Bytes, len: usize) {
        let budget = Budget::default();
        let spares = Spares::new(&budget);
        let mut bytes = filled(&budget, &spares, len);
        assert!(bytes.len() == len && bytes.iter().all(|byte| *byte == 7));
        let last = bytes.split_off(len - 1);
        drop(bytes);
        assert!(budget.held_bytes() >= len as u64);
        drop(last);
        spares.shed(0);
        assert_eq!(budget.held_bytes(), 0);
    }

    const FILL: fn(&mut [u8]) -> Result<()> = |bytes| {
        bytes.fill(7);
        Ok(())
    };

    #[test]
    fn what_was_granted_goes_back_with_the_last_of_the_bytes() {
        for len in [5000, MAPPED_BYTES_MIN, MAPPED_BYTES_MIN + 1, 5 << 20] {
            let plain = |budget: &Budget, _: &Spares, len: usize| {
                let held = Held::new(budget.try_bytes(len as u64).unwrap(), len as u64);
                held.filled(len, FILL).unwrap()
            };
            let spared = |budget: &Budget, spares: &Spares, len: usize| {
                let permit = budget.try_bytes(len as u64).unwrap();
                let held = Held::spared(permit, len as u64, None, spares);
                held.filled_whole(len, FILL).unwrap()
            };
            bytes_are_paid_for(plain, len);
            bytes_are_paid_for(spared, len);
        }
    }

    #[test]
    fn a_room_and_what_pays_for_it_serve_again() {
        let budget = Budget::default();
        let spares = Spares::new(&budget);
        let mut at = Vec::new();
        for (len, held_bytes) in [(200_000, 200_704), (150_000, 200_704), (300_000, 303_104)] {
            let Spare { room, mut permit } = match spares.take(len as u64) {
                Some(spare) => spare,
                None => Spare { room: Room::new().unwrap(), permit: budget.try_bytes(1).unwrap() },
            };
            if let Some(more) = (len as u64).checked_sub(permit.bytes()) {
                permit.merge(budget.try_bytes(more).unwrap());
            }
            let held = Held::spared(permit, len as u64, Some(room), &spares);
            let bytes = held.filled_whole(len, FILL).unwrap();
            at.push(bytes.as_ptr());
            drop(held);
            assert_eq!(budget.held_bytes(), held_bytes);
            drop(bytes);
            assert_eq!(budget.held_bytes(), held_bytes);
        }
        assert!(at.iter().all(|address| *address == at[0]), "{at:?}");
    }

    #[test]
    fn what_lies_idle_gives_way() {
        let budget = Budget::default();
        let spares = Spares::new(&budget);
        let used = |len: usize| {
            let permit = budget.try_bytes(len as u64).unwrap();
            let held = Held::spared(permit, len as u64, None, &spares);
            drop(held.filled_whole(len, FILL).unwrap());
        };
        (0..3).for_each(|_| used(409_600));
        assert_eq!(budget.held_bytes(), 409_600 * 3);
        spares.shed(409_600 * 2 + 4096);
        assert_eq!(budget.held_bytes(), 409_600 * 2);
        let all = budget.try_bytes(budget.limits().bytes).unwrap();
        assert_eq!(all.bytes(), budget.limits().bytes);
        assert!(spares.take(409_600).is_none());
    }
}
