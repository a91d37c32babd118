//! The part file: made or found, locked against other runs, given room, and at the end given its
//! name. All of it blocks; call it off the runtime's threads.
//!
//! Invariants: until it is given its name it is its owner's alone, and that is us; what is given the
//! name, or removed, is the file that this run has written, whatever has been put in its place.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use tidegate_core::checksum::Crc;

use super::super::Mark;
use super::FileTarget;
use super::access::{self, Access, Fresh, PRIVATE_MODE};
use super::descriptors::Descriptors;
use super::journal::{Found, Identity, Journal};
use super::run::{Run, RunOwner};
use super::target::storage_error;
use crate::error::{Error, ErrorKind, Operation, Result};

/// What must be on the disk, and not only on its way there, when a download ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// One read when an earlier run's bytes are checked.
const CHECK_BYTES: usize = 1 << 20;

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
}

impl PartFile {
    /// Opens or makes the part file beside `target` and locks it. Fails where another run holds it,
    /// or the folder takes no files. A run of this process that nobody wants any more is waited for.
    pub(crate) fn open(target: FileTarget) -> Result<Self> {
        let failed = |error| storage_error(Operation::Write, &target.display(), error);
        let existing = Access::of_path(&target.path).map_err(failed)?;
        let fresh = Fresh::beside(&target.part).map_err(failed)?;
        // A run that finished between our open and our lock has renamed the file that we hold.
        for _ in 0..8 {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(PRIVATE_MODE)
                // A link under the part file's name would lead the bytes into somebody else's file.
                .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                .open(&target.part)
                .map_err(|error| match error.raw_os_error() {
                    Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => linked(&target),
                    _ if error.kind() == io::ErrorKind::PermissionDenied
                        && target.part.exists() =>
                    {
                        foreign(&target).caused_by(error)
                    }
                    _ => failed(error),
                })?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    if Run::await_end(&file).map_err(failed)? {
                        continue;
                    }
                    return Err(busy(&target));
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
            return Ok(Self { file, target, access, run, descriptors: None });
        }
        Err(busy(&target))
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

    /// What an earlier run left, if it is of the blob `source`.
    pub(crate) fn found(&self, source: &str) -> Option<Found> {
        let found = Journal::find(&self.file).unwrap_or_else(|error| {
            tracing::debug!(%error, "the part file's journal cannot be read");
            None
        })?;
        (found.identity.source == source).then_some(found)
    }

    /// Empties the file, gives it room for the whole blob, and begins its journal.
    pub(crate) fn begin(&self, len: u64, identity: Option<&Identity>) -> Result<Option<Journal>> {
        let failed = |error| storage_error(Operation::Write, &self.target.display(), error);
        self.file.set_len(0).map_err(failed)?;
        self.reserve(len)?;
        identity.map(|identity| Journal::create(&self.file, identity)).transpose().map_err(failed)
    }

    /// Keeps the bytes of `marks`, which were read back and found right, and begins a new journal
    /// that names them. A crash in between leaves a file without a journal.
    pub(crate) fn begin_over(&self, identity: &Identity, marks: &[Mark]) -> Result<Journal> {
        let failed = |error| storage_error(Operation::Write, &self.target.display(), error);
        let len = identity.len_bytes;
        // Cuts the old journal off, which may stand anywhere.
        self.file.set_len(len).map_err(failed)?;
        self.reserve(len)?;
        let mut journal = Journal::create(&self.file, identity).map_err(failed)?;
        for mark in marks {
            journal.append(&self.file, *mark).map_err(failed)?;
        }
        Ok(journal)
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
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                let space = rustix::fs::fstatvfs(&self.file).map_err(|e| failed(e.into()))?;
                if space.f_bavail.saturating_mul(space.f_frsize) < len {
                    return Err(failed(io::ErrorKind::StorageFull.into()));
                }
                self.file.set_len(len).map_err(failed)
            }
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Gives the finished file its name, in place of what had it. A failure or a crash before that
    /// leaves the old target, and a part file that can be resumed until its journal is cut off,
    /// which is the last step but the rename.
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
        let access = Access::of_path(&self.target.path).map_err(failed)?;
        access.as_ref().unwrap_or(&self.access).give(&self.file).map_err(failed)?;
        if durability != Durability::None {
            self.file.sync_all().map_err(failed)?;
        }
        fs::rename(&self.target.part, &self.target.path).map_err(failed)?;
        if durability == Durability::Full
            && let Some(folder) = self.target.part.parent()
        {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
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

/// Reads the bytes of one extent back and says whether they are what the journal remembers.
pub(crate) fn holds(file: &File, start: u64, expected: &Crc) -> io::Result<bool> {
    let mut crc = Crc::empty(expected.algorithm());
    let mut buffer =
        vec![0; CHECK_BYTES.min(usize::try_from(expected.len()).unwrap_or(CHECK_BYTES))];
    while crc.len() < expected.len() {
        let left = usize::try_from(expected.len() - crc.len()).unwrap_or(usize::MAX);
        let count = left.min(buffer.len());
        match file.read_exact_at(&mut buffer[..count], start + crc.len()) {
            Ok(()) => crc.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(crc == *expected)
}

fn linked(target: &FileTarget) -> Error {
    Error::new(
        ErrorKind::Storage,
        Operation::Write,
        target.part.display().to_string(),
        "there is a link in the place of the part file",
    )
    .with_hint("remove it")
}

fn foreign(target: &FileTarget) -> Error {
    Error::new(
        ErrorKind::Storage,
        Operation::Write,
        target.part.display().to_string(),
        "the part file is somebody else's",
    )
    .with_hint("remove it, or have whoever began it go on with it")
}

fn replaced(target: &FileTarget) -> Error {
    Error::new(
        ErrorKind::Storage,
        Operation::Commit,
        target.display(),
        "its part file was removed or replaced while it was written",
    )
    .with_hint("run the same command again")
}

fn busy(target: &FileTarget) -> Error {
    Error::new(
        ErrorKind::Storage,
        Operation::Write,
        target.display(),
        "another run is writing this target",
    )
    .with_hint("wait for it to end, or end it")
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
