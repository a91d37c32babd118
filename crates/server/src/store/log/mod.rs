//! [`Log`]: the append-only sequence of records.
//!
//! The log is a state machine with blocking writes and without a thread. Its owner gathers a group,
//! calls [`Log::append`], syncs if the level asks for it, updates the index and answers.
//!
//! Invariants:
//! - The log continues in another pack only after the full pack is durable. So what is durable of
//!   the log, up to the first damage, is a prefix of it.
//! - After a failed write, the log begins a new session. So no record of the failed write can
//!   follow a later one. Until that later one is written, a crash can make the failed ones count.
//! - After a failed sync, nothing is appended before a checkpoint: the kernel may have dropped bytes
//!   that the log believes in.

use std::io::IoSlice;
use std::sync::Arc;

use super::disk::DiskFile;
use super::error::{StoreError, StoreResult};
use super::index::Location;
use super::pack::{
    Draft, PackState, PackTable, RecordKind, RecordPlace, SavedPack, generation_bits, record_len,
};

/// What a pack keeps for the records of the log itself: the one that seals it, and one for each
/// failed attempt to write.
const SPARE_BYTES: u64 = 8 * record_len(RecordKind::Seal, 0, 0) as u64;

/// Where the log goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogHead {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    pub(crate) offset: u64,
    /// The sequence of the next record.
    pub(crate) seq: u64,
    pub(crate) session: u32,
}

/// Gives the log its next pack: a slot whose file exists, in state `Free`.
pub(crate) trait PackSource {
    fn next_pack(&mut self) -> StoreResult<u32>;
}

/// What an append did.
#[must_use]
#[derive(Debug)]
pub(crate) struct Appended {
    /// The places of the first records, which count: all of them, if the append succeeded.
    pub(crate) places: Vec<Location>,
    pub(crate) outcome: StoreResult<()>,
}

impl Appended {
    /// The places of all records, for a caller that has no use for a part of them.
    pub(crate) fn all(self) -> StoreResult<Vec<Location>> {
        self.outcome.map(|()| self.places)
    }

    /// Nothing was written.
    pub(crate) const fn none(error: StoreError) -> Self {
        Self { places: Vec::new(), outcome: Err(error) }
    }
}

/// Whether a broken log refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendMode {
    /// It refuses.
    Normal,
    /// The caller is about to write the checkpoint that mends the log.
    Repair,
}

/// What failed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// Nothing, or the log has gone on since.
    Sound,
    /// The last write: a crash now can make its records count.
    HasGhosts,
    /// A sync.
    Broken,
}

/// The append-only sequence of records.
#[derive(Debug)]
pub(crate) struct Log {
    packs: Arc<PackTable>,
    pack_bytes: u64,
    head: LogHead,
    next_session: u32,
    needs_resume: bool,
    health: Health,
    has_unsynced: bool,
    /// Bytes and records since the last checkpoint.
    since_checkpoint: (u64, u64),
}

impl Log {
    /// Goes on at `head`, in a new session.
    pub(crate) fn new(
        packs: Arc<PackTable>,
        pack_bytes: u64,
        head: LogHead,
        next_session: u32,
        since_checkpoint: (u64, u64),
    ) -> Self {
        Self {
            packs,
            pack_bytes,
            head,
            next_session,
            needs_resume: true,
            health: Health::Sound,
            has_unsynced: true,
            since_checkpoint,
        }
    }

    pub(crate) const fn head(&self) -> LogHead {
        self.head
    }

    pub(crate) const fn is_broken(&self) -> bool {
        matches!(self.health, Health::Broken)
    }

    /// Whether a crash now can make records count whose append failed.
    pub(crate) const fn has_ghosts(&self) -> bool {
        !matches!(self.health, Health::Sound)
    }

    pub(crate) const fn has_unsynced(&self) -> bool {
        self.has_unsynced
    }

    /// Bytes and records since the last checkpoint.
    pub(crate) const fn since_checkpoint(&self) -> (u64, u64) {
        self.since_checkpoint
    }

    /// The longest record that fits into a pack beside what the log itself needs.
    pub(crate) const fn record_bytes_max(&self) -> u64 {
        self.pack_bytes - SPARE_BYTES
    }

    /// Bytes that the pack can still take before it is sealed.
    pub(crate) const fn room(&self) -> u64 {
        self.pack_bytes.saturating_sub(self.head.offset + SPARE_BYTES)
    }

    /// Appends records. They are written, not synced, except in packs that were sealed on the way.
    pub(crate) fn append(
        &mut self,
        drafts: &[Draft],
        source: &mut dyn PackSource,
        mode: AppendMode,
    ) -> Appended {
        let mut places = Vec::with_capacity(drafts.len());
        let outcome = self.append_all(drafts, source, mode, &mut places);
        if self.is_broken() && outcome.is_err() {
            // The kernel may have dropped them.
            places.clear();
        }
        Appended { places, outcome }
    }

