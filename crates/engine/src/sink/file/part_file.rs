//! The part file: created or found, locked against other runs, preallocated, and at the end renamed
//! to its target. All functions block; call them off the runtime's threads.
//!
//! Invariants:
//!
//! - Before the rename, only its owner can use it, and its owner is the user of this process.
//! - Only the file that this run wrote is renamed or removed, even if another file took its name.

mod recheck;
mod refusal;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::super::Mark;
use super::access::{self, Access, Fresh, PRIVATE_MODE};
use super::clone;
use super::descriptors::Descriptors;
use super::journal::{Ending, Found, Identity, Journal, Sealing, Selected};
use super::run::{Run, RunOwner};
use super::target::storage_error;
use super::user_key::{NoKey, UserKey};
use super::who;
use super::{FileTarget, StateFolder};
use crate::error::{Operation, Result};
use crate::remote::Selection;
pub(crate) use recheck::verified_marks;
use refusal::{busy, foreign, linked, misses_mode, replaced};

/// What is synced to the disk before a download ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Nothing: the system writes when it chooses. A crash of the machine may lose the file, or
    /// leave it under its name with holes.
    None,
    /// The file's bytes, before it gets its name.
    #[default]
    File,
    /// The file's bytes and its name.
    Full,
}

/// Note for the user when a blob is written without a journal.
pub(super) const NO_JOURNAL: &str = "there is no room for the journal of its part file: an interrupted run starts from the beginning";

/// A locked part file.
#[derive(Debug)]
pub(crate) struct PartFile {
    pub(crate) file: File,
    pub(crate) target: FileTarget,
    /// Access rights for the target if no file has its name at the end.
    access: Access,
    run: Run,
    /// Released when the part file is closed.
    descriptors: Option<Descriptors>,
    sealing: Sealing,
    no_key: Option<NoKey>,
}

/// A part file that is ready to be written.
#[derive(Debug)]
pub(crate) struct Begun {
    /// `None` if no journal is wanted, or if there is no room for one.
    pub(crate) journal: Option<Journal>,
    /// A note for the user about the journal.
    pub(crate) note: Option<String>,
}

