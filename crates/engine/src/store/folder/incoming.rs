//! [`Incoming`]: a file that is being written, under a hidden name, until it is whole.
//!
//! Invariants: a file in the folder `.incoming` is locked by the process that writes it, for as long
//! as that writes. So a file without a lock is what a killed process left, and [`clean`] removes
//! it. A file gets another name only by [`Incoming::commit`].

use std::fs::{File, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::{Builder, NamedTempFile};
use tokio::runtime::Handle;

/// Blobs never change: nobody may write them. The process's mask takes further rights away.
const MODE: u32 = 0o444;

/// How often another name is tried. [`clean`] in another process can take a new file for a leftover
/// only between its creation and its lock.
const ATTEMPTS_MAX: u32 = 16;

/// A file that is being written. It is removed when this is dropped uncommitted.
#[derive(Debug)]
pub(super) struct Incoming(Option<NamedTempFile>);

impl Incoming {
    /// Creates an empty file in `folder`. Blocks.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        for _ in 0..ATTEMPTS_MAX {
            let mut builder = Builder::new();
            let file = builder.permissions(Permissions::from_mode(MODE)).tempfile_in(folder)?;
            if is_locked(file.as_file())? {
                return Ok(Self(Some(file)));
            }
        }
        Err(io::Error::other("another process removes files that are being written"))
    }

    /// Appends bytes. Blocks.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Some(file) => file.write_all(bytes),
            None => Ok(()),
        }
    }

    /// Gives the file its name, in place of a file that has it. Blocks.
    pub(super) fn commit(mut self, target: &Path) -> io::Result<()> {
        let Some(file) = self.0.take() else { return Ok(()) };
        let file = match file.persist(target) {
            Ok(_) => return Ok(()),
            Err(failed) if failed.error.kind() == io::ErrorKind::NotFound => failed.file,
            Err(failed) => return Err(failed.error),
        };
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        file.persist(target).map(drop).map_err(|failed| failed.error)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let Some(file) = self.0.take() else { return };
        // Removing a file may block, and a put that is cancelled is dropped on the runtime's thread.
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(file))),
            Err(_) => drop(file),
        }
    }
}

/// Locks a new file; `false` where [`clean`] has taken it for a leftover.
fn is_locked(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(file.metadata()?.nlink() > 0),
        Err(TryLockError::WouldBlock) => Ok(false),
        // A file system without locks: nothing in this folder can be told to be a leftover.
        Err(TryLockError::Error(_)) => Ok(true),
    }
}

/// Removes what killed processes left in `folder`. A file that cannot be removed stays: nothing
/// reads it. Blocks.
pub(super) fn clean(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let Ok(file) = File::open(&path) else { continue };
        if file.try_lock().is_ok() {
            // Under the lock: a new file of that name is another one.
            let _ = std::fs::remove_file(&path);
        }
    }
    Ok(())
}
