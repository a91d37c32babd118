//! Recovery: from a checkpoint and the rest of the log to an index.
//!
//! The replay reads records from the checkpoint's position up to the first one that does not belong
//! to the log. A record is claimed only if its payload's CRCs are right: a kill can tear the last
//! write, and a loss of power any write that was not synced. On the boot that wrote them, files are
//! there. After another boot, a file is claimed only if it was synced or its CRCs are right.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::checkpoint::Master;
use super::disk::Disk;
use super::error::{StoreError, StoreResult};
use super::files::{FileDescription, StoredFile};
use super::index::{Change, Entry, Index, Location};
use super::key::Fingerprint;
use super::log::LogHead;
use super::pack::{
    Header, PackState, PackTable, RecordKind, SavedPack, Scanned, Scanner, generation_bits,
    verify_payload,
};

/// Bytes behind a damaged header in which the next record is searched. A longer search would delay
/// the start at the log's usual end.
const SEARCH_BYTES: u64 = 1 << 20;
/// Sequences that damaged records can have taken.
const LOST_MAX: u64 = 100_000;
/// Bytes of files that are read to check them before the start. Others are dropped.
const CHECKED_BYTES_MAX: u64 = 256 << 20;

/// A file that was committed after the checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecentFile {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) location: Location,
    pub(crate) description: FileDescription,
    seq: u64,
    is_durable: bool,
}

/// What the replay found.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) head: LogHead,
    /// Bytes and records that were replayed.
    pub(crate) replayed: (u64, u64),
    /// The highest time in a record.
    pub(crate) ticks: u32,
    pub(crate) next_number: u64,
    /// Files without an entry.
    pub(crate) loose: BTreeSet<u64>,
    /// Files that may not be durable yet.
    pub(crate) unsynced: Vec<RecentFile>,
    /// Files whose values were dropped. The log must say so before it says that earlier files are
    /// durable.
    pub(crate) lost: Vec<u64>,
}

#[derive(Debug)]
struct Replay<'a> {
    disk: &'a dyn Disk,
    packs: &'a PackTable,
    index: &'a Index,
    salt: &'a [u8; 32],
    is_same_boot: bool,
    head: LogHead,
    replayed: (u64, u64),
    ticks: u32,
    numbers_end: u64,
    synced_seq: u64,
    claimed: BTreeSet<u64>,
    retired: BTreeSet<u64>,
    recent: Vec<RecentFile>,
    lost: Vec<u64>,
}

/// Replays the log behind a checkpoint into `index` and `packs`.
pub(crate) fn replay(
    disk: &dyn Disk,
    master: &Master,
    packs: &PackTable,
    index: &Index,
    is_same_boot: bool,
) -> StoreResult<Recovered> {
    let mut replay = Replay {
        disk,
        packs,
        index,
        salt: &master.salt,
        is_same_boot,
        head: master.head,
        replayed: (0, 0),
        ticks: master.ticks,
        numbers_end: master.files.end,
        synced_seq: 0,
        claimed: BTreeSet::new(),
        retired: master.files.loose.iter().copied().collect(),
        recent: Vec::new(),
        lost: Vec::new(),
    };
    while let Some(next) = replay.replay_pack()? {
        replay.enter(next);
    }
    let unsynced = replay.check_files()?;
    let mut loose = replay.retired;
    loose.extend(master.files.next..replay.numbers_end);
    loose.retain(|number| !replay.claimed.contains(number));
    Ok(Recovered {
        head: replay.head,
        replayed: replay.replayed,
        ticks: replay.ticks,
        next_number: replay.numbers_end,
        loose,
        unsynced,
        lost: replay.lost,
    })
}

