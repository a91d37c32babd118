//! [`LocalCopy`]: a file of this machine, which any checksum can be computed of.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, Operation, Result};
use crate::sink::hashers::{Hashers, Sums};

/// One read of a file.
const READ_BYTES: usize = 256 << 10;

/// A regular file.
pub(super) struct LocalCopy {
    pub(super) path: PathBuf,
    pub(super) shown: String,
    pub(super) len: u64,
}

impl LocalCopy {
    pub(super) fn find(path: PathBuf, shown: String) -> Result<Self> {
        let found = path.metadata().map_err(|error| unreadable(&shown, error))?;
        if found.is_file() {
            return Ok(Self { path, shown, len: found.len() });
        }
        let message = "only regular files can be compared";
        Err(Error::new(ErrorKind::Unsupported, Operation::Locate, shown, message))
    }
}

/// Hashes a file of `len` bytes; `None` if it has another length, or changes meanwhile.
pub(super) fn hash(
    path: &Path,
    len: u64,
    mut hashers: Hashers,
    stop: &CancellationToken,
    mut done: impl FnMut(u64),
) -> io::Result<Option<Sums>> {
    let mut file = File::open(path)?;
    let before = state(&file)?;
    let mut buffer = vec![0; READ_BYTES];
    let mut total = 0_u64;
    loop {
        if stop.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                hashers.update(buffer.get(..read).unwrap_or_default());
                total += read as u64;
                done(read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let is_stable = total == len && state(&file)? == before;
    Ok(is_stable.then(|| hashers.finish()))
}

/// Length and modification time in nanoseconds.
fn state(file: &File) -> io::Result<(u64, i64, i64)> {
    let found = file.metadata()?;
    Ok((found.len(), found.mtime(), found.mtime_nsec()))
}

pub(super) fn changed(shown: &str) -> Error {
    let message = "it changed while it was compared";
    Error::new(ErrorKind::Changed, Operation::Verify, shown, message)
}

pub(super) fn unreadable(shown: &str, error: io::Error) -> Error {
    let (kind, message) = match error.kind() {
        io::ErrorKind::NotFound => (ErrorKind::NotFound, "there is no such file"),
        io::ErrorKind::PermissionDenied => (ErrorKind::NoAccess, "the file may not be read"),
        io::ErrorKind::Interrupted => (ErrorKind::Cancelled, "it was cancelled"),
        _ => (ErrorKind::Storage, "the file cannot be read"),
    };
    Error::new(kind, Operation::Verify, shown, message).caused_by(error)
}
