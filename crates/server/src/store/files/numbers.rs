//! [`Files`]: which numbers are in use, and which files must be removed.
//!
//! Numbers grow. The log says how far they may have grown, and a checkpoint says which files exist
//! without an entry. So recovery knows every possible orphan without a scan of the folders.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{FOLDER, folder, path};
use crate::store::disk::{Disk, DiskFile, OpenMode};
use crate::store::index::Location;
use crate::store::key::Fingerprint;
use crate::store::space::Space;

/// Numbers that one record of the log allows: a sync for each 1,024 files is not noticed.
pub(crate) const NUMBERS_STEP: u64 = 1024;

/// A file of level `process` whose bytes may not be durable.
#[derive(Clone, Debug)]
pub(crate) struct Unsynced {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) location: Location,
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn DiskFile>,
}

/// What a checkpoint saves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedFiles {
    /// Numbers from this one on were not in use.
    pub(crate) next: u64,
    /// Every file has a number below this one, unless the log says more.
    pub(crate) end: u64,
    /// Numbers that may have a file and have no entry.
    pub(crate) loose: Vec<u64>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Numbers below this one are in the log.
    allowed: u64,
    /// Numbers that may have a file and have no entry, with the file's bytes if only this account
    /// has them: staged, to be removed, or removed and not durably so.
    loose: BTreeMap<u64, u64>,
    /// Files of failed commits, to be removed once the log has gone on and is synced.
    failed: Vec<u64>,
    /// Files to be removed once the log is synced.
    after_sync: Vec<u64>,
    /// Files to be removed.
    removable: Vec<u64>,
    /// Removed files whose removal is not durable.
    removed: Vec<u64>,
    unsynced: Vec<Unsynced>,
}

/// The numbers of files.
#[derive(Debug)]
pub(crate) struct Files {
    disk: Arc<dyn Disk>,
    space: Arc<Space>,
    state: Mutex<State>,
}

