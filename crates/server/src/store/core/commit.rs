//! One group of operations: prepare, sync files, append, sync, index.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::Core;
use super::append::FREE_PACKS_KEPT;
use crate::store::error::{StoreError, StoreResult};
use crate::store::files::{FileDescription, StagedFile, Unsynced};
use crate::store::index::{Entry, Location};
use crate::store::key::{Fingerprint, Key, Space as KeySpace};
use crate::store::log::{AppendMode, Appended, Log};
use crate::store::options::Level;
use crate::store::pack::{Draft, RecordKind, record_len};

/// Unsynced files of level `process` that may stay open.
const UNSYNCED_MAX: usize = 256;

/// The bytes of a value.
#[expect(clippy::large_enum_variant, reason = "each is moved a few times and never stored")]
#[derive(Debug)]
pub enum Content {
    /// Bytes for a record.
    Bytes(Bytes),
    /// A file that is complete.
    File(StagedFile),
}

/// One operation.
#[expect(clippy::large_enum_variant, reason = "each is moved a few times and never stored")]
#[derive(Debug)]
pub enum Op {
    /// Gives a key a value. A blob that exists stays as it is; other values are replaced.
    Put {
        /// The key.
        key: Key,
        /// What the value is. The core does not interpret it.
        form: u8,
        /// The length of what the value stands for.
        size: u64,
        /// The bytes.
        content: Content,
    },
    /// Removes a key's value, if there is one. It never comes back.
    Purge {
        /// The key.
        key: Key,
    },
}

impl Op {
    /// The bytes that its record takes at most.
    pub(crate) fn record_bytes_max(&self) -> u64 {
        let (key, payload) = match self {
            Self::Put { key, content: Content::Bytes(bytes), .. } => (key, bytes.len()),
            Self::Put { key, .. } | Self::Purge { key } => (key, 0),
        };
        record_len(RecordKind::File, key.bytes().len(), payload + 32) as u64
    }
}

/// The number and the bytes of a file whose value goes.
type OldFile = (u64, u64);

/// What happens when the records are in the log.
#[expect(clippy::large_enum_variant, reason = "each is moved a few times and never stored")]
#[derive(Debug)]
enum Effect {
    /// A value has a record.
    Put { fingerprint: Fingerprint, record_bytes: u64, replaced: Option<OldFile> },
    /// A value has a record and a file.
    File {
        fingerprint: Fingerprint,
        record_bytes: u64,
        staged: StagedFile,
        description: FileDescription,
        replaced: Option<OldFile>,
    },
    /// A key has no value.
    Remove { fingerprint: Fingerprint, file: Option<OldFile> },
}

/// Records in the order of the log, with the operation that each belongs to.
#[derive(Debug, Default)]
struct Group {
    drafts: Vec<Draft>,
    effects: Vec<(usize, Effect)>,
    has_purge: bool,
}

impl Group {
    fn add(&mut self, op: usize, draft: Draft, effect: Effect) {
        self.drafts.push(draft);
        self.effects.push((op, effect));
    }
}

impl Core {
    /// Commits operations in this order, as one group. The results are in their order. What an
    /// acknowledgement means is the store's level.
    pub fn commit(&self, ops: Vec<Op>) -> Vec<StoreResult<()>> {
        let mut results: Vec<StoreResult<()>> = ops.iter().map(|_| Ok(())).collect();
        let mut log = self.log();
        let mut group = Group::default();
        // A later operation on a key of this group must see the earlier one: it waits for the next
        // part.
        let mut keys = BTreeSet::new();
        let ghosts = self.lay_ghosts(&mut log).err();
        for (number, op) in ops.into_iter().enumerate() {
            if let Some(error) = &ghosts {
                results[number] = Err(error.again());
                continue;
            }
            let (Op::Put { key, .. } | Op::Purge { key }) = &op;
            if !keys.insert(self.fingerprint(key)) {
                self.commit_group(&mut log, std::mem::take(&mut group), &mut results);
                keys.clear();
            }
            if let Err(error) = self.prepare(&log, number, op, &mut group) {
                results[number] = Err(error);
            }
        }
        self.commit_group(&mut log, group, &mut results);
        drop(log);
        if self.files.unsynced() > UNSYNCED_MAX {
            // A failure breaks the log, which the next commit reports.
            let _ = self.sync();
        }
        results
    }

    /// Makes the log go on after a failed append, so that no record of it can count any more. Only
    /// then can what the index says be acknowledged.
    fn lay_ghosts(&self, log: &mut Log) -> StoreResult<()> {
        if !log.has_ghosts() {
            return Ok(());
        }
        let note = Draft::control(RecordKind::Synced, 0, 0);
        self.append(log, &[note], FREE_PACKS_KEPT).all()?;
        if self.options.level == Level::Power { log.sync(AppendMode::Normal) } else { Ok(()) }
    }