    fn append_all(
        &mut self,
        drafts: &[Draft],
        source: &mut dyn PackSource,
        mode: AppendMode,
        places: &mut Vec<Location>,
    ) -> StoreResult<()> {
        self.check(mode)?;
        let mut rest = drafts;
        let bytes: u64 = drafts.iter().map(|draft| draft.len() as u64).sum();
        // If there is no pack, nothing is written.
        let mut next = if bytes > self.room() { Some(source.next_pack()?) } else { None };
        while !rest.is_empty() {
            let mut room = self.room();
            let fits = rest.iter().take_while(|draft| {
                let left = room.checked_sub(draft.len() as u64);
                room = left.unwrap_or(0);
                left.is_some()
            });
            let (now, later) = rest.split_at(fits.count());
            if !now.is_empty() {
                self.write(now, places)?;
            }
            if !later.is_empty() {
                let next = match next.take() {
                    Some(next) => next,
                    None => source.next_pack()?,
                };
                self.seal(next, mode)?;
            }
            rest = later;
        }
        Ok(())
    }

    /// The file that has the log's unsynced bytes.
    pub(crate) fn file(&self) -> StoreResult<Arc<dyn DiskFile>> {
        self.packs.file(self.head.slot).map_err(StoreError::disk("open a pack"))
    }

    /// Makes everything durable that was appended.
    pub(crate) fn sync(&mut self, mode: AppendMode) -> StoreResult<()> {
        self.check(mode)?;
        if !self.has_unsynced {
            return Ok(());
        }
        if let Err(error) = self.file()?.sync() {
            self.health = Health::Broken;
            return Err(StoreError::disk("sync the log")(error));
        }
        self.has_unsynced = false;
        Ok(())
    }

    /// Notes the result of a sync that ran without the log's lock, for the bytes before `until`.
    pub(crate) fn note_sync(&mut self, until: LogHead, is_synced: bool) {
        if !is_synced {
            self.health = Health::Broken;
        } else if until == self.head {
            self.has_unsynced = false;
        }
    }

    /// Notes a checkpoint that begins at the current head minus these counts.
    pub(crate) fn note_checkpoint(&mut self, before: (u64, u64)) {
        self.since_checkpoint.0 -= before.0.min(self.since_checkpoint.0);
        self.since_checkpoint.1 -= before.1.min(self.since_checkpoint.1);
    }

    /// Leaves the current pack without a seal, after a failed sync. Only a checkpoint with the new
    /// head can find the log again; [`Self::mend`] follows it.
    pub(crate) fn abandon_pack(&mut self, next: u32) {
        self.close_pack();
        self.enter(next);
        self.needs_resume = true;
    }

    /// Allows appending again.
    pub(crate) fn mend(&mut self) {
        self.health = Health::Sound;
    }

    fn write(&mut self, drafts: &[Draft], places: &mut Vec<Location>) -> StoreResult<()> {
        let mut head = self.head;
        let mut bytes = Vec::with_capacity(drafts.iter().map(Draft::len).sum::<usize>() + 64);
        let resume;
        if self.needs_resume {
            head.session = self.next_session;
            resume = Draft::control(RecordKind::Resume, u64::from(head.session), 0);
            // It has the session before it, so that the replay accepts it.
            put(&resume, &mut head, self.head.session, &mut bytes);
        }
        let first = places.len();
        for draft in drafts {
            places.push(Location::new(head.slot, generation_bits(head.generation), head.offset));
            let session = head.session;
            put(draft, &mut head, session, &mut bytes);
        }
        self.has_unsynced = true;
        let file = self.file()?;
        if let Err(error) = file.write_at(&[IoSlice::new(&bytes)], self.head.offset) {
            places.truncate(first);
            self.note_failed_write();
            self.needs_resume = true;
            self.next_session = self.next_session.wrapping_add(1);
            return Err(StoreError::disk("write the log")(error));
        }
        if self.health == Health::HasGhosts {
            self.health = Health::Sound;
        }
        if self.needs_resume {
            self.needs_resume = false;
            self.next_session = self.next_session.wrapping_add(1);
        }
        self.since_checkpoint.0 += bytes.len() as u64;
        self.since_checkpoint.1 += drafts.len() as u64;
        self.head = head;
        Ok(())
    }

    /// Ends the pack and goes on in the pack `next`.
    fn seal(&mut self, next: u32, mode: AppendMode) -> StoreResult<()> {
        let generation = self.packs.get(next).generation;
        let seal = Draft::control(RecordKind::Seal, u64::from(next), u64::from(generation));
        self.write(&[seal], &mut Vec::new())?;
        self.sync(mode)?;
        self.close_pack();
        self.enter(next);
        Ok(())
    }

    fn note_failed_write(&mut self) {
        if self.health == Health::Sound {
            self.health = Health::HasGhosts;
        }
    }

    fn check(&self, mode: AppendMode) -> StoreResult<()> {
        if self.is_broken() && mode == AppendMode::Normal {
            return Err(StoreError::LogBroken);
        }
        Ok(())
    }

    fn close_pack(&mut self) {
        let head = self.head;
        let pack = SavedPack {
            state: PackState::Used,
            generation: head.generation,
            end: head.offset,
            seq_last: head.seq.saturating_sub(1),
        };
        self.packs.set(head.slot, pack);
    }

    fn enter(&mut self, slot: u32) {
        let pack = SavedPack { state: PackState::Used, end: 0, ..self.packs.get(slot) };
        self.packs.set_live(slot, 0);
        self.packs.set(slot, pack);
        self.head = LogHead { slot, generation: pack.generation, offset: 0, ..self.head };
    }
}

fn put(draft: &Draft, head: &mut LogHead, session: u32, bytes: &mut Vec<u8>) {
    let place =
        RecordPlace { seq: head.seq, generation: head.generation, session, slot: head.slot };
    draft.write(&place, bytes);
    head.seq += 1;
    head.offset += draft.len() as u64;
}