impl Files {
    /// Goes on with the numbers from `next` on. The files of `loose`, with their bytes if they
    /// exist, are removed in the background.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        space: Arc<Space>,
        next: u64,
        loose: BTreeMap<u64, Option<u64>>,
    ) -> Self {
        space.add_loose(loose.values().flatten().sum());
        // The records that retired these files may not be durable yet.
        let found = loose.iter().filter(|(_, bytes)| bytes.is_some());
        let after_sync = found.map(|(number, _)| *number).collect();
        // The removal of these may not be durable yet.
        let gone = loose.iter().filter(|(_, bytes)| bytes.is_none());
        let removed = gone.map(|(number, _)| *number).collect();
        let loose = loose.into_iter().map(|(number, bytes)| (number, bytes.unwrap_or(0))).collect();
        let state = State { next, allowed: next, loose, after_sync, removed, ..State::default() };
        Self { disk, space, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next number; `None` if the log must allow more first.
    pub(crate) fn take_number(&self) -> Option<u64> {
        let mut state = self.state();
        (state.next < state.allowed).then(|| {
            let number = state.next;
            state.next += 1;
            state.loose.insert(number, 0);
            number
        })
    }

    /// The end of the numbers that the log must allow next.
    pub(crate) fn wanted_end(&self) -> u64 {
        let state = self.state();
        state.next.max(state.allowed) + NUMBERS_STEP
    }

    /// The log allows numbers below `end`.
    pub(crate) fn allow(&self, end: u64) {
        self.state().allowed = end;
    }

    /// Creates the file of a number.
    pub(crate) fn create(&self, number: u64) -> io::Result<Arc<dyn DiskFile>> {
        match self.disk.open(&path(number), OpenMode::Create) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.disk.create_folder(&folder(number))?;
                self.disk.sync_folder(FOLDER)?;
                self.disk.open(&path(number), OpenMode::Create)
            }
            opened => opened,
        }
    }

    /// The next number, and the numbers that may have a file and have no entry.
    pub(crate) fn known(&self) -> (u64, BTreeSet<u64>) {
        let state = self.state();
        (state.next, state.loose.keys().copied().collect())
    }

    /// A file that no entry names goes once the log is synced, unless it is known to be loose. Returns
    /// whether it was unknown.
    pub(crate) fn adopt(&self, number: u64, bytes: u64) -> bool {
        let mut state = self.state();
        if state.loose.contains_key(&number) {
            return false;
        }
        state.loose.insert(number, bytes);
        self.space.add_loose(bytes);
        state.after_sync.push(number);
        true
    }

    /// A number's file has an entry now.
    pub(crate) fn claim(&self, number: u64) {
        self.state().loose.remove(&number);
    }

    /// No record ever named this file.
    pub(crate) fn abandon(&self, number: u64, bytes: u64) {
        let mut state = self.state();
        state.loose.insert(number, bytes);
        state.removable.push(number);
        self.space.add_loose(bytes);
    }

    /// A record says that this file is no value any more. The file goes once the log is synced.
    pub(crate) fn retire(&self, number: u64, bytes: u64) {
        let mut state = self.state();
        state.loose.insert(number, bytes);
        self.space.add_loose(bytes);
        state.after_sync.push(number);
    }

    /// The commit of this file failed.
    pub(crate) fn note_failed(&self, number: u64, bytes: u64) {
        let mut state = self.state();
        state.loose.insert(number, bytes);
        state.failed.push(number);
        self.space.add_loose(bytes);
    }

    /// The log has gone on, in a new session if a commit failed before.
    pub(crate) fn note_append(&self) {
        let mut state = self.state();
        let failed = std::mem::take(&mut state.failed);
        state.after_sync.extend(failed);
    }

    /// The bytes of this file may not be durable.
    pub(crate) fn note_unsynced(&self, file: Unsynced) {
        self.state().unsynced.push(file);
    }

    /// The number of files whose bytes may not be durable.
    pub(crate) fn unsynced(&self) -> usize {
        self.state().unsynced.len()
    }

    /// What a sync of the log will allow: files to sync first, and files to remove after it.
    pub(crate) fn begin_sync(&self) -> (Vec<Unsynced>, Vec<u64>) {
        let mut state = self.state();
        (std::mem::take(&mut state.unsynced), std::mem::take(&mut state.after_sync))
    }

    /// The log was synced, or not.
    pub(crate) fn end_sync(&self, removable: Vec<u64>, is_synced: bool) {
        let mut state = self.state();
        if is_synced {
            state.removable.extend(removable);
        } else {
            state.after_sync.extend(removable);
        }
    }

    /// The number of files that can be removed now.
    pub(crate) fn removable(&self) -> usize {
        self.state().removable.len()
    }

    /// Removes up to `count_max` files. Returns how many are left. One caller at a time: deleting
    /// from many threads makes a file system slower.
    pub(crate) fn remove_some(&self, count_max: usize) -> usize {
        let mut state = self.state();
        let rest = state.removable.len().saturating_sub(count_max);
        let some = state.removable.split_off(rest);
        drop(state);
        for number in some {
            match self.disk.unlink(&path(number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    self.state().removable.push(number);
                }
                _ => {
                    let mut state = self.state();
                    let bytes = state.loose.get_mut(&number).map(std::mem::take);
                    state.removed.push(number);
                    self.space.subtract_loose(bytes.unwrap_or_default());
                }
            }
        }
        self.state().removable.len()
    }

    /// Makes removals durable, so that the next checkpoint can forget the numbers. It keeps those
    /// whose folder cannot be synced.
    pub(crate) fn settle(&self) {
        let removed = std::mem::take(&mut self.state().removed);
        let mut folders: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for number in removed {
            folders.entry(folder(number)).or_default().push(number);
        }
        for (folder, numbers) in folders {
            let is_durable = match self.disk.sync_folder(&folder) {
                Err(error) => error.kind() == io::ErrorKind::NotFound,
                Ok(()) => true,
            };
            let mut state = self.state();
            if is_durable {
                for number in numbers {
                    state.loose.remove(&number);
                }
            } else {
                state.removed.extend(numbers);
            }
        }
    }

    pub(crate) fn save(&self) -> SavedFiles {
        let state = self.state();
        SavedFiles {
            next: state.next,
            end: state.allowed.max(state.next),
            loose: state.loose.keys().copied().collect(),
        }
    }

    /// Makes files and the names of their folders durable. Returns those that failed.
    pub(crate) fn sync(&self, unsynced: &[Unsynced]) -> Vec<Unsynced> {
        let handles: Vec<_> = unsynced.iter().map(|file| Arc::clone(&file.file)).collect();
        let mut results = self.disk.sync_files(&handles);
        let mut folders: Vec<String> = unsynced.iter().map(|file| folder(file.number)).collect();
        folders.sort();
        folders.dedup();
        for name in folders {
            if let Err(error) = self.disk.sync_folder(&name) {
                for (file, result) in unsynced.iter().zip(&mut results) {
                    if result.is_ok() && folder(file.number) == name {
                        *result = Err(io::Error::new(error.kind(), error.to_string()));
                    }
                }
            }
        }
        let failed = unsynced.iter().zip(results).filter(|(_, result)| result.is_err());
        failed.map(|(file, _)| file.clone()).collect()
    }
}
