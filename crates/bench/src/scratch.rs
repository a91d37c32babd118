//! A folder for the temporary files of a measurement, which deletes them at its end.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// A folder for temporary files that is not in memory.
pub(crate) fn disk_folder() -> Result<PathBuf> {
    // From linux/magic.h.
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    let candidates = [std::env::temp_dir(), PathBuf::from("/var/tmp"), PathBuf::from(".")];
    let on_disk = |folder: &PathBuf| {
        rustix::fs::statfs(folder).is_ok_and(|system| system.f_type != TMPFS_MAGIC)
    };
    candidates.into_iter().find(on_disk).context("no folder on a disk was found; name one: --dir")
}
