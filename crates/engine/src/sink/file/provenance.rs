//! [`Provenance`]: the blob and version that a finished file is a copy of, in an attribute of the
//! file.
//!
//! ```text
//! user.tidegate.copy = {"blob":HASH,"version":{"e_tag":"\"abc\""},"len":1000,"mtime":...,"ctime":...}
//! ```
//!
//! A later run compares it with what the remote says, and need not fetch the blob again.
//!
//! Invariants:
//! - The attribute holds a keyed hash of the URL, not the URL: a file may be given to others.
//! - It counts only while the file has the length, modification time and change time that it had
//!   when the attribute was written. So an edit is noticed, also one that restores the modification
//!   time. Writing the attribute itself changes the change time, within [`WRITTEN_WITHIN`]: an edit
//!   in that time that keeps length and modification time is not noticed.
//! - It is an optimisation. If it cannot be written or read, the file has no provenance.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, XattrFlags};
use serde::{Deserialize, Serialize};

use super::StateFolder;
use super::user_key::UserKey;
use crate::remote::{Selection, Version};

const NAME: &str = "user.tidegate.copy";

/// Domain of the user's key for this use.
const DOMAIN: &str = "tidegate copy of";

/// Longer attributes are not ours: entity tags are short.
const BYTES_MAX: usize = 4 << 10;

/// The longest time between reading the change time and writing the attribute.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Provenance {
    /// The keyed hash of the blob's [`Selection`], as hexadecimal digits.
    blob: String,
    version: Version,
    len: u64,
    /// In nanoseconds since 1970.
    mtime: i128,
    /// Before the attribute was written.
    ctime: i128,
}

