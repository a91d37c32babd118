//! The index on disk.
//!
//! The order makes a crash at any point harmless: the position of the log is taken first, so the
//! replay covers what the snapshots may lack; everything is synced before the master is renamed, so
//! no snapshot names a record that a loss of power can take away.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::Core;
use crate::store::checkpoint::{
    MASTER_FOLDER, Master, Run, SegmentWriter, read_master, remove_segment, remove_unused,
    write_master,
};
use crate::store::error::{StoreError, StoreResult};
use crate::store::log::AppendMode;

/// Runs of a shard; a load reads each of them.
const RUNS_MAX: usize = 8;
/// A shard is written as a whole when its runs have this many times its entries.
const GROWTH_MAX: usize = 2;
/// Segments that stay. A shard with an older run is written as a whole, so that old segments go.
const SEGMENTS_MAX: u64 = 32;

/// When snapshots take more than this part of the limit, the next checkpoint writes every shard as
/// a whole, and all old segments go.
const INDEX_SHARE: u64 = 64;

/// What the next checkpoint continues.
#[derive(Debug)]
pub(super) struct Checkpoints {
    pub(super) master: Master,
    /// Shards whose changes were taken by a checkpoint that failed.
    incomplete: BTreeSet<u16>,
    /// Shards that were written as a whole after their snapshot was found damaged.
    rewritten: BTreeSet<u16>,
    /// Whether the last attempt failed. It may have left a segment, and a master that names it.
    has_failed: bool,
    /// The store's time of the last checkpoint.
    pub(super) ticks: u32,
}

impl Checkpoints {
    pub(super) const fn new(master: Master, ticks: u32) -> Self {
        Self {
            master,
            incomplete: BTreeSet::new(),
            rewritten: BTreeSet::new(),
            has_failed: false,
            ticks,
        }
    }
}

impl Core {
    /// Writes a checkpoint: only what changed since the last one.
    pub fn checkpoint(&self) -> StoreResult<()> {
        self.checkpoint_as(AppendMode::Normal)
    }

    pub(super) fn checkpoint_as(&self, mode: AppendMode) -> StoreResult<()> {
        let mut state = self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
        if state.has_failed {
            self.remove_failed_attempt(&state.master)?;
        }
        self.files.settle();
        // The account of files is exact only when every shard is loaded.
        (0..self.index.shards()).for_each(|shard| self.index.load(shard));
        self.space.note_loaded();
        // What a damaged run had must not come back with the next start.
        let damaged = self.damaged.all();
        let rewritten: Vec<u16> = damaged.difference(&state.rewritten).copied().collect();
        state.incomplete.extend(&rewritten);
        let mut master = state.master.clone();
        // A failed attempt can leave a master that names its segment: the number is never used again.
        state.master.next_segment += 1;
        let log = self.log();
        let counted = log.since_checkpoint();
        master.head = log.head();
        master.packs = self.packs.save();
        master.files = self.files.save();
        drop(log);
        master.bytes_max = self.options.bytes_max;
        master.boot_id = self.disk.boot_id();
        master.ticks = self.now();
        master.clock_ms = self.clock.lock().unwrap_or_else(PoisonError::into_inner).clock_ms;
        // Before the segment is written, nothing of it may be taken for written.
        let segment = master.next_segment;
        state.has_failed = true;
        let written = self.write_segment(&mut state, &mut master);
        let written = written.and_then(|written| self.sync_as(mode).map(|()| written));
        // No master names the segment yet.
        let written = written.inspect_err(|_| remove_segment(&*self.disk, segment))?;
        master.file_bytes = self.space.files();
        let master_bytes = write_master(&*self.disk, &master);
        let master_bytes = master_bytes.map_err(StoreError::disk("write the checkpoint"))?;
        self.written.checkpoints.fetch_add(written + master_bytes, Ordering::Relaxed);
        let bytes = remove_unused(&*self.disk, &master.runs);
        self.packs.unblock(&master.packs);
        state.has_failed = false;
        state.ticks = master.ticks;
        state.master = master;
        state.incomplete.clear();
        if !rewritten.is_empty() {
            state.rewritten.extend(rewritten);
            self.orphans.store(true, Ordering::Release);
        }
        self.log().note_checkpoint(counted);
        let bytes = bytes.map_err(StoreError::disk("remove old snapshots"))?;
        self.space.set_checkpoints(bytes);
        Ok(())
    }

    /// Removes the segment of a failed attempt, unless its master is in place. Without this, each attempt
    /// on a failing disk would leave a segment, beyond the limit of the store.
    fn remove_failed_attempt(&self, last: &Master) -> StoreResult<()> {
        let synced = self.disk.sync_folder(MASTER_FOLDER);
        synced.map_err(StoreError::disk("sync the folder of the checkpoint"))?;
        // Whichever master is in place is durable now, and no other one comes back.
        let found = read_master(&*self.disk).map_err(StoreError::disk("read the checkpoint"))?;
        let found = found.map(|master| master.runs).unwrap_or_default();
        let bytes = remove_unused(&*self.disk, &[last.runs.clone(), found].concat());
        self.space.set_checkpoints(bytes.map_err(StoreError::disk("remove old snapshots"))?);
        Ok(())
    }

    /// Writes the changed entries of all shards. Returns the bytes.
    fn write_segment(&self, state: &mut Checkpoints, master: &mut Master) -> StoreResult<u64> {
        let is_large = self.space.checkpoints() > self.space.bytes_max() / INDEX_SHARE;
        let kept = if is_large { 0 } else { SEGMENTS_MAX };
        let oldest = master.next_segment.saturating_sub(kept);
        let due: Vec<u16> = (0..self.index.shards())
            .filter(|shard| {
                let runs = &master.runs[usize::from(*shard)];
                self.index.is_changed(*shard)
                    || state.incomplete.contains(shard)
                    || runs.iter().any(|run| run.segment < oldest)
            })
            .collect();
        if due.is_empty() {
            return Ok(0);
        }
        let number = master.next_segment;
        let segment = SegmentWriter::create(&*self.disk, number);
        let mut segment = segment.map_err(StoreError::disk("create a snapshot"))?;
        for shard in due {
            let is_incomplete = state.incomplete.contains(&shard);
            let runs = &mut master.runs[usize::from(shard)];
            let saved: usize = runs.iter().map(|run| run.entries as usize).sum();
            let is_old = |run: &Run| run.segment < oldest;
            let (is_whole, entries) = self.index.write_numbered(shard, |table| {
                let is_whole = is_incomplete
                    || runs.len() >= RUNS_MAX
                    || saved > GROWTH_MAX * table.len() + 64
                    || runs.iter().any(is_old);
                (is_whole, table.take_changes(is_whole))
            });
            state.incomplete.insert(shard);
            let run = segment.write(&entries).map_err(StoreError::disk("write a snapshot"))?;
            if is_whole {
                runs.clear();
            }
            if run.entries > 0 {
                runs.push(run);
            }
        }
        master.next_segment += 1;
        segment.finish(&*self.disk).map_err(StoreError::disk("sync a snapshot"))
    }
}
