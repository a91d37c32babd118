//! Whether a group of records fits, before it is committed.

use super::Core;
use super::append::FREE_PACKS_KEPT;
use crate::store::error::StoreResult;
use crate::store::log::Log;
use crate::store::pack::{Draft, PackState};

/// Records that the log and the remover add to a group: notes, and removals of some hundred files.
const NOTES_BYTES_MAX: u64 = 32 << 10;
/// The header, the key and the checksums of a record, at most.
const RECORD_OVERHEAD_MAX: u64 = 1 << 10;

impl Core {
    /// Whether records of `bytes` fit now, also if the remover appends its own meanwhile. If not, the
    /// remover may make room.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.has_room_in(&self.log(), bytes + (self.pack_bytes / 8).min(NOTES_BYTES_MAX))
    }

    /// Fails with `Full` if callers' records do not fit, before any of them is written.
    pub(super) fn check_room(&self, log: &Log, drafts: &[Draft]) -> StoreResult<()> {
        let bytes = drafts.iter().map(|draft| draft.len() as u64).sum();
        if self.has_room_in(log, bytes) { Ok(()) } else { Err(self.space.full()) }
    }

    fn has_room_in(&self, log: &Log, bytes: u64) -> bool {
        let all = self.packs.all();
        let free = all.iter().filter(|(_, pack)| pack.state == PackState::Free).count();
        let new = self.space.room() / self.pack_bytes;
        if free == 0 && new == 0 {
            // The remover moves up to a pack of records into the last one.
            return false;
        }
        // The end of a pack stays empty if the next record does not fit.
        let waste = self.options.inline_bytes_max as u64 + RECORD_OVERHEAD_MAX;
        let packs = free.saturating_sub(FREE_PACKS_KEPT) as u64 + new;
        bytes <= log.room() || bytes <= packs * self.pack_bytes.saturating_sub(waste)
    }
}