    fn prepare(&self, log: &Log, number: usize, op: Op, group: &mut Group) -> StoreResult<()> {
        let now = self.now();
        match op {
            Op::Put { key, form, size, content } => {
                let fingerprint = self.fingerprint(&key);
                let before = self.index.touch(&fingerprint, now);
                if before.is_some() && key.space() == KeySpace::Blob {
                    return Ok(());
                }
                // One record both gives the new value and retires the old file, so that no crash
                // comes between.
                let replaced = before.map(|entry| self.file_of(&entry)).transpose()?.flatten();
                let replaced_number = replaced.map_or(0, |(number, _)| number);
                let mut draft = Draft::control(RecordKind::Put, replaced_number, size);
                (draft.space, draft.form, draft.time) = (key.space() as u8, form, now);
                draft.key = Bytes::copy_from_slice(key.bytes());
                let effect = match content {
                    Content::Bytes(bytes) => {
                        draft.payload = bytes;
                        let record_bytes = draft.len() as u64;
                        if record_bytes > log.record_bytes_max() {
                            let (bytes, bytes_max) = (record_bytes, log.record_bytes_max());
                            return Err(StoreError::TooLarge { bytes, bytes_max });
                        }
                        Effect::Put { fingerprint, record_bytes, replaced }
                    }
                    Content::File(mut staged) => {
                        let mut description = staged.finish()?;
                        description.replaced = replaced_number;
                        draft.kind = RecordKind::File;
                        draft.number = description.number;
                        draft.payload = description.to_payload();
                        let record_bytes = draft.len() as u64;
                        Effect::File { fingerprint, record_bytes, staged, description, replaced }
                    }
                };
                group.add(number, draft, effect);
            }
            Op::Purge { key } => {
                let fingerprint = self.fingerprint(&key);
                group.has_purge = true;
                let entry = self.index.find(&fingerprint).filter(Entry::is_file);
                let (draft, effect) = match entry {
                    Some(entry) => self.removal(&fingerprint, &entry)?,
                    None => removal_of(&fingerprint, None),
                };
                group.add(number, draft, effect);
            }
        }
        Ok(())
    }

    /// The record that removes a value with a file.
    fn removal(&self, fingerprint: &Fingerprint, entry: &Entry) -> StoreResult<(Draft, Effect)> {
        Ok(removal_of(fingerprint, self.file_of(entry)?))
    }

    /// An entry's file, if it has one.
    fn file_of(&self, entry: &Entry) -> StoreResult<Option<OldFile>> {
        if !entry.is_file() {
            return Ok(None);
        }
        let record = self.read_record(entry)?;
        let file = record.filter(|record| record.header.kind == RecordKind::File);
        Ok(file.map(|record| (record.header.number, entry.file_bytes())))
    }

    fn commit_group(&self, log: &mut Log, mut group: Group, results: &mut [StoreResult<()>]) {
        if group.drafts.is_empty() {
            return;
        }
        self.sync_staged(&mut group, results);
        let mut appended = match self.check_room(log, &group.drafts) {
            Ok(()) => self.append(log, &group.drafts, FREE_PACKS_KEPT),
            Err(error) => Appended::none(error),
        };
        let is_synced = self.options.level == Level::Power || group.has_purge;
        if is_synced && !appended.places.is_empty() {
            // Records of a failed sync count only after a crash, if at all.
            if let Err(error) = log.sync(AppendMode::Normal) {
                appended = Appended::none(error);
            }
        }
        if !appended.places.is_empty() {
            self.files.note_append();
            let written = group.drafts.iter().take(appended.places.len());
            let bytes = written.map(|draft| draft.len() as u64).sum();
            self.activity.count_commit(appended.places.len(), bytes);
        }
        let mut places = appended.places.into_iter();
        for ((number, effect), draft) in group.effects.into_iter().zip(&group.drafts) {
            match (places.next(), &appended.outcome) {
                (Some(place), _) => {
                    self.written.values.fetch_add(draft.len() as u64, Ordering::Relaxed);
                    self.apply(effect, place);
                }
                (None, Err(error)) => {
                    results[number] = Err(error.again());
                    if let Effect::File { staged, .. } = effect {
                        staged.fail();
                    }
                }
                (None, Ok(())) => {}
            }
        }
    }

