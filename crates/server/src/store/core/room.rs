//! Whether a group of records fits, before it is committed.

use super::Core;
use super::commit::FREE_PACKS_KEPT;
use crate::store::pack::PackState;

/// Records that the log and the remover add to a group: notes, and removals of some hundred files.
const NOTES_BYTES_MAX: u64 = 32 << 10;
/// The header, the key and the checksums of a record, at most.
const RECORD_OVERHEAD_MAX: u64 = 1 << 10;

impl Core {
    /// Whether records of `bytes` fit now, also if the remover appends its own meanwhile. If not, the
    /// remover may make room.
    pub fn has_room(&self, bytes: u64) -> bool {
        let bytes = bytes + (self.pack_bytes / 8).min(NOTES_BYTES_MAX);
        // The end of a pack stays empty if the next record does not fit.
        let waste = self.options.inline_bytes_max as u64 + RECORD_OVERHEAD_MAX;
        let free = self.packs.all();
        let free = free.iter().filter(|(_, pack)| pack.state == PackState::Free).count();
        let packs =
            free.saturating_sub(FREE_PACKS_KEPT) as u64 + self.space.room() / self.pack_bytes;
        bytes <= self.log().room() || bytes <= packs * self.pack_bytes.saturating_sub(waste)
    }
}
