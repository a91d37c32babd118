//! [`StagedFile`]: a hidden file next to its target that gets the target's name when it is
//! complete.
//!
//! It serves one call, as a download's part file serves a transfer. It is never resumed, so it has
//! no journal. Its name is random, so any number of writers may race for one target.
//!
//! Invariants:
//!
//! - The target's name leads to the old file or to the complete new one at every instant, also
//!   after `kill -9`.
//! - Only the owner can access a staged file. Replacing a file never widens access.
//! - Dropping a staged file removes it. One that a killed process leaves behind is listed among the
//!   unfinished uploads, which can be aborted.
//!
//! All calls block, except dropping.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::stamp;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::names::hidden_name;
use crate::remote::write::{Precondition, Written};
use crate::sink::file::access::{Access, Fresh, PRIVATE_MODE};
use crate::sink::file::target::storage_error;
use crate::sink::file::{Durability, FileTarget};

/// Staged files are named `.NAME`, then this suffix, then 32 hexadecimal digits.
pub(super) const STAGED_SUFFIX: &str = ".tidegate-put-";

/// Bytes of a random name: no two writers draw the same.
const UNIQUE_BYTES: usize = 16;

/// Digits that a random name ends with.
pub(super) const UNIQUE_DIGITS: usize = 2 * UNIQUE_BYTES;

/// The name that a blob will get, checked before any byte is written.
#[derive(Debug)]
pub(super) struct Place {
    target: FileTarget,
    /// The access rights of the new file if no file has the target's name at the end.
    access: Access,
    /// Folders that were created for it.
    new_folders: Vec<PathBuf>,
}

impl Place {
    /// Creates the folders of `blob`, because blob names in other remotes need no folders. Fails if
    /// the precondition does not hold now, or if the target cannot be written.
    pub(super) fn prepare(blob: &str, precondition: &Precondition) -> Result<Self> {
        let failed = |error| storage_error(Operation::Write, blob, error);
        let path = Path::new(blob);
        check(path, precondition)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut new_folders = Vec::new();
        if let Some(folder) = folder {
            let is_new = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
            new_folders = folder.ancestors().take_while(is_new).map(Path::to_path_buf).collect();
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let target = FileTarget::new(path)?;
        let access = Fresh::beside(&target.part).map_err(failed)?.access;
        Ok(Self { target, access, new_folders })
    }

    /// The file's name, without its folder.
    pub(super) fn name(&self) -> &Path {
        Path::new(self.target.path.file_name().unwrap_or_default())
    }

    /// A hidden path next to the target that no other writer has.
    pub(super) fn beside(&self, suffix: &str) -> Result<PathBuf> {
        let failed = |error| storage_error(Operation::Write, &self.target.display(), error);
        let suffix = format!("{suffix}{}", unique().map_err(failed)?);
        Ok(self.target.part.with_file_name(hidden_name(self.name().as_os_str(), &suffix)))
    }

    /// Gives the file at `staged`, which is open as `file`, the target's name if the precondition
    /// holds. After a failure the file keeps its old name. The order of rename and mode is that of
    /// `PartFile::commit`, for its reasons.
    pub(super) fn commit(
        &self,
        file: &File,
        staged: &Path,
        precondition: &Precondition,
        durability: Durability,
    ) -> Result<Written> {
        let path = &self.target.path;
        let failed = |error| storage_error(Operation::Commit, &self.target.display(), error);
        if durability != Durability::None {
            file.sync_all().map_err(failed)?;
        }
        let found = Access::of_path(path).map_err(failed)?;
        let access = found.as_ref().unwrap_or(&self.access);
        access.narrow(file).map_err(failed)?;
        if !matches!(precondition, Precondition::Absent) {
            check(path, precondition)?;
        }
        // `Absent` is not checked here: the rename itself is the check.
        let renamed = match precondition {
            Precondition::Absent => rename_new(staged, path),
            _ => fs::rename(staged, path),
        };
        renamed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&self.target.display()),
            _ => failed(error),
        })?;
        access.give(file).map_err(failed)?;
        if durability == Durability::Full {
            file.sync_all().map_err(failed)?;
            let folders = self.new_folders.iter().map(PathBuf::as_path).chain([path.as_path()]);
            folders.filter_map(Path::parent).try_for_each(sync_folder).map_err(failed)?;
        }
        let version = Some(stamp(&file.metadata().map_err(failed)?));
        Ok(Written { version, ..Written::default() })
    }
}