impl PartFile {
    /// Opens or creates the part file next to `target` and locks it. Fails if another run holds it,
    /// or if no file can be created in the folder. If an abandoned run of this process holds it,
    /// this waits for that run to end. `state` holds the key of the journal.
    pub(crate) fn open(target: FileTarget, state: &StateFolder) -> Result<Self> {
        let failed = |error| storage_error(Operation::Write, &target.display(), error);
        let existing = Access::of_path(&target.path).map_err(failed)?;
        let fresh = Fresh::beside(&target.part).map_err(failed)?;
        // A run that finishes between our open and our lock has renamed the file that we opened.
        for _ in 0..8 {
            let Some(file) = open_or_make(&target, &fresh)? else { continue };
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    if Run::await_end(&file).map_err(failed)? {
                        continue;
                    }
                    return Err(busy(&target, who::locker(&file)));
                }
                // A file system without locks: the user must start only one run at a time.
                Err(error) => tracing::debug!(%error, "the part file cannot be locked"),
            }
            if !same_file(&file, &target).map_err(failed)? {
                continue;
            }
            if !fresh.is_ours(&file.metadata().map_err(failed)?) {
                // We hold its lock, so no run writes it. Remove it and create a new one.
                fs::remove_file(&target.part).map_err(|e| foreign(&target).caused_by(e))?;
                continue;
            }
            access::make_private(&file).map_err(failed)?;
            let run = Run::begin(&file).map_err(failed)?;
            let access = existing.unwrap_or(fresh.access);
            let (key, no_key) = match UserKey::load(state) {
                Ok(key) => (Some(key), None),
                Err(why) => (None, Some(why)),
            };
            let sealing = Sealing::new(key, target.part.file_name().unwrap_or_default());
            return Ok(Self { file, target, access, run, descriptors: None, sealing, no_key });
        }
        Err(busy(&target, None))
    }

    /// Keeps `descriptors` until the part file is closed.
    pub(crate) fn hold(&mut self, descriptors: Descriptors) {
        self.descriptors = Some(descriptors);
    }

    /// The handle of the caller that wants the outcome. The caller holds it until there is one.
    pub(crate) fn owner(&self) -> RunOwner {
        self.run.owner()
    }

    /// Opens the file again, for reading. If possible the handle does not share the lock, so a
    /// reader that outlives this run does not block other runs.
    pub(crate) fn reader(&self) -> io::Result<File> {
        match File::open(&self.target.part) {
            Ok(file) if is_same(&file.metadata()?, &self.file.metadata()?) => Ok(file),
            _ => self.file.try_clone(),
        }
    }

    /// Whether its journal can be distinguished from bytes of a server.
    pub(crate) fn has_key(&self) -> bool {
        self.sealing.key.is_some()
    }

    /// Why the key is not used, if there is one that was refused.
    pub(crate) fn refused_key(&self) -> Option<&NoKey> {
        self.no_key.as_ref().filter(|why| matches!(why, NoKey::Refused(_)))
    }

    /// The keyed hashes of a selection, as a journal's header stores them.
    pub(crate) fn selected(&self, selection: Option<&Selection>) -> Option<Selected> {
        Some(Selected::new(selection?, self.sealing.key.as_ref()?))
    }

    /// The journal at the end of the file, if any.
    pub(crate) fn ending(&self) -> Ending {
        Journal::find(&self.file, &self.sealing).unwrap_or_else(|error| {
            tracing::debug!(%error, "the part file's journal cannot be read");
            Ending::Plain
        })
    }

    /// Whether its journal names bytes that a later run can reuse.
    pub(crate) fn remembers(&self) -> bool {
        self.ending().journal().is_some_and(|found: Found| !found.marks.is_empty())
    }

    /// Empties the file, gives it room for the whole blob, and begins its journal.
    pub(crate) fn begin(&self, len: u64, identity: Option<&Identity>) -> Result<Begun> {
        let failed = |error| storage_error(Operation::Write, &self.target.display(), error);
        self.file.set_len(0).map_err(failed)?;
        self.reserve(len)?;
        match identity {
            Some(identity) => self.remember(identity, &[]),
            None => Ok(Begun { journal: None, note: None }),
        }
    }

    /// Makes the file a clone of `source`, if the file system can do that.
    pub(crate) fn clone_of(&self, source: &File) -> bool {
        clone::clone(&self.file, source)
    }

    /// Keeps the bytes of `marks`, which the caller has verified, and begins a new journal that
    /// names them. A crash in between leaves a file without a journal.
    pub(crate) fn begin_over(&self, identity: &Identity, marks: &[Mark]) -> Result<Begun> {
        let failed = |error| storage_error(Operation::Write, &self.target.display(), error);
        let len = identity.len_bytes;
        // Cuts off the old journal, which may start at any offset.
        self.file.set_len(len).map_err(failed)?;
        let reserved = self.reserve(len);
        // Keep the verified bytes even if there is no room for the rest.
        let begun = self.remember(identity, marks)?;
        reserved.map(|()| begun)
    }

    /// Begins a journal with these marks. If the blob fits on the disk but the journal does not,
    /// the run continues without a journal.
    fn remember(&self, identity: &Identity, marks: &[Mark]) -> Result<Begun> {
        let written =
            Journal::create(&self.file, &self.sealing, identity).and_then(|mut journal| {
                marks
                    .iter()
                    .try_for_each(|mark| journal.append(&self.file, *mark))
                    .map(|()| journal)
            });
        let failed = |error| storage_error(Operation::Write, &self.target.display(), error);
        match written {
            Ok(journal) => Ok(Begun { journal: Some(journal), note: None }),
            Err(error) if is_no_room(&error) => {
                self.file.set_len(identity.len_bytes).map_err(failed)?;
                Ok(Begun { journal: None, note: Some(NO_JOURNAL.to_owned()) })
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Reserves disk space, so that a full disk is reported before the first byte is fetched.
    fn reserve(&self, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let failed = |error| storage_error(Operation::Write, &self.target.display(), error);
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            // Not every file system can reserve space. Then check the free space.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let space = rustix::fs::fstatvfs(&self.file).map_err(|e| failed(e.into()))?;
                if space.f_bavail.saturating_mul(space.f_frsize) < len {
                    return Err(failed(io::ErrorKind::StorageFull.into()));
                }
                self.file.set_len(len).map_err(failed)
            }
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Renames the finished file to its target and then sets the target's access rights. A failure
    /// or crash before the rename leaves the old target and the part file. The part file can be
    /// resumed until its journal is cut off, which is one of the last steps before the rename.
    ///
    /// The order is rename, then mode. If the mode were set first and the rename failed, other
    /// users could write to the part file while a later run resumes it. Between the two steps the
    /// file under the target's name is private. A crash there leaves it private.
    pub(crate) fn commit(self, len: u64, durability: Durability) -> Result<()> {
        let failed = |error| storage_error(Operation::Commit, &self.target.display(), error);
        if durability != Durability::None {
            // Sync the bytes first: if this is interrupted, the journal still stands behind them.
            self.file.sync_data().map_err(failed)?;
        }
        // For example, removed by hand and then created again by another run.
        if !same_file(&self.file, &self.target).map_err(failed)? {
            return Err(replaced(&self.target));
        }
        self.file.set_len(len).map_err(failed)?;
        if durability != Durability::None {
            self.file.sync_all().map_err(failed)?;
        }
        let found = Access::of_path(&self.target.path).map_err(failed)?;
        let access = found.as_ref().unwrap_or(&self.access);
        access.narrow(&self.file).map_err(failed)?;
        if let Err(error) = fs::rename(&self.target.part, &self.target.path) {
            // A later run expects a private part file.
            let _ = access::make_private(&self.file);
            return Err(failed(error));
        }
        access.give(&self.file).map_err(|error| misses_mode(&self.target, error))?;
        if durability == Durability::Full {
            self.file.sync_all().map_err(failed)?;
            if let Some(folder) = self.target.part.parent() {
                File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Removes the part file, because nothing in it is worth resuming.
    pub(crate) fn remove(self) {
        if !same_file(&self.file, &self.target).unwrap_or(true) {
            return;
        }
        if let Err(error) = fs::remove_file(&self.target.part) {
            tracing::warn!(%error, part = %self.target.part.display(), "cannot remove the part file");
        }
    }
}

impl Drop for PartFile {
    /// Unlocks the file, even if readers still hold other handles on it.
    fn drop(&mut self) {
        if let Err(error) = rustix::fs::flock(&self.file, FlockOperation::Unlock) {
            tracing::debug!(%error, "the part file cannot be unlocked");
        }
    }
}

/// Whether a file could not grow. The journal behind the blob is optional, so callers continue
/// without it.
pub(super) fn is_no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Opens the part file, or creates it if there is none; `None` if the caller must try again.
fn open_or_make(target: &FileTarget, fresh: &Fresh) -> Result<Option<File>> {
    let failed = |error| storage_error(Operation::Write, &target.display(), error);
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE_MODE)
        // A link with the part file's name would redirect the bytes into another user's file.
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&target.part);
    let error = match opened {
        Ok(file) => return Ok(Some(file)),
        Err(error) => error,
    };
    if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
        return Err(linked(target));
    }
    match fs::symlink_metadata(&target.part) {
        Ok(found) if error.kind() == io::ErrorKind::PermissionDenied => {
            if fresh.is_ours(&found) && is_left_narrow(target) {
                fs::remove_file(&target.part).map_err(failed)?;
                return Ok(None);
            }
            Err(foreign(target).caused_by(error))
        }
        _ => Err(failed(error)),
    }
}

/// Whether the part file was left by a run that was killed between narrowing its mode and the
/// rename.
fn is_left_narrow(target: &FileTarget) -> bool {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let open = |reads: bool| {
        let mut options = OpenOptions::new();
        options.read(reads).write(!reads).custom_flags(flags).open(&target.part).ok()
    };
    let file = open(true).or_else(|| open(false));
    file.is_some_and(|file| {
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
    })
}

/// Whether the part file's name still leads to the file that is open.
fn same_file(file: &File, target: &FileTarget) -> io::Result<bool> {
    match fs::metadata(&target.part) {
        Ok(named) => Ok(is_same(&named, &file.metadata()?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests;
