//! When a file has changed.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What changes when the content of a file does: a secret that Kubernetes mounts gets another inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    len: u64,
    seconds: i64,
    nanoseconds: i64,
}

/// Files that are read again when one of them has changed.
#[derive(Debug)]
pub(super) struct WatchedFiles {
    paths: Vec<PathBuf>,
    stamps: Vec<Option<Stamp>>,
}

impl WatchedFiles {
    /// The files as they are now. It is to be made before they are read, so that no change is missed.
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        let stamps = paths.iter().map(|path| stamp(path)).collect();
        Self { paths, stamps }
    }

    /// Whether one of them has changed since the last question. Blocks.
    pub(super) fn have_changed(&mut self) -> bool {
        let now: Vec<_> = self.paths.iter().map(|path| stamp(path)).collect();
        let have_changed = now != self.stamps;
        self.stamps = now;
        have_changed
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    Some(Stamp {
        inode: metadata.ino(),
        len: metadata.len(),
        seconds: metadata.mtime(),
        nanoseconds: metadata.mtime_nsec(),
    })
}
