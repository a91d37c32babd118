//! [`Incoming`]: a file that is being written, under a hidden name, until it is complete.
//!
//! Invariants: the process that writes a file in the folder `.incoming` holds a lock on it until it
//! has finished. So a file without a lock was left by a killed process, and [`clean`] removes it. A
//! file gets another name only by [`Incoming::commit`].

use std::fs::{File, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::{Builder, NamedTempFile};
use tokio::runtime::Handle;

/// Read-only, because blobs never change. The process's mask removes further rights.
const MODE: u32 = 0o444;

/// Maximum number of names tried. [`clean`] in another process can mistake a new file for a
/// leftover only between its creation and its lock.
const ATTEMPTS_MAX: u32 = 16;

/// A file that is being written. Dropping it without a commit removes the file.
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

    /// Gives the file its name, and replaces any file of that name. Blocks.
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
        // Removing a file may block, and a cancelled put is dropped on the runtime's thread.
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(file))),
            Err(_) => drop(file),
        }
    }
}

/// Locks a new file; `false` if [`clean`] has mistaken it for a leftover.
fn is_locked(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(file.metadata()?.nlink() > 0),
        Err(TryLockError::WouldBlock) => Ok(false),
        // A file system without locks: leftovers in this folder cannot be identified.
        Err(TryLockError::Error(_)) => Ok(true),
    }
}

/// Removes the files that killed processes left in `folder`. A file that cannot be removed stays
/// and is never read. Blocks.
pub(super) fn clean(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let Ok(file) = File::open(&path) else { continue };
        if file.try_lock().is_ok() {
            // The lock is held, so this is not a new file of the same name.
            let _ = std::fs::remove_file(&path);
        }
    }
    Ok(())
}
