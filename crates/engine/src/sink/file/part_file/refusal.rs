//! Errors about a part file, with messages for the user.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use super::super::FileTarget;
use super::super::who::{self, Locker};
use crate::error::{Error, ErrorKind, Operation};

pub(super) fn linked(target: &FileTarget) -> Error {
    Error::new(
        ErrorKind::Storage,
        Operation::Write,
        target.part.display().to_string(),
        "there is a link in the place of the part file",
    )
    .with_hint("remove it")
}

pub(super) fn foreign(target: &FileTarget) -> Error {
    let owner = fs::symlink_metadata(&target.part).map(|found| who::user(found.uid()));
    let message = match owner {
        Ok(owner) => format!("the part file is owned by {owner}"),
        Err(_) => "the part file is another user's".to_owned(),
    };
    Error::new(ErrorKind::Storage, Operation::Write, target.part.display().to_string(), message)
        .with_hint("remove it, or have its owner finish or remove it")
}

pub(super) fn misses_mode(target: &FileTarget, error: io::Error) -> Error {
    let message = "it is whole and has its name, but its owner, mode or access list cannot be set";
    Error::new(ErrorKind::Storage, Operation::Commit, target.display(), message)
        .caused_by(error)
        .with_hint("set them by hand")
}

pub(super) fn replaced(target: &FileTarget) -> Error {
    Error::new(
        ErrorKind::Storage,
        Operation::Commit,
        target.display(),
        "its part file was removed or replaced while it was written",
    )
    .with_hint("run the same command again")
}

/// Another process, or another download of this one, has the part file locked.
pub(super) fn busy(target: &FileTarget, locker: Option<Locker>) -> Error {
    let message = locker
        .map_or_else(|| "another run is writing this target".to_owned(), |locker| locker.message());
    Error::new(ErrorKind::Storage, Operation::Write, target.display(), message)
        .with_hint("wait for it to end, or end it")
}