/// Notes in `path` that it is a copy of this version of a blob. Blocks. Fails if the file system has
/// no such attributes, or there is no key.
pub(crate) fn write(
    path: &Path,
    selection: &Selection,
    version: &Version,
    state: &StateFolder,
) -> io::Result<()> {
    let key = UserKey::load(state).map_err(|reason| io::Error::other(reason.to_string()))?;
    let file = open(path)?;
    let found = file.metadata()?;
    let provenance = Provenance {
        blob: hash(selection, &key),
        version: version.clone(),
        len: found.len(),
        mtime: nanos(found.mtime(), found.mtime_nsec()),
        ctime: nanos(found.ctime(), found.ctime_nsec()),
    };
    let text = serde_json::to_vec(&provenance)?;
    if !found.is_file() || text.len() > BYTES_MAX {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(rustix::fs::fsetxattr(&file, NAME, &text, XattrFlags::empty())?)
}

/// The version of the blob that `path` is an unchanged copy of; `None` if it is not known to be one.
/// Blocks.
pub(crate) fn read(path: &Path, selection: &Selection, state: &StateFolder) -> Option<Version> {
    let file = open(path).ok()?;
    let mut text = vec![0; BYTES_MAX];
    let len = rustix::fs::fgetxattr(&file, NAME, &mut text).ok()?;
    let provenance: Provenance = serde_json::from_slice(text.get(..len)?).ok()?;
    // Read after the attribute: a change before this point is noticed.
    let found = file.metadata().ok()?;
    let key = UserKey::load(state).ok()?;
    let is_ours = provenance.blob == hash(selection, &key);
    (is_ours && provenance.describes(&found)).then_some(provenance.version)
}

/// Opens a file to read it. Does not wait for the writer of a pipe.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

impl Provenance {
    fn describes(&self, found: &Metadata) -> bool {
        let ctime = nanos(found.ctime(), found.ctime_nsec());
        let late = i128::try_from(WRITTEN_WITHIN.as_nanos()).unwrap_or(i128::MAX);
        found.is_file()
            && found.len() == self.len
            && nanos(found.mtime(), found.mtime_nsec()) == self.mtime
            && (self.ctime..=self.ctime.saturating_add(late)).contains(&ctime)
    }
}

fn hash(selection: &Selection, key: &UserKey) -> String {
    blake3::Hash::from_bytes(key.tag(DOMAIN, &selection.all())).to_hex().to_string()
}

fn nanos(seconds: i64, nanos: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;

    use tempfile::TempDir;

    use super::*;

    struct Bed {
        folder: TempDir,
        state: StateFolder,
    }

    impl Bed {
        /// A file with provenance, on the disk that holds the build: `/tmp` may lack attributes.
        fn new() -> Self {
            let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
            let state = StateFolder::at(folder.path().join("state"));
            let bed = Self { folder, state };
            std::fs::write(bed.path(), "bytes").unwrap();
            write(&bed.path(), &selection(), &version(), &bed.state).unwrap();
            bed
        }

        fn path(&self) -> std::path::PathBuf {
            self.folder.path().join("file")
        }

        fn read(&self) -> Option<Version> {
            read(&self.path(), &selection(), &self.state)
        }

        /// Lets the time pass in which the attribute's own change counts.
        fn backdate(&self) {
            let file = File::open(self.path()).unwrap();
            let mut text = vec![0; BYTES_MAX];
            let len = rustix::fs::fgetxattr(&file, NAME, &mut text).unwrap();
            let mut provenance: Provenance = serde_json::from_slice(&text[..len]).unwrap();
            provenance.ctime -= 5_000_000_000;
            let text = serde_json::to_vec(&provenance).unwrap();
            rustix::fs::fsetxattr(&file, NAME, &text, XattrFlags::empty()).unwrap();
        }
    }

    fn selection() -> Selection {
        Selection::new("test").with("url", "https://host/blob")
    }

    fn version() -> Version {
        Version::ETag("\"abc\"".to_owned())
    }

    #[test]
    fn an_unchanged_copy_has_its_version() {
        let bed = Bed::new();
        assert_eq!(bed.read(), Some(version()));
        let other = Selection::new("test").with("url", "https://host/other");
        assert_eq!(read(&bed.path(), &other, &bed.state), None);
        let key = StateFolder::at(bed.folder.path().join("other"));
        assert_eq!(read(&bed.path(), &selection(), &key), None, "another user's");
        let moved = bed.folder.path().join("moved");
        std::fs::copy(bed.path(), &moved).unwrap();
        assert_eq!(read(&moved, &selection(), &bed.state), None, "another file's");
    }

    #[test]
    fn an_edit_is_noticed() {
        let bed = Bed::new();
        std::fs::write(bed.path(), "other").unwrap();
        assert_eq!(bed.read(), None, "the modification time is another");
        let bed = Bed::new();
        std::fs::write(bed.path(), "longer bytes").unwrap();
        assert_eq!(bed.read(), None);
    }

    /// Tools such as rsync restore the modification time.
    #[test]
    fn an_edit_that_restores_the_modification_time_is_noticed() {
        let bed = Bed::new();
        bed.backdate();
        assert_eq!(bed.read(), None, "the change time is later");
        let bed = Bed::new();
        let mtime = bed.path().metadata().unwrap().modified().unwrap();
        bed.backdate();
        std::fs::write(bed.path(), "other").unwrap();
        let file = File::options().write(true).open(bed.path()).unwrap();
        file.set_times(FileTimes::new().set_modified(mtime)).unwrap();
        assert_eq!(bed.read(), None);
    }

    #[test]
    fn a_foreign_attribute_is_ignored() {
        let bed = Bed::new();
        let file = File::open(bed.path()).unwrap();
        for text in ["", "{}", "[]", "{\"blob\":1}"] {
            rustix::fs::fsetxattr(&file, NAME, text.as_bytes(), XattrFlags::empty()).unwrap();
            assert_eq!(bed.read(), None, "{text}");
        }
        assert!(
            write(bed.folder.path(), &selection(), &version(), &bed.state).is_err(),
            "a folder"
        );
        assert!(write(&bed.path(), &selection(), &version(), &StateFolder::none()).is_err());
    }
}
