//! The part file: made or found, locked against other runs, given room, and at the end given its
//! name. All of it blocks; call it off the runtime's threads.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use tidegate_core::checksum::Crc;

use super::super::Mark;
use super::FileTarget;
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
    run: Run,
}

impl PartFile {
    /// Opens or makes the part file beside `target` and locks it. Fails where another run holds it,
    /// or the folder takes no files. A run of this process that nobody wants any more is waited for.
    pub(crate) fn open(target: FileTarget) -> Result<Self> {
        let failed = |error| storage_error(Operation::Write, &target.display(), error);
        // A run that finished between our open and our lock has renamed the file that we hold.
        for _ in 0..8 {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                // A link under the part file's name would lead the bytes into somebody else's file.
                .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                .open(&target.part)
                .map_err(|error| match error.raw_os_error() {
                    Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => linked(&target),
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
            if same_file(&file, &target).map_err(failed)? {
                let run = Run::begin(&file).map_err(failed)?;
                return Ok(Self { file, target, run });
            }
        }
        Err(busy(&target))
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
        self.file.set_len(len).map_err(failed)?;
        if let Some(permissions) = &self.target.permissions {
            self.file.set_permissions(permissions.clone()).map_err(failed)?;
        }
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
mod tests {
    use tidegate_core::checksum::CrcAlgorithm;

    use super::*;

    fn part(folder: &std::path::Path) -> Result<PartFile> {
        PartFile::open(FileTarget::new(&folder.join("t"))?)
    }

    #[test]
    fn a_second_run_is_refused_while_the_first_lives() {
        let folder = tempfile::tempdir().unwrap();
        let first = part(folder.path()).unwrap();
        let _owner = first.owner();
        assert!(part(folder.path()).unwrap_err().to_string().contains("another run"));
        drop(first);
        assert!(part(folder.path()).is_ok());
    }

    /// As long as somebody wants the first; then the second has it as soon as the first has ended.
    #[test]
    fn an_abandoned_run_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let first = part(folder.path()).unwrap();
        let owner = first.owner();
        assert!(part(folder.path()).unwrap_err().to_string().contains("another run"));
        drop(owner);
        let (ended, ends) = std::sync::mpsc::channel();
        let path = folder.path();
        std::thread::scope(|scope| {
            let second = scope.spawn(move || {
                let second = part(path);
                (second, ends.try_recv().is_ok())
            });
            // What still reads does not count.
            let reading = first.file.try_clone().unwrap();
            ended.send(()).unwrap();
            drop(first);
            let (second, after) = second.join().unwrap();
            assert!(second.is_ok() && after);
            drop(reading);
        });
    }

    #[test]
    fn commit_replaces_the_target_and_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        fs::write(&path, b"old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let part = part(folder.path()).unwrap();
        part.begin(3, None).unwrap();
        part.file.write_all_at(b"new", 0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        part.commit(3, Durability::Full).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn changed_bytes_are_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let part = part(folder.path()).unwrap();
        part.file.write_all_at(b"..abc", 0).unwrap();
        let crc = Crc::of(CrcAlgorithm::Crc32c, b"abc");
        assert!(holds(&part.file, 2, &crc).unwrap());
        assert!(!holds(&part.file, 1, &crc).unwrap());
        assert!(!holds(&part.file, 3, &crc).unwrap(), "beyond the end of the file");
    }
}
