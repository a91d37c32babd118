//! [`Access`]: the access rights of a file, read from one file and given to another.
//!
//! A part file is private to its owner, regardless of the umask. It gets its target's access rights
//! only after it has the target's name. If no target exists, the default rights are needed. This
//! creates an empty file and reads its mode, because the umask, the folder's default list and the
//! mount all affect it. A process cannot read its umask without setting it for all its threads.
//!
//! # Invariants
//!
//! - Replacing a file never widens access. If the group cannot be handed over, the group gets no
//!   more than other users. If the access control list cannot be set, the file keeps no group
//!   rights.
//! - A file's rights are at no time wider than its final rights.
//! - Set-user-ID and set-group-ID bits are never copied to a new file: they stay with the bytes
//!   that they were set for.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_os = "linux")]
use rustix::fs::{Mode, OFlags};

use super::acl::{self, Acl};
use crate::names::hidden_name;

/// Its owner may read and write it; no other user has access.
pub(crate) const PRIVATE_MODE: u32 = 0o600;

/// The mode that programs ask for when they create an ordinary file. The umask and other settings
/// remove bits from it.
const ASKED_MODE: u32 = 0o666;

const MODE_BITS: u32 = 0o7777;
const GROUP_BITS: u32 = 0o070;
const SET_ID_BITS: u32 = 0o6000;

/// Names tried for the probe file. A process with the same id on another machine may use the same
/// names.
const NAMES_MAX: u32 = 8;

/// A file's access rights.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    mode: u32,
    /// User and group; `None` if the file that gets these rights keeps its own.
    owner: Option<(u32, u32)>,
    /// `None` if the file that gets these rights keeps its own.
    acl: Option<Acl>,
}

impl Access {
    /// The access of the regular file at `path`; `None` if there is none. Blocks, as do all
    /// functions here.
    pub(crate) fn of_path(path: &Path) -> io::Result<Option<Self>> {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_file() => Ok(Some(Self::new(&found, acl::of_path(path)))),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The access of an open file.
    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        Ok(Self::new(&file.metadata()?, acl::of_file(file)))
    }

    fn new(found: &Metadata, acl: Option<Acl>) -> Self {
        let mode = found.mode() & MODE_BITS & !SET_ID_BITS;
        Self { mode, owner: Some((found.uid(), found.gid())), acl }
    }

    /// The same access without the bits that allow execution.
    pub(crate) fn without_running(self) -> Self {
        Self { mode: self.mode & ASKED_MODE, ..self }
    }

    /// Removes from `file` the mode bits that it does not have in the end. Adds none.
    pub(crate) fn narrow(&self, file: &File) -> io::Result<()> {
        let found = file.metadata()?;
        set_mode(file, &found, found.mode() & MODE_BITS & self.mode)
    }

    /// Gives these rights to `file`.
    pub(crate) fn give(&self, file: &File) -> io::Result<()> {
        let found = file.metadata()?;
        let (mode, is_same_group) = match self.owner {
            Some(owner) => self.hand_over(owner, file, &found),
            None => (self.mode, true),
        };
        match &self.acl {
            Some(Acl::List(list)) if is_same_group => {
                // With a list, the group bits of the mode are the mask: the most that the list's
                // users and groups may do.
                set_mode(file, &found, mode & !GROUP_BITS)?;
                if let Err(error) = acl::set(file, list) {
                    tracing::debug!(%error, "an access control list is not kept");
                }
                return Ok(());
            }
            Some(_) => acl::remove(file)?,
            None => {}
        }
        set_mode(file, &found, mode)
    }

    /// Gives `file` this user and group. Returns the mode that is safe afterwards, and whether the
    /// file has the group.
    fn hand_over(&self, (user, group): (u32, u32), file: &File, found: &Metadata) -> (u32, bool) {
        let same_group = found.gid() == group;
        if found.uid() == user && same_group || fchown(file, Some(user), Some(group)).is_ok() {
            return (self.mode, true);
        }
        // Only root may change a file's owner. Every user may give a file to a group that they
        // belong to.
        if same_group || fchown(file, None, Some(group)).is_ok() {
            return (self.mode, true);
        }
        (limited_to_others(self.mode), false)
    }
}

/// The mode for a file whose group differs: the group gets no more than other users.
fn limited_to_others(mode: u32) -> u32 {
    let others = (mode & 0o007) << 3;
    mode & !(GROUP_BITS & !others)
}

/// The access of a new file in a folder.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) access: Access,
    user: u32,
}

/// The description of a new file without a name in the folder of `part`; `None` if there can be none.
#[cfg(target_os = "linux")]
fn unnamed(part: &Path) -> Option<Metadata> {
    let folder = part.parent().filter(|folder| !folder.as_os_str().is_empty());
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(ASKED_MODE);
    let file = rustix::fs::open(folder.unwrap_or(Path::new(".")), flags, mode).ok()?;
    File::from(file).metadata().ok()
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_part: &Path) -> Option<Metadata> {
    None
}

impl Fresh {
    /// Creates a file in the folder of `part`, reads its mode, and removes it. Where the system can,
    /// the file has no name, so a killed process leaves none.
    pub(crate) fn beside(part: &Path) -> io::Result<Self> {
        match unnamed(part) {
            Some(found) => Ok(Self::of(&found)),
            None => Self::by_name(part),
        }
    }

    fn of(found: &Metadata) -> Self {
        let mode = found.mode() & MODE_BITS;
        Self { access: Access { mode, owner: None, acl: None }, user: found.uid() }
    }

