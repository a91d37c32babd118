//! [`Disk`]: the calls that the store makes of a disk, and no others.
//!
//! | file | idea |
//! |---|---|
//! | `real` | a folder of this machine |
//! | `simulated` | a disk in memory that loses power, tears writes, fails and fills up, from a seed |
//!
//! Every call blocks. The store's own threads make them, never a thread of the async runtime.
//! Paths are relative to the store's folder and use `/`.
//!
//! What a call promises about a loss of power:
//! - Bytes are durable after [`DiskFile::sync`] of their file, and names after
//!   [`Disk::sync_folder`] of their folder. Before that, any part of them may be lost, in any order.
//! - A sector of 512 bytes is written entirely or not at all.

mod real;
mod simulated;

use std::fmt;
use std::io;
use std::sync::Arc;

pub use real::RealDisk;
pub use simulated::{Faults, SimulatedDisk};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A new, empty file, for reading and writing. A file that exists is truncated.
    Create,
}

/// A disk, as far as the store needs one.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Opens a file.
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates a folder. Succeeds if it exists. Its parent must exist.
    fn create_folder(&self, path: &str) -> io::Result<()>;

    /// Makes the names in a folder durable. The empty path is the store's folder.
    fn sync_folder(&self, path: &str) -> io::Result<()>;

    /// Renames a file within its folder and replaces the target.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn unlink(&self, path: &str) -> io::Result<()>;

    /// The names in a folder.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Identifies the boot of the machine. Empty if the machine does not tell.
    fn boot_id(&self) -> String;

    /// Syncs several files, in parallel where that helps. The results are in their order.
    fn sync_files(&self, files: &[Arc<dyn DiskFile>]) -> Vec<io::Result<()>> {
        files.iter().map(|file| file.sync()).collect()
    }
}

/// An open file.
pub trait DiskFile: fmt::Debug + Send + Sync {
    /// Reads up to `buffer.len()` bytes at `offset`. Returns fewer only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads `buffer.len()` bytes at `offset` if that does not wait for the disk. Otherwise, and if it
    /// is not known, returns `false`.
    fn read_cached_at(&self, _buffer: &mut [u8], _offset: u64) -> bool {
        false
    }

    /// Writes all bytes of `pieces`, one after another, from `offset` on.
    fn write_at(&self, pieces: &[io::IoSlice<'_>], offset: u64) -> io::Result<()>;

    /// Allocates the first `len` bytes and makes them the file's length.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Makes the file's bytes and its length durable.
    fn sync(&self) -> io::Result<()>;

    /// The file's length in bytes.
    fn byte_len(&self) -> io::Result<u64>;
}

/// Reads a whole small file; `None` if it does not exist.
pub(crate) fn read_file(disk: &dyn Disk, path: &str, len_max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let len = usize::try_from(file.byte_len()?.min(len_max)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; len];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}
