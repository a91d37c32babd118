//! Folders with the sticky bit, such as `/tmp`: every user may create files there, but only a
//! file's owner, the folder's owner and root may replace a file.
//!
//! The check runs before the download. Without it, the rename at the end would be refused, after
//! all bytes had been fetched.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::who;
use crate::error::{Error, ErrorKind, Operation, Result};

const STICKY_BIT: u32 = 0o1000;

/// The user that replaces a file.
#[derive(Clone, Copy, Debug)]
struct Caller {
    user: u32,
    /// May do with every file what its owner may do.
    is_privileged: bool,
}

/// Refuses a target that this process may not replace. `existing` is the file that has the target's
/// name now.
pub(super) fn check(path: &Path, existing: Option<&Metadata>, folder: &Metadata) -> Result<()> {
    let Some(existing) = existing else { return Ok(()) };
    if folder.mode() & STICKY_BIT == 0
        || may_replace(Caller::of_process(), existing.uid(), folder.uid())
    {
        return Ok(());
    }
    let message = format!(
        "only its owner, {}, may replace it, as its folder has the sticky bit",
        who::user(existing.uid())
    );
    Err(Error::new(ErrorKind::Storage, Operation::Write, path.display().to_string(), message)
        .with_hint("choose another name or another folder"))
}

/// Whether a file of `owner` may be replaced in a sticky folder of `folder_owner`.
fn may_replace(caller: Caller, owner: u32, folder_owner: u32) -> bool {
    caller.is_privileged || caller.user == owner || caller.user == folder_owner
}

impl Caller {
    fn of_process() -> Self {
        let user = rustix::process::geteuid();
        Self {
            user: user.as_raw(),
            is_privileged: has_capability().unwrap_or_else(|| user.is_root()),
        }
    }
}

/// Whether this process has `CAP_FOWNER`; `None` if the system does not report it.
fn has_capability() -> Option<bool> {
    const CAP_FOWNER: u32 = 3;
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let bits = u64::from_str_radix(effective.trim(), 16).ok()?;
    Some(bits >> CAP_FOWNER & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_and_root_replace_and_others_do_not() {
        let user = |user| Caller { user, is_privileged: false };
        assert!(may_replace(user(7), 7, 0), "the file's owner");
        assert!(may_replace(user(7), 8, 7), "the folder's owner");
        assert!(!may_replace(user(7), 8, 0));
        assert!(!may_replace(user(0), 8, 9), "root without its capabilities");
        assert!(may_replace(Caller { user: 7, is_privileged: true }, 8, 9));
    }
}
