//! [`PackTable`]: every pack's generation, state and live bytes.
//!
//! A slot is the number of a pack file. An index entry is current if its pack is in use and has the
//! entry's generation. So freeing a pack makes all entries that point into it stale at once.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::store::disk::{Disk, DiskFile, OpenMode};
use crate::store::index::Location;

/// The folder of the packs.
pub(crate) const FOLDER: &str = "packs";

/// What a pack is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PackState {
    /// There is no file.
    Absent = 0,
    /// There is a file, and nothing in it counts.
    Free = 1,
    /// It has records.
    Used = 2,
}

/// A pack as checkpoints save it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedPack {
    pub(crate) state: PackState,
    pub(crate) generation: u32,
    /// The end of its records in bytes.
    pub(crate) end: u64,
    /// The sequence of its last record.
    pub(crate) seq_last: u64,
}

const ABSENT: SavedPack =
    SavedPack { state: PackState::Absent, generation: 0, end: 0, seq_last: 0 };

#[derive(Debug)]
struct Slot {
    pack: SavedPack,
    /// The last checkpoint may say that the pack is in use, although its file is gone. A new file under
    /// this number would pass for it after a crash.
    is_blocked: bool,
    live_bytes: AtomicU64,
    file: RwLock<Option<Arc<dyn DiskFile>>>,
}

/// All packs. Slots count from 1, so that no location is 0.
#[derive(Debug)]
pub(crate) struct PackTable {
    disk: Arc<dyn Disk>,
    slots: RwLock<Vec<Slot>>,
}

impl PackTable {
    pub(crate) fn new(disk: Arc<dyn Disk>, saved: &[SavedPack]) -> Self {
        let slot = |pack: &SavedPack| Slot {
            pack: *pack,
            is_blocked: false,
            live_bytes: AtomicU64::new(0),
            file: RwLock::new(None),
        };
        Self { disk, slots: RwLock::new(saved.iter().map(slot).collect()) }
    }