impl Replay<'_> {
    /// Replays a pack from the head on. Returns the next pack and its generation.
    fn replay_pack(&mut self) -> StoreResult<Option<(u32, u32)>> {
        let file = self.packs.file(self.head.slot).map_err(StoreError::disk("open a pack"))?;
        let end = file.byte_len().map_err(StoreError::disk("read a pack"))?;
        let file: Arc<_> = file;
        let mut scanner = Scanner::new(&*file, self.head.offset, end);
        loop {
            let is_expected = self.peek(&mut scanner, |replay, header| {
                replay.belongs(header) && header.seq == replay.head.seq
            })?;
            if !is_expected && !self.search(&mut scanner)? {
                return Ok(None);
            }
            let peeked = scanner.peek(true).map_err(StoreError::disk("read a pack"))?;
            let Some(record) = peeked else { return Ok(None) };
            let header = record.header.clone();
            self.apply(&record);
            let len = header.len();
            scanner.advance(len);
            self.head.offset = scanner.offset();
            self.head.seq = header.seq + 1;
            self.replayed.0 += len as u64;
            self.replayed.1 += 1;
            if header.kind == RecordKind::Seal {
                let slot = u32::try_from(header.number).unwrap_or_default();
                let generation = u32::try_from(header.size).unwrap_or_default();
                return Ok(Some((slot, generation)));
            }
        }
    }

    fn peek(
        &self,
        scanner: &mut Scanner<'_>,
        is_right: impl Fn(&Self, &Header) -> bool,
    ) -> StoreResult<bool> {
        let peeked = scanner.peek(false).map_err(StoreError::disk("read a pack"))?;
        Ok(peeked.is_some_and(|scanned| is_right(self, &scanned.header)))
    }

    /// Looks for the next record of the log behind a damaged one.
    fn search(&self, scanner: &mut Scanner<'_>) -> StoreResult<bool> {
        let end = scanner.offset() + SEARCH_BYTES;
        while scanner.step() && scanner.offset() < end {
            let is_found = self.peek(scanner, |replay, header| {
                let lost = header.seq.checked_sub(replay.head.seq);
                replay.belongs(header) && lost.is_some_and(|lost| (1..LOST_MAX).contains(&lost))
            })?;
            if is_found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn belongs(&self, header: &Header) -> bool {
        header.slot == self.head.slot
            && header.generation == self.head.generation
            && header.session == self.head.session
    }

    fn apply(&mut self, scanned: &Scanned<'_>) {
        let header = &scanned.header;
        self.ticks = self.ticks.max(header.time);
        match header.kind {
            RecordKind::Put => {
                if verify_payload(header, scanned.record) {
                    self.put(scanned, None);
                    self.retire(header.number);
                }
            }
            RecordKind::File => self.file(scanned),
            RecordKind::Remove => {
                if let Ok(bytes) = scanned.header.key(scanned.record).try_into() {
                    let fingerprint = Fingerprint::from_bytes(bytes);
                    self.index.replay(&fingerprint, Change::Remove(fingerprint));
                }
                self.retire(header.number);
            }
            RecordKind::Resume => {
                self.head.session = u32::try_from(header.number).unwrap_or_default();
            }
            RecordKind::Numbers => self.numbers_end = self.numbers_end.max(header.number),
            RecordKind::Synced => self.synced_seq = self.synced_seq.max(header.number),
            RecordKind::Lost => {
                let (lost, recent) = std::mem::take(&mut self.recent)
                    .into_iter()
                    .partition(|file| file.description.number == header.number);
                self.recent = recent;
                let lost: Vec<RecentFile> = lost;
                for file in &lost {
                    self.drop_file(file);
                }
            }
            RecordKind::Seal => {}
        }
    }

    fn put(
        &mut self,
        scanned: &Scanned<'_>,
        file_bytes: Option<u64>,
    ) -> Option<(Fingerprint, Location)> {
        let header = &scanned.header;
        let key = header.whole_key(scanned.record)?;
        let fingerprint = Fingerprint::of(self.salt, &key);
        let generation = generation_bits(header.generation);
        let location = Location::new(header.slot, generation, scanned.offset);
        let entry = Entry::new(fingerprint, location, header.len() as u64, file_bytes, header.time);
        self.index.replay(&fingerprint, Change::Put(entry, fingerprint));
        Some((fingerprint, location))
    }

    fn file(&mut self, scanned: &Scanned<'_>) {
        let header = &scanned.header;
        if !verify_payload(header, scanned.record) {
            return;
        }
        let payload = &scanned.record[header.payload_start()..];
        let Some(description) = FileDescription::from_payload(header.number, payload) else {
            return;
        };
        self.retire(description.replaced);
        self.retired.remove(&header.number);
        self.claimed.insert(header.number);
        if let Some((fingerprint, location)) = self.put(scanned, Some(description.file_len())) {
            self.recent.push(RecentFile {
                fingerprint,
                location,
                description,
                seq: header.seq,
                is_durable: header.is_durable,
            });
        }
    }

    /// Drops the files that a loss of power damaged. Returns those that may not be durable yet.
    fn check_files(&mut self) -> StoreResult<Vec<RecentFile>> {
        let recent = std::mem::take(&mut self.recent);
        let unsynced = recent.into_iter();
        let unsynced: Vec<RecentFile> = unsynced
            .filter(|file| !file.is_durable && file.seq > self.synced_seq)
            .filter(|file| self.claimed.contains(&file.description.number))
            .collect();
        if self.is_same_boot {
            return Ok(unsynced);
        }
        let mut budget = CHECKED_BYTES_MAX;
        let mut kept = Vec::new();
        for file in unsynced {
            let left = budget.checked_sub(file.description.len);
            budget = left.unwrap_or(0);
            let is_right = left.is_some()
                && match StoredFile::open(self.disk, &file.description)
                    .and_then(|stored| stored.verify())
                {
                    Ok(()) => true,
                    Err(StoreError::Damaged) => false,
                    Err(error) => return Err(error),
                };
            if is_right {
                kept.push(file);
                continue;
            }
            self.drop_file(&file);
            self.lost.push(file.description.number);
        }
        Ok(kept)
    }

    /// The file of this number has no value any more. 0 is no number.
    fn retire(&mut self, number: u64) {
        if number != 0 {
            self.claimed.remove(&number);
            self.retired.insert(number);
        }
    }

    fn drop_file(&mut self, file: &RecentFile) {
        let change = Change::RemoveAt(file.fingerprint, file.location);
        self.index.replay(&file.fingerprint, change);
        self.retire(file.description.number);
    }

    fn enter(&mut self, (slot, generation): (u32, u32)) {
        let sealed = SavedPack {
            state: PackState::Used,
            generation: self.head.generation,
            end: self.head.offset,
            seq_last: self.head.seq - 1,
        };
        self.packs.set(self.head.slot, sealed);
        let entered = SavedPack { state: PackState::Used, generation, end: 0, seq_last: 0 };
        self.packs.set(slot, entered);
        self.head = LogHead { slot, generation, offset: 0, ..self.head };
    }
}