/// A file of a [`Place`], for writing.
#[derive(Debug)]
pub(super) struct StagedFile {
    pub(super) file: Arc<File>,
    path: PathBuf,
    place: Place,
}

impl StagedFile {
    /// Creates an empty file.
    pub(super) fn create(place: Place) -> Result<Self> {
        let path = place.beside(STAGED_SUFFIX)?;
        let file = create_private(&path)
            .map_err(|error| storage_error(Operation::Write, &place.target.display(), error))?;
        Ok(Self { file: Arc::new(file), path, place })
    }

    /// See [`Place::commit`].
    pub(super) fn commit(
        self,
        precondition: &Precondition,
        durability: Durability,
    ) -> Result<Written> {
        self.place.commit(&self.file, &self.path, precondition, durability)
    }
}

impl Drop for StagedFile {
    /// Removes a file that was not renamed, off the runtime's threads if there is a runtime.
    fn drop(&mut self) {
        let (path, file) = (std::mem::take(&mut self.path), Arc::clone(&self.file));
        let remove = move || {
            // After a rename the path is free; no other file has this random name.
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, staged = %path.display(), "cannot remove a staged file");
                }
                _ => {}
            }
            drop(file);
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

/// A new file that only its owner can access. Never follows a link.
pub(super) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(PRIVATE_MODE)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

/// Fails if the precondition does not hold now.
fn check(path: &Path, precondition: &Precondition) -> Result<()> {
    let shown = path.display().to_string();
    let found = match precondition {
        Precondition::None => return Ok(()),
        Precondition::Absent | Precondition::Version(_) => fs::metadata(path),
    };
    let found = match found {
        Ok(found) => Some(found),
        Err(error) if is_absent(&error) => None,
        Err(error) => return Err(storage_error(Operation::Write, &shown, error)),
    };
    match (precondition, found) {
        (Precondition::Absent, Some(_)) => Err(exists(&shown)),
        (Precondition::Version(version), found) => {
            version.expect(found.as_ref().map(stamp).as_ref(), Operation::Write, &shown)
        }
        _ => Ok(()),
    }
}

/// No file has the name, or its folder does not exist.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn exists(shown: &str) -> Error {
    Error::new(ErrorKind::AlreadyExists, Operation::Write, shown, "the target already exists")
        .with_hint("choose another name, or delete the target first")
}

/// Renames to a name that no file has; atomic. On file systems without such a rename (NFS) it
/// creates a second link and removes the first: a crash in between leaves the hidden name as well.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        Err(error) => Err(error.into()),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}

/// Digits that no other writer draws.
pub(super) fn unique() -> io::Result<String> {
    let mut bytes = [0; UNIQUE_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

/// The `NAME` of a hidden file `.NAME`, suffix, 32 digits; `None` for any other name. A `NAME` that
/// is too long for a hidden name is cut.
pub(super) fn hidden_from<'a>(hidden: &'a Path, suffix: &str) -> Option<&'a str> {
    let hidden = std::str::from_utf8(hidden.as_os_str().as_bytes()).ok()?;
    let (rest, digits) = hidden.split_at_checked(hidden.len().checked_sub(UNIQUE_DIGITS)?)?;
    let is_unique = digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let name = rest.strip_suffix(suffix)?.strip_prefix('.')?;
    (is_unique && !name.is_empty()).then_some(name)
}