    fn with<T>(&self, slot: u32, work: impl FnOnce(&Slot) -> T) -> Option<T> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let at = usize::try_from(slot.checked_sub(1)?).ok()?;
        slots.get(at).map(work)
    }

    /// A pack's state and generation.
    pub(crate) fn get(&self, slot: u32) -> SavedPack {
        self.with(slot, |slot| slot.pack).unwrap_or(ABSENT)
    }

    /// Changes a pack's state and generation.
    pub(crate) fn set(&self, slot: u32, pack: SavedPack) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = slot.checked_sub(1).and_then(|at| usize::try_from(at).ok()) else { return };
        while slots.len() <= at {
            slots.push(Slot {
                pack: ABSENT,
                is_blocked: false,
                live_bytes: AtomicU64::new(0),
                file: RwLock::new(None),
            });
        }
        slots[at].pack = pack;
    }

    /// Whether a location's pack is in use in the location's generation.
    pub(crate) fn is_current(&self, location: Location) -> bool {
        self.with(location.slot(), |slot| {
            slot.pack.state == PackState::Used
                && location.generation() == generation_bits(slot.pack.generation)
        })
        .unwrap_or(false)
    }

    /// Whether each location is current, with the table locked once.
    pub(crate) fn checker(&self) -> impl Fn(Location) -> bool + use<> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let generations: Vec<Option<u16>> = (slots.iter())
            .map(|slot| {
                (slot.pack.state == PackState::Used).then(|| generation_bits(slot.pack.generation))
            })
            .collect();
        move |location| {
            let at = usize::try_from(location.slot()).unwrap_or(usize::MAX).wrapping_sub(1);
            generations.get(at).is_some_and(|generation| *generation == Some(location.generation()))
        }
    }

    pub(crate) fn add_live(&self, slot: u32, bytes: u64) {
        self.with(slot, |slot| slot.live_bytes.fetch_add(bytes, Ordering::Relaxed));
    }

    pub(crate) fn subtract_live(&self, slot: u32, bytes: u64) {
        self.with(slot, |slot| {
            let subtract = |live: u64| Some(live.saturating_sub(bytes));
            slot.live_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract)
        });
    }

    pub(crate) fn set_live(&self, slot: u32, bytes: u64) {
        self.with(slot, |slot| slot.live_bytes.store(bytes, Ordering::Relaxed));
    }

    pub(crate) fn live(&self, slot: u32) -> u64 {
        self.with(slot, |slot| slot.live_bytes.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// All packs, for a checkpoint.
    pub(crate) fn save(&self) -> Vec<SavedPack> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.iter().map(|slot| slot.pack).collect()
    }

    /// All packs with their slots.
    pub(crate) fn all(&self) -> Vec<(u32, SavedPack)> {
        (1..).zip(self.save()).collect()
    }

    /// The slot of a new pack.
    pub(crate) fn unused_slot(&self) -> u32 {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let is_unused = |slot: &Slot| slot.pack.state == PackState::Absent && !slot.is_blocked;
        let at = slots.iter().position(is_unused).unwrap_or(slots.len());
        u32::try_from(at + 1).unwrap_or(u32::MAX)
    }

    /// Keeps the slot of a pack without a file unused until the next checkpoint.
    pub(crate) fn block(&self, slot: u32) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let at = slot.checked_sub(1).and_then(|at| usize::try_from(at).ok());
        if let Some(slot) = at.and_then(|at| slots.get_mut(at)) {
            slot.is_blocked = true;
        }
    }

    /// A checkpoint with these packs is durable. A slot that is not in use in it can have a new file.
    pub(crate) fn unblock(&self, saved: &[SavedPack]) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        for (slot, saved) in slots.iter_mut().zip(saved) {
            slot.is_blocked &= saved.state == PackState::Used;
        }
    }

    /// A pack's file.
    pub(crate) fn file(&self, slot: u32) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(file) = self.open_file(slot) {
            return Ok(file);
        }
        let file = self.disk.open(&path(slot), OpenMode::Write)?;
        self.keep_file(slot, Some(Arc::clone(&file)));
        Ok(file)
    }

    /// A pack's file, if it is open.
    pub(crate) fn open_file(&self, slot: u32) -> Option<Arc<dyn DiskFile>> {
        self.with(slot, |slot| slot.file.read().unwrap_or_else(PoisonError::into_inner).clone())?
    }

    /// Creates a pack's file of `len` bytes. Its name is durable when this returns.
    pub(crate) fn create(&self, slot: u32, len: u64) -> io::Result<()> {
        let file = self.disk.open(&path(slot), OpenMode::Create)?;
        let allocated = file.allocate(len).and_then(|()| file.sync());
        if let Err(error) = allocated.and_then(|()| self.disk.sync_folder(FOLDER)) {
            // The file takes space that the account does not know.
            let _ = self.disk.unlink(&path(slot));
            return Err(error);
        }
        self.keep_file(slot, Some(file));
        Ok(())
    }

    /// Removes the file of a free pack. The pack keeps its generation.
    pub(crate) fn remove(&self, slot: u32) -> io::Result<()> {
        self.keep_file(slot, None);
        self.disk.unlink(&path(slot))?;
        self.set(slot, SavedPack { state: PackState::Absent, ..self.get(slot) });
        self.block(slot);
        Ok(())
    }

    fn keep_file(&self, slot: u32, file: Option<Arc<dyn DiskFile>>) {
        self.with(slot, |slot| {
            *slot.file.write().unwrap_or_else(PoisonError::into_inner) = file;
        });
    }
}

/// The part of a generation that locations hold.
pub(crate) fn generation_bits(generation: u32) -> u16 {
    u16::try_from(generation & 0xffff).unwrap_or_default()
}

fn path(slot: u32) -> String {
    format!("{FOLDER}/{slot:06}")
}
