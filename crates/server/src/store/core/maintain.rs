//! The background steps in the right order.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::{Core, TICKS_PER_SECOND};
use crate::store::error::{StoreError, StoreResult};
use crate::store::pack::PackState;
use crate::store::space::{PackUse, Plan, Usage, plan};

/// Files that one step removes. One thread removes them all.
const REMOVALS_MAX: usize = 64;
/// Shards that one step loads.
const LOADS_MAX: u32 = 64;
/// Steps of eviction and cleaning in one call.
const STEPS_MAX: usize = 8;
/// When a pack is cleaned, values go that are among the oldest of this part of the limit. Measured: it
/// more than halves what cleaning writes, and costs no hits against exact LRU.
const SOON_SHARE: u64 = 20;
/// A checkpoint follows this many records or bytes: a replay of either takes about 0.1 s.
const REPLAY_RECORDS_MAX: u64 = 250_000;
const REPLAY_BYTES_MAX: u64 = 128 << 20;
/// A checkpoint follows this time at the latest, so that last uses are saved.
const CHECKPOINT_TICKS_MAX: u32 = 290 * 8;

impl Core {
    /// One round of background work, without the background sync. Returns whether more is to be
    /// done at once.
    pub fn maintain(&self) -> StoreResult<bool> {
        let files = self.files.removable();
        let files_left = self.files.remove_some(REMOVALS_MAX);
        if self.log().is_broken() {
            self.repair()?;
        }
        let is_loaded = self.load_some();
        let mut is_busy = !is_loaded;
        if is_loaded {
            is_busy |= self.make_space()?;
        }
        if self.is_checkpoint_due() {
            self.checkpoint()?;
        }
        // A disk that fails to remove files is not asked again at once.
        Ok(is_busy || (files_left >= REMOVALS_MAX && files_left < files))
    }

    fn is_checkpoint_due(&self) -> bool {
        let (bytes, records) = self.log().since_checkpoint();
        if bytes >= REPLAY_BYTES_MAX.min(self.space.bytes_max() / 8)
            || records >= REPLAY_RECORDS_MAX
        {
            return true;
        }
        let last = self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner).ticks;
        self.now().saturating_sub(last) >= CHECKPOINT_TICKS_MAX
            && (bytes > 0 || (0..self.index.shards()).any(|shard| self.index.is_changed(shard)))
    }

    fn load_some(&self) -> bool {
        if self.index.is_loaded() {
            self.space.note_loaded();
            return true;
        }
        for _ in 0..LOADS_MAX {
            let next = self.next_load.fetch_add(1, Ordering::Relaxed);
            match u16::try_from(next) {
                Ok(shard) if shard < self.index.shards() => self.index.load(shard),
                _ => break,
            }
        }
        let is_loaded = self.index.is_loaded();
        if is_loaded {
            self.space.note_loaded();
        }
        is_loaded
    }

    /// Evicts and cleans until there is space. Returns whether it stopped before that.
    fn make_space(&self) -> StoreResult<bool> {
        let mut is_checkpointed = false;
        let mut soon = None;
        for _ in 0..STEPS_MAX {
            let usage = self.usage();
            match plan(&usage) {
                Plan::Rest => {
                    let is_blocked = usage.packs.is_empty()
                        && usage.room < 2 * usage.pack_bytes
                        && usage.free_packs < 2;
                    if is_checkpointed || !is_blocked {
                        return Ok(false);
                    }
                    // Packs behind the last checkpoint cannot be cleaned.
                    self.checkpoint()?;
                    is_checkpointed = true;
                }
                Plan::Evict(bytes) => {
                    if self.evict(bytes)? == 0 {
                        return Ok(false);
                    }
                    // Files go when their removal is durable.
                    self.sync()?;
                    for _ in 0..self.files.removable().div_ceil(REMOVALS_MAX) {
                        self.files.remove_some(REMOVALS_MAX);
                    }
                }
                Plan::Clean(slot) => {
                    let soon_bytes = self.space.bytes_max() / SOON_SHARE;
                    let cutoff = *soon.get_or_insert_with(|| self.cutoff(soon_bytes));
                    self.clean_or_evict(slot, cutoff)?;
                }
                Plan::RemoveFreePack => self.remove_free_pack(),
            }
        }
        Ok(true)
    }

    /// Cleans a pack. If there is no pack for its records, the oldest values go instead.
    fn clean_or_evict(&self, slot: u32, cutoff: u32) -> StoreResult<()> {
        match self.clean(slot, cutoff) {
            Err(StoreError::Full { .. }) if self.evict(self.pack_bytes)? > 0 => Ok(()),
            cleaned => cleaned,
        }
    }

    fn usage(&self) -> Usage {
        let seq = self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner).master.head.seq;
        let all = self.packs.all();
        let free = all.iter().filter(|(_, pack)| pack.state == PackState::Free);
        let used = all.iter().filter(|(_, pack)| pack.state == PackState::Used);
        let live: u64 = used.map(|(slot, _)| self.packs.live(*slot)).sum();
        let packs = self.packs_before(seq).into_iter();
        Usage {
            bytes_max: self.space.bytes_max(),
            room: self.space.room(),
            pack_bytes: self.pack_bytes,
            free_packs: free.count() as u64,
            live: live + self.space.files(),
            packs: packs.map(|(slot, live_bytes)| PackUse { slot, live_bytes }).collect(),
        }
    }

    fn remove_free_pack(&self) {
        // The log's lock keeps the committer from taking this pack.
        let _log = self.log();
        let free = self.packs.all().into_iter().find(|(_, pack)| pack.state == PackState::Free);
        if let Some((slot, _)) = free
            && self.packs.remove(slot).is_ok()
        {
            self.space.give_pack(self.pack_bytes);
        }
    }

    /// The time after which everything acknowledged is durable, at level `process`.
    pub const SYNC_TICKS_MAX: u64 = TICKS_PER_SECOND;
}
