//! [`HeldBytes`]: memory that the budget has granted, and the bytes in it.
//!
//! The store passes the bytes on to a connection. The connection may still send them after the
//! request was given up. So the permit is released when the last of the bytes is dropped, and not
//! when the request ends.
//!
//! Long runs are separate memory mappings. If the allocator served them, runs of a megabyte that
//! many threads allocate and free would leave holes that no report shows: with 55 MiB held, a
//! process had 110 to 140 MiB. A batch puts its run into a room that an earlier batch has used (see
//! [`super::spare`], which gives the gain).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use memmap2::{MmapMut, MmapOptions};

use super::spare::{MAPPED_BYTES_MIN, Spare, SpareMemory, Spares};
use crate::budget::BytesPermit;
use crate::error::Result;

/// Memory that the budget has granted. It stays charged until the last clone is dropped.
#[derive(Clone, Debug)]
pub(super) struct HeldBytes {
    bytes: u64,
    grant: Arc<Grant>,
}

/// The permit, and where it goes when the last [`HeldBytes`] is dropped.
#[derive(Debug)]
struct Grant {
    // `Some` until drop.
    permit: Option<BytesPermit>,
    room: Mutex<Option<SpareMemory>>,
    spares: Option<Spares>,
}

impl HeldBytes {
    /// The first `bytes` bytes of `permit`, or all of it if it has fewer.
    pub(super) fn new(permit: BytesPermit, bytes: u64) -> Self {
        let bytes = bytes.min(permit.bytes());
        let grant = Grant { permit: Some(permit), room: Mutex::default(), spares: None };
        Self { bytes, grant: Arc::new(grant) }
    }

    /// Like [`Self::new`], for the memory of one batch. The run is placed in `room` if there is
    /// one. At the end the room and its permit go to `spares`.
    pub(super) fn spared(
        permit: BytesPermit,
        bytes: u64,
        room: Option<SpareMemory>,
        spares: &Spares,
    ) -> Self {
        let bytes = bytes.min(permit.bytes());
        let (room, spares) = (Mutex::new(room), Some(spares.clone()));
        Self { bytes, grant: Arc::new(Grant { permit: Some(permit), room, spares }) }
    }

    /// The number of bytes that may be held.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A run of `len` bytes. `fill` writes all of them. The permit stays charged until the last
    /// slice of the run is dropped.
    pub(super) fn filled(
        &self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<Bytes> {
        let mut run = Run::new(len);
        fill(run.as_mut())?;
        Ok(Bytes::from_owner(Paid { run, _held: self.clone() }))
    }

    /// Like [`Self::filled`], for one run that takes everything that was granted. It is placed in a
    /// room if its length fits one.
    pub(super) fn filled_whole(
        &self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<Bytes> {
        let room = self.grant.spares.as_ref().filter(|_| SpareMemory::fits(len));
        let Some(room) = room.and_then(|_| self.grant.room().take().or_else(SpareMemory::new))
        else {
            return self.filled(len, fill);
        };
        let mut run = RoomRun { room: Some(room), len, held: self.clone() };
        fill(run.as_mut())?;
        Ok(Bytes::from_owner(run))
    }

    /// Releases the room, before other memory is held instead of its bytes.
    pub(super) fn let_go_of_room(&self) {
        let room = self.grant.room().take();
        drop(room);
    }
}

impl Grant {
    fn room(&self) -> MutexGuard<'_, Option<SpareMemory>> {
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

/// Bytes, and then the permit that they are charged to: fields are dropped in this order.
struct Paid {
    run: Run,
    _held: HeldBytes,
}

impl AsRef<[u8]> for Paid {
    fn as_ref(&self) -> &[u8] {
        match &self.run {
            Run::Allocated(bytes) => bytes,
            Run::Mapped(bytes) => bytes,
        }
    }
}

/// Bytes in a room. On drop the room goes back to the grant.
struct RoomRun {
    // `Some` until drop.
    room: Option<SpareMemory>,
    len: usize,
    held: HeldBytes,
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
                let held = HeldBytes::new(budget.try_bytes(len as u64).unwrap(), len as u64);
                held.filled(len, FILL).unwrap()
            };
            let spared = |budget: &Budget, spares: &Spares, len: usize| {
                let permit = budget.try_bytes(len as u64).unwrap();
                let held = HeldBytes::spared(permit, len as u64, None, spares);
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
                None => Spare {
                    room: SpareMemory::new().unwrap(),
                    permit: budget.try_bytes(1).unwrap(),
                },
            };
            if let Some(more) = (len as u64).checked_sub(permit.bytes()) {
                permit.merge(budget.try_bytes(more).unwrap());
            }
            let held = HeldBytes::spared(permit, len as u64, Some(room), &spares);
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
            let held = HeldBytes::spared(permit, len as u64, None, &spares);
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
