//! [`Walk`]: the entries under a prefix of paths, in the order of their bytes.
//!
//! The walk is depth first. Each folder is sorted by name, with a slash after a folder's name, so
//! that `a.txt` comes before `a/b` as in any list of keys.
//!
//! Invariants:
//!
//! - The walk follows no symbolic link below the prefix's own folder. It opens each folder by its
//!   name in the open parent, and never through a link. So it cannot leave the tree, even if
//!   entries are moved during the walk.
//! - It holds the names in the folders from the top to the current one; this memory is taken from
//!   the budget. With names of 20 bytes a folder of 1,000,000 files takes 60 MB.
//!
//! All calls block.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;
use tidegate_core::printable::escaped;

use super::staged::{STAGED_SUFFIX, hidden_from};
use super::upload::{UPLOAD_SUFFIX, name_in};
use crate::budget::{Budget, ListPermit};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::names::is_reserved;
use crate::remote::local::failed;
use crate::remote::write::{UnfinishedUpload, Upload, UploadId, UploadPage, WriteOptions};
use crate::remote::{PageToken, Unlisted};

/// Maximum depth of nested folders: each level holds one open file. A deeper tree is an error; it
/// is not left out.
const DEPTH_MAX: usize = 128;

/// Memory of a name in addition to its bytes.
const NAME_BYTES: usize = 40;

/// Taken from the budget at a time: about 1,000 names.
const CHARGE_BYTES: usize = 64 << 10;

/// Maximum number of uploads in one page.
const UPLOADS_MAX: usize = 1000;

/// An entry that a walk finds.
#[derive(Debug)]
pub(super) enum FoundEntry {
    /// A regular file.
    File { key: String, stat: Box<Stat> },
    /// An entry that cannot be listed.
    Unlisted(Unlisted),
    /// A hidden path of an upload, and the name of its blob.
    Upload { key: String, blob: String, stat: Box<Stat> },
}

#[derive(Debug)]
pub(super) struct Walk {
    levels: Vec<Level>,
    prefix: String,
    /// Names up to this one were listed before.
    after: Option<String>,
    budget: Budget,
}

/// One folder, and its entries that are not visited yet.
#[derive(Debug)]
struct Level {
    folder: OwnedFd,
    /// The prefix of its entries' keys; empty or with a slash at its end.
    key: String,
    /// In reverse order: the next name is the last.
    names: Vec<Name>,
    _permits: Vec<ListPermit>,
}

#[derive(Debug)]
struct Name {
    name: OsString,
    is_folder: bool,
}

impl Name {
    /// The bytes that it is sorted by.
    fn sort_key(&self) -> impl Iterator<Item = u8> {
        self.name.as_bytes().iter().copied().chain(self.is_folder.then_some(b'/'))
    }
}

impl Walk {
    /// Opens the prefix's folder: `NotFound` if it is missing.
    pub(super) fn open(prefix: &str, after: Option<&PageToken>, budget: &Budget) -> Result<Self> {
        let key = prefix.rfind('/').map_or("", |slash| &prefix[..=slash]).to_owned();
        let shown = if key.is_empty() { "." } else { key.as_str() };
        // The caller names the prefix's own folder, so the walk follows a link there.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, shown, flags, Mode::empty())
            .map_err(|error| failed(shown, Operation::List, error.into()))?;
        let after = after.map(|token| token.as_str().to_owned());
        let (prefix, budget) = (prefix.to_owned(), budget.clone());
        let mut walk = Self { levels: Vec::new(), prefix, after, budget };
        walk.enter(folder, key)?;
        Ok(walk)
    }

    fn enter(&mut self, folder: OwnedFd, key: String) -> Result<()> {
        let refuse = |kind, message: String| Err(Error::new(kind, Operation::List, &key, message));
        if self.levels.len() >= DEPTH_MAX {
            let message = format!("folders are nested deeper than {DEPTH_MAX}");
            return refuse(ErrorKind::Unsupported, message);
        }
        let unreadable = |error: Errno| failed(&key, Operation::List, error.into());
        let (mut names, mut permits, mut charged, mut used) = (Vec::new(), Vec::new(), 0, 0);
        for entry in Dir::read_from(&folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name == "." || name == ".." {
                continue;
            }
            used += name.len() + NAME_BYTES;
            while charged < used {
                let Some(permit) = self.budget.try_list(CHARGE_BYTES as u64) else {
                    let message =
                        "the names in the folder need more memory than the budget has left";
                    return refuse(ErrorKind::Exhausted, message.to_owned())
                        .map_err(|error| error.with_hint("raise the budget"));
                };
                permits.push(permit);
                charged += CHARGE_BYTES;
            }
            let is_folder = match entry.file_type() {
                FileType::Directory => true,
                FileType::Unknown => is_folder(&folder, &name),
                _ => false,
            };
            names.push(Name { name, is_folder });
        }
        names.sort_unstable_by(|one, other| other.sort_key().cmp(one.sort_key()));
        self.levels.push(Level { folder, key, names, _permits: permits });
        Ok(())
    }

