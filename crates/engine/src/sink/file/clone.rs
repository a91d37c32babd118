//! Makes one file a clone of another: both share their blocks on the disk (a reflink).

use std::fs::File;

/// Makes `file` a clone of `source`. Returns `false`, with an empty file, if the file system cannot
/// do that for these two files.
///
/// Source: `ioctl_ficlone(2)`.
#[cfg(target_os = "linux")]
pub(super) fn clone(file: &File, source: &File) -> bool {
    let is_cloned = file.set_len(0).is_ok() && rustix::fs::ioctl_ficlone(file, source).is_ok();
    if !is_cloned {
        // If this fails, the copy fails when it begins.
        let _ = file.set_len(0);
    }
    is_cloned
}

/// Other systems clone by name, not into a file that is open and locked.
#[cfg(not(target_os = "linux"))]
pub(super) fn clone(_file: &File, _source: &File) -> bool {
    false
}