    fn by_name(part: &Path) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = part.file_name().unwrap_or_default();
        let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..NAMES_MAX {
            let unique = COUNT.fetch_add(1, Ordering::Relaxed);
            let suffix = format!(".tidegate-mode-{}-{unique}", std::process::id());
            let path = part.with_file_name(hidden_name(name, &suffix));
            let mut options = OpenOptions::new();
            match options.write(true).create_new(true).mode(ASKED_MODE).open(&path) {
                Ok(file) => {
                    let found = file.metadata();
                    fs::remove_file(&path)?;
                    return found.map(|found| Self::of(&found));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
                Err(error) => return Err(error),
            }
        }
        Err(taken)
    }

    /// Whether a file next to the probe file is ours alone. Another owner could open it to other
    /// users at any time. A second hard link would give another user its bytes.
    pub(super) fn is_ours(&self, found: &Metadata) -> bool {
        found.uid() == self.user && found.nlink() <= 1
    }
}

/// Restricts `file` to its owner, who may read and write it.
pub(super) fn make_private(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    if found.mode() & MODE_BITS == PRIVATE_MODE {
        return Ok(());
    }
    if let Err(error) = file.set_permissions(Permissions::from_mode(PRIVATE_MODE)) {
        // A file system without modes: its mount options decide who may read the file.
        tracing::debug!(%error, "the part file's mode cannot be changed");
    }
    Ok(())
}

/// Sets the mode if it differs. File systems without modes refuse every change, even to the same
/// mode.
fn set_mode(file: &File, found: &Metadata, mode: u32) -> io::Result<()> {
    if found.mode() & MODE_BITS == mode {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str, mode: u32) -> File {
        let file = File::create(folder.join(name)).unwrap();
        file.set_permissions(Permissions::from_mode(mode)).unwrap();
        file
    }

    fn mode(file: &File) -> u32 {
        file.metadata().unwrap().mode() & MODE_BITS
    }

    #[test]
    fn a_file_gets_what_another_has() {
        let folder = tempfile::tempdir().unwrap();
        for wanted in [0o600, 0o640, 0o444, 0o200, 0o755, 0o4711, 0o2755] {
            // Each has its own name, because a file that may not be written cannot be created
            // again.
            let name = format!("{wanted:o}");
            file(folder.path(), &name, wanted);
            let new = file(folder.path(), "new", PRIVATE_MODE);
            let access = Access::of_path(&folder.path().join(&name)).unwrap().unwrap();
            access.give(&new).unwrap();
            assert_eq!(mode(&new), wanted & 0o777, "{wanted:o}");
            fs::remove_file(folder.path().join("new")).unwrap();
        }
    }

    #[test]
    fn what_is_no_regular_file_gives_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Access::of_path(folder.path()).unwrap().is_none());
        assert!(Access::of_path(&folder.path().join("none")).unwrap().is_none());
    }

    /// Only root may do this, so other users skip it.
    #[test]
    fn a_file_gets_the_owner_and_group_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let old = file(folder.path(), "old", 0o640);
        if fchown(&old, Some(4321), Some(1234)).is_err() {
            return;
        }
        let new = file(folder.path(), "new", PRIVATE_MODE);
        Access::of_file(&old).unwrap().give(&new).unwrap();
        let found = new.metadata().unwrap();
        assert_eq!((found.uid(), found.gid(), mode(&new)), (4321, 1234, 0o640));
    }

    #[test]
    fn another_group_gets_no_more_than_other_users() {
        for (mode, left) in [(0o660, 0o600), (0o664, 0o644), (0o640, 0o600), (0o777, 0o777)] {
            assert_eq!(limited_to_others(mode), left, "{mode:o}");
        }
    }

    /// A list with one user in addition to the owner, and no rights for the group.
    #[cfg(target_os = "linux")]
    fn list() -> Vec<u8> {
        let mut list = 2_u32.to_le_bytes().to_vec();
        let all = u32::MAX;
        for (tag, rights, id) in
            [(1_u16, 6_u16, all), (2, 6, 4321), (4, 0, all), (0x10, 6, all), (0x20, 0, all)]
        {
            list.extend(tag.to_le_bytes());
            list.extend(rights.to_le_bytes());
            list.extend(id.to_le_bytes());
        }
        list
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_access_control_list_goes_along() {
        let folder = tempfile::tempdir().unwrap();
        let old = file(folder.path(), "old", 0o600);
        if acl::set(&old, &list()).is_err() {
            // Not on every file system.
            return;
        }
        let new = file(folder.path(), "new", PRIVATE_MODE);
        Access::of_file(&old).unwrap().give(&new).unwrap();
        assert_eq!(acl::of_file(&new), Some(Acl::List(list())));
        assert_eq!(mode(&new), 0o660, "what the list calls the most");
    }

    /// A folder's default list applies to every file that is created in it.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_list_that_the_other_has_not_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let old = file(folder.path(), "old", 0o660);
        let new = file(folder.path(), "new", PRIVATE_MODE);
        if acl::set(&new, &list()).is_err() {
            return;
        }
        Access::of_file(&old).unwrap().give(&new).unwrap();
        assert_eq!((acl::of_file(&new), mode(&new)), (Some(Acl::None), 0o660));
    }

    #[test]
    fn a_fresh_file_is_what_any_program_makes_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let fresh = Fresh::beside(&folder.path().join("x".repeat(255))).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let plain = File::create(folder.path().join("plain")).unwrap();
        let new = file(folder.path(), "new", PRIVATE_MODE);
        fresh.access.give(&new).unwrap();
        assert_eq!(mode(&new), mode(&plain));
        assert!(fresh.is_ours(&plain.metadata().unwrap()));
    }
}