    /// At level `power`, makes files durable before their records are written. A file that fails
    /// takes its operation out of the group.
    fn sync_staged(&self, group: &mut Group, results: &mut [StoreResult<()>]) {
        if self.options.level == Level::Process {
            return;
        }
        let mut files = Vec::new();
        for (_, effect) in &group.effects {
            if let Effect::File { fingerprint, staged, description, .. } = effect {
                let (fingerprint, location) = (*fingerprint, Location(0));
                let (number, file) = (description.number, Arc::clone(staged.file()));
                files.push(Unsynced { fingerprint, location, number, file });
            }
        }
        let failed: BTreeSet<u64> =
            self.files.sync(&files).into_iter().map(|file| file.number).collect();
        let (drafts, effects) =
            (std::mem::take(&mut group.drafts), std::mem::take(&mut group.effects));
        let is_failed =
            |draft: &Draft| draft.kind == RecordKind::File && failed.contains(&draft.number);
        let failed_ops: BTreeSet<usize> = (drafts.iter().zip(&effects))
            .filter(|(draft, _)| is_failed(draft))
            .map(|(_, (op, _))| *op)
            .collect();
        for (mut draft, (op, effect)) in drafts.into_iter().zip(effects) {
            if failed_ops.contains(&op) {
                let error = std::io::Error::other("the sync of its file failed");
                results[op] = Err(StoreError::disk("sync a file")(error));
                continue;
            }
            draft.is_durable = draft.kind == RecordKind::File;
            group.add(op, draft, effect);
        }
    }

    fn apply(&self, effect: Effect, place: Location) {
        let now = self.now();
        match effect {
            Effect::Put { fingerprint, record_bytes, replaced } => {
                let entry = Entry::new(fingerprint, place, record_bytes, None, now);
                self.index.put(&fingerprint, entry);
                self.retire(replaced);
            }
            Effect::File { fingerprint, record_bytes, staged, description, replaced } => {
                let bytes = Some(description.file_len());
                let entry = Entry::new(fingerprint, place, record_bytes, bytes, now);
                self.files.claim(description.number);
                if self.options.level == Level::Process {
                    let (number, file) = (description.number, Arc::clone(staged.file()));
                    let location = place;
                    self.files.note_unsynced(Unsynced { fingerprint, location, number, file });
                }
                self.written.values.fetch_add(description.file_len(), Ordering::Relaxed);
                self.index.put(&fingerprint, entry);
                staged.keep();
                self.retire(replaced);
            }
            Effect::Remove { fingerprint, file } => {
                self.index.remove(&fingerprint);
                self.retire(file);
            }
        }
    }

    fn retire(&self, file: Option<OldFile>) {
        if let Some((number, bytes)) = file {
            self.files.retire(number, bytes);
        }
    }

    /// Removes values with files, for eviction and damage. Returns the bytes that become free.
    pub(super) fn remove_files(&self, entries: &[(Fingerprint, Entry)]) -> StoreResult<u64> {
        let mut log = self.log();
        let mut group = Group::default();
        let mut freed = 0;
        for (fingerprint, entry) in entries {
            let now = self.index.find(fingerprint);
            if now.is_some_and(|now| now.location() == entry.location()) {
                let (draft, effect) = self.removal(fingerprint, entry)?;
                group.add(0, draft, effect);
                freed += entry.file_bytes() + entry.record_bytes();
            }
        }
        let appended = self.append(&mut log, &group.drafts, 0);
        for ((_, effect), place) in group.effects.into_iter().zip(appended.places) {
            self.apply(effect, place);
        }
        appended.outcome.map(|()| freed)
    }

    pub(super) fn remove_file_entry(
        &self,
        fingerprint: &Fingerprint,
        entry: &Entry,
    ) -> StoreResult<u64> {
        self.remove_files(&[(*fingerprint, *entry)])
    }

    /// A new file. `digest`, if there is one, is what its bytes must have at the commit.
    pub fn stage(&self, digest: Option<tidegate_core::digest::Digest>) -> StoreResult<StagedFile> {
        let number = match self.files.take_number() {
            Some(number) => number,
            None => self.allow_numbers()?,
        };
        let file = self.files.create(number).inspect_err(|_| self.files.abandon(number, 0));
        let file = file.map_err(StoreError::disk("create a file"))?;
        Ok(StagedFile::new(&self.files, &self.space, number, file, digest))
    }

    fn allow_numbers(&self) -> StoreResult<u64> {
        let mut log = self.log();
        if let Some(number) = self.files.take_number() {
            return Ok(number);
        }
        let end = self.files.wanted_end();
        let drafts = [Draft::control(RecordKind::Numbers, end, 0)];
        self.check_room(&log, &drafts)?;
        self.append(&mut log, &drafts, FREE_PACKS_KEPT).all()?;
        // A file with a number that recovery does not know would never be removed.
        log.sync(AppendMode::Normal)?;
        self.files.allow(end);
        self.files.take_number().ok_or(StoreError::Closed)
    }
}

fn removal_of(fingerprint: &Fingerprint, file: Option<OldFile>) -> (Draft, Effect) {
    let number = file.map_or(0, |(number, _)| number);
    let mut draft = Draft::control(RecordKind::Remove, number, 0);
    draft.key = Bytes::copy_from_slice(&fingerprint.to_bytes());
    (draft, Effect::Remove { fingerprint: *fingerprint, file })
}
