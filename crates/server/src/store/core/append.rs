//! Appending records: what the log has to say itself comes first, and the log gets its next pack.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::Core;
use crate::store::error::{StoreError, StoreResult};
use crate::store::index::Location;
use crate::store::log::{AppendMode, Appended, Log, PackSource};
use crate::store::pack::{Draft, PackState, RecordKind, SavedPack};

/// Free packs that only the remover may take. Without them, it could not free any.
pub(super) const FREE_PACKS_KEPT: usize = 1;
impl Core {
    /// Appends records, and before them what the log has to say itself. `kept` free packs stay.
    pub(super) fn append(&self, log: &mut Log, drafts: &[Draft], kept: usize) -> Appended {
        let mode = AppendMode::Normal;
        let mut source = Packs { core: self, kept };
        if let Err(error) = self.append_lost(log, &mut source) {
            return Appended::none(error);
        }
        let synced = self.synced_seq.swap(0, Ordering::AcqRel);
        if synced > 0 {
            let note = Draft::control(RecordKind::Synced, synced, 0);
            // Losing the note costs only time after a loss of power.
            let _ = log.append(&[note], &mut source, mode);
        }
        log.append(drafts, &mut source, mode)
    }

    /// Notes the files that a loss of power took.
    fn append_lost(&self, log: &mut Log, source: &mut Packs<'_>) -> StoreResult<()> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if lost.is_empty() {
            return Ok(());
        }
        let note = |number: &u64| Draft::control(RecordKind::Lost, *number, 0);
        let notes: Vec<Draft> = lost.iter().map(note).collect();
        log.append(&notes, source, AppendMode::Normal).all()?;
        // A note that earlier files are durable may only follow it.
        log.sync(AppendMode::Normal)?;
        lost.clear();
        Ok(())
    }

    /// As [`Self::append`], for records that free a pack: they may take the last free one.
    pub(super) fn append_moved(
        &self,
        log: &mut Log,
        drafts: &[Draft],
        mode: AppendMode,
    ) -> StoreResult<Vec<Location>> {
        log.append(drafts, &mut Packs { core: self, kept: 0 }, mode).all()
    }
}

/// The log's next pack: a free one, or a new one within the limit.
#[derive(Debug)]
pub(super) struct Packs<'a> {
    pub(super) core: &'a Core,
    /// Free packs that stay.
    pub(super) kept: usize,
}

impl PackSource for Packs<'_> {
    fn next_pack(&mut self) -> StoreResult<u32> {
        let Core { packs, space, pack_bytes, .. } = self.core;
        let all = packs.all();
        let mut free = all.iter().filter(|(_, pack)| pack.state == PackState::Free);
        if let Some((slot, _)) = free.nth(self.kept) {
            return Ok(*slot);
        }
        if let Err(error) = space.take_pack(*pack_bytes) {
            let mut free = all.iter().filter(|(_, pack)| pack.state == PackState::Free);
            return match (self.kept, free.next()) {
                (0, Some((slot, _))) => Ok(*slot),
                _ => Err(error),
            };
        }
        let slot = packs.unused_slot();
        if let Err(error) = packs.create(slot, *pack_bytes) {
            space.give_pack(*pack_bytes);
            return Err(StoreError::disk("create a pack")(error));
        }
        let generation = packs.get(slot).generation.max(1);
        let pack = SavedPack { state: PackState::Free, generation, end: 0, seq_last: 0 };
        packs.set(slot, pack);
        Ok(slot)
    }
}
