//! The part file: made or found, locked against other runs, given room, and at the end given its
//! name. All of it blocks; call it off the runtime's threads.
//!
//! Invariants: until it is given its name it is its owner's alone, and that is us; what is given the
//! name, or removed, is the file that this run has written, whatever has been put in its place.

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

/// What must be on the disk, and not only on its way there, when a download ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Nothing: the system writes when it likes. A crash of the machine may lose the file, or
    /// leave it under its name with holes.
    None,
    /// The file's bytes, before it gets its name.
    #[default]
    File,
    /// The file's bytes and its name.
    Full,
}

/// Told where a blob goes on without a journal.
pub(super) const NO_JOURNAL: &str = "there is no room for the journal of its part file: an interrupted run starts from the beginning";

/// A locked part file.
#[derive(Debug)]
pub(crate) struct PartFile {
    pub(crate) file: File,
    pub(crate) target: FileTarget,
    /// What it lets people do at the end, where nothing has the target's name then.
    access: Access,
    run: Run,
    /// Given back when it is closed.
    descriptors: Option<Descriptors>,
    sealing: Sealing,
    no_key: Option<NoKey>,
}

/// A part file that is ready to be written.
#[derive(Debug)]
pub(crate) struct Begun {
    /// `None` where none is wanted, and where there is no room for one.
    pub(crate) journal: Option<Journal>,
    /// What the user may want to know of that.
    pub(crate) note: Option<String>,
}

impl PartFile {
    /// Opens or makes the part file beside `target` and locks it. Fails where another run holds it,
    /// or the folder takes no files. A run of this process that nobody wants any more is waited for.
    /// `state` has the key of its journal.
    pub(crate) fn open(target: FileTarget, state: &StateFolder) -> Result<Self> {
        let failed = |error| storage_error(Operation::Write, &target.display(), error);
        let existing = Access::of_path(&target.path).map_err(failed)?;
        let fresh = Fresh::beside(&target.part).map_err(failed)?;
        // A run that finished between our open and our lock has renamed the file that we hold.
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
                // A file system without locks: the user vouches for one run at a time.
                Err(error) => tracing::debug!(%error, "the part file cannot be locked"),
            }
            if !same_file(&file, &target).map_err(failed)? {
                continue;
            }
            if !fresh.is_ours(&file.metadata().map_err(failed)?) {
                // Nobody writes it, as we have its lock; begun anew.
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

    /// From now on it has these.
    pub(crate) fn hold(&mut self, descriptors: Descriptors) {
        self.descriptors = Some(descriptors);
    }

    /// Whoever wants the outcome of writing it; to be held until there is one.
    pub(crate) fn owner(&self) -> RunOwner {
        self.run.owner()
    }

    /// The same file once more, for reading. It does not share the lock where that can be had: whoever
    /// still reads when this run is over keeps no other run out.
    pub(crate) fn reader(&self) -> io::Result<File> {
        match File::open(&self.target.part) {
            Ok(file) if is_same(&file.metadata()?, &self.file.metadata()?) => Ok(file),
            _ => self.file.try_clone(),
        }
    }

    /// Whether its journal can be told from bytes of a server.
    pub(crate) fn has_key(&self) -> bool {
        self.sealing.key.is_some()
    }

    /// Why there is no key, where there is one that is not used.
    pub(crate) fn refused_key(&self) -> Option<&NoKey> {
        self.no_key.as_ref().filter(|why| matches!(why, NoKey::Refused(_)))
    }

    /// What selects a blob, as a journal names it.
    pub(crate) fn selected(&self, selection: Option<&Selection>) -> Option<Selected> {
        Some(Selected::new(selection?, self.sealing.key.as_ref()?))
    }

    /// The journal that it ends with, if any.
    pub(crate) fn ending(&self) -> Ending {
        Journal::find(&self.file, &self.sealing).unwrap_or_else(|error| {
            tracing::debug!(%error, "the part file's journal cannot be read");
            Ending::Plain
        })
    }

    /// Whether its journal names bytes that a later run can go on with.
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

    /// Keeps the bytes of `marks`, which were read back and found right, and begins a new journal
    /// that names them. A crash in between leaves a file without a journal.
    pub(crate) fn begin_over(&self, identity: &Identity, marks: &[Mark]) -> Result<Begun> {
        let failed = |error| storage_error(Operation::Write, &self.target.display(), error);
        let len = identity.len_bytes;
        // Cuts the old journal off, which may stand anywhere.
        self.file.set_len(len).map_err(failed)?;
        let reserved = self.reserve(len);
        // Without room for the rest, what is there is kept all the same.
        let begun = self.remember(identity, marks)?;
        reserved.map(|()| begun)
    }

    /// Begins a journal with these marks. A blob that fits where its journal does not goes without.
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

    /// Reserves room, so that a full disk shows before the first byte is fetched.
    fn reserve(&self, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let failed = |error| storage_error(Operation::Write, &self.target.display(), error);
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            // Not every file system can; then at least the free space is looked at.
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

    /// Gives the finished file its name, in place of what had it, and then what its target lets
    /// people do. A failure or a crash before the rename leaves the old target, and a part file that
    /// can be resumed until its journal is cut off, which is the last step but the rename.
    ///
    /// The order is rename, then mode: a part file that others may open, left behind by a rename
    /// that failed, could be written to by them while a later run resumes it. Between the two the
    /// file under the target's name is private; a crash there leaves it so.
    pub(crate) fn commit(self, len: u64, durability: Durability) -> Result<()> {
        let failed = |error| storage_error(Operation::Commit, &self.target.display(), error);
        if durability != Durability::None {
            // The bytes first: the journal still stands behind them if this is cut short.
            self.file.sync_data().map_err(failed)?;
        }
        // Removed by hand, say, and then begun anew by another run.
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
            // As a later run expects it.
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

    /// Removes the part file: nothing in it is worth resuming.
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
    /// Unlocks the file, though others may still read through other handles on it.
    fn drop(&mut self) {
        if let Err(error) = rustix::fs::flock(&self.file, FlockOperation::Unlock) {
            tracing::debug!(%error, "the part file cannot be unlocked");
        }
    }
}

/// Whether a file could not grow: it can do without what was to be written behind the blob.
pub(super) fn is_no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Opens the part file, made if there is none; `None` where it has to be tried again.
fn open_or_make(target: &FileTarget, fresh: &Fresh) -> Result<Option<File>> {
    let failed = |error| storage_error(Operation::Write, &target.display(), error);
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE_MODE)
        // A link under the part file's name would lead the bytes into another user's file.
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

/// Whether the part file is of a run that was killed between narrowing its mode and the rename.
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