    /// The next entry; `None` at the end. Entries that disappear during the walk are left out.
    pub(super) fn next(&mut self) -> Result<Option<FoundEntry>> {
        while let Some(level) = self.levels.last_mut() {
            let Some(name) = level.names.pop() else {
                self.levels.pop();
                continue;
            };
            let Some(text) = name.name.to_str() else {
                let shown = format!("{}{}", level.key, name.name.to_string_lossy());
                let reason = "its name is not UTF-8";
                return Ok(Some(FoundEntry::Unlisted(Unlisted::new(escaped(&shown), reason))));
            };
            let key = format!("{}{text}", level.key);
            if is_reserved(&name.name) {
                if let Some(found) = upload(level, &name.name, key) {
                    return Ok(Some(found));
                }
                continue;
            }
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let stat = match statat(&level.folder, &name.name, flags) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(failed(&key, Operation::List, error.into())),
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => self.descend(&name.name, key)?,
                kind => {
                    if let Some(found) = self.entry(key, kind, stat) {
                        return Ok(Some(found));
                    }
                }
            }
        }
        Ok(None)
    }

    fn entry(&self, key: String, kind: FileType, stat: Stat) -> Option<FoundEntry> {
        let is_seen = self.after.as_ref().is_some_and(|after| key <= *after);
        if is_seen || !key.starts_with(&self.prefix) {
            return None;
        }
        let reason = match kind {
            FileType::RegularFile => return Some(FoundEntry::File { key, stat: Box::new(stat) }),
            FileType::Symlink => "it is a symbolic link",
            _ => "it is not a regular file",
        };
        Some(FoundEntry::Unlisted(Unlisted::new(escaped(&key), reason)))
    }

    /// Enters a folder, unless no entry in it can match.
    fn descend(&mut self, name: &std::ffi::OsStr, mut key: String) -> Result<()> {
        key.push('/');
        let is_seen =
            self.after.as_ref().is_some_and(|after| key <= *after && !after.starts_with(&key));
        if is_seen || !key.starts_with(&self.prefix) {
            return Ok(());
        }
        let Some(level) = self.levels.last() else { return Ok(()) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&level.folder, name, flags, Mode::empty()) {
            Ok(folder) => self.enter(folder, key),
            // It was removed, or replaced by a link.
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => Ok(()),
            Err(error) => Err(failed(&key, Operation::List, error.into())),
        }
    }
}

fn is_folder(folder: &OwnedFd, name: &std::ffi::OsStr) -> bool {
    let stat = statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// The upload's folder or staged file that has this name, if it is one.
fn upload(level: &Level, name: &std::ffi::OsStr, key: String) -> Option<FoundEntry> {
    let stat = statat(&level.folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let suffix = if is_folder { UPLOAD_SUFFIX } else { STAGED_SUFFIX };
    let cut = hidden_from(Path::new(name), suffix)?;
    let own = if is_folder { name_in(Path::new(&key)) } else { None };
    let blob = format!("{}{}", level.key, own.as_deref().unwrap_or(cut));
    Some(FoundEntry::Upload { key, blob, stat: Box::new(stat) })
}

/// One page of the uploads whose blobs begin with `prefix`.
pub(super) fn uploads(
    prefix: &str,
    from: Option<&PageToken>,
    budget: &Budget,
) -> Result<UploadPage> {
    let mut page = UploadPage::default();
    let after = from.map(PageToken::as_str);
    let mut walk = Walk::open(prefix, None, budget)?;
    while let Some(found) = walk.next()? {
        let FoundEntry::Upload { key, blob, stat } = found else { continue };
        if !blob.starts_with(prefix) || after.is_some_and(|after| *key <= *after) {
            continue;
        }
        if page.uploads.len() >= UPLOADS_MAX {
            page.next = page.uploads.last().map(|last| PageToken::new(last.upload.id.as_str()));
            break;
        }
        let upload = Upload::new(blob, UploadId::new(key), &WriteOptions::default());
        page.uploads.push(UnfinishedUpload::new(upload, super::modified(&stat)));
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::BudgetOptions;

    /// An unlimited number of names would use up all memory.
    #[test]
    fn names_beyond_the_budget_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for index in 0..3000 {
            std::fs::write(folder.path().join(index.to_string()), b"").unwrap();
        }
        let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 << 20 });
        let prefix = format!("{}/", folder.path().display());
        // 3,000 names take 132 KiB, in two steps of 64 KiB and a third.
        let held = budget.try_list(budget.lists_bytes() - (100 << 10)).unwrap();
        let error = Walk::open(&prefix, None, &budget).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        drop(held);
        let mut walk = Walk::open(&prefix, None, &budget).unwrap();
        let mut count = 0;
        while let Some(FoundEntry::File { .. }) = walk.next().unwrap() {
            count += 1;
        }
        assert_eq!(count, 3000);
        drop(walk);
        assert!(budget.try_list(budget.lists_bytes()).is_some(), "all of it is given back");
    }
}
