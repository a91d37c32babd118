//! [`Files`]: the files that Go reads, one for each body, named by the body's hash; and small files
//! with the entries of actions.
//!
//! One process at a time has the store of a folder. Another one, such as a `go` command that a test
//! starts, finds the entries here.
//!
//! A file gets its name when it is complete, and never changes. So any number of processes use one
//! folder. Files that no build used for some days are removed; a build in flight has used its files
//! just now.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::NamedTempFile;
use tidegate_core::Digest;

use super::entry::{Entry, hex};

/// As Go's own cache does it.
const UNUSED_MAX: Duration = Duration::from_hours(5 * 24);
/// The time of use is exact to this, so that a warm build writes little.
const USE_EVERY: Duration = Duration::from_hours(1);
/// The folder is looked through this often.
const TRIM_EVERY: Duration = Duration::from_hours(24);
/// Its time says when that was.
const TRIMMED: &str = "trimmed";

/// A folder of files.
#[derive(Clone, Debug)]
pub(super) struct Files(PathBuf);

impl Files {
    pub(super) fn new(folder: &Path) -> Self {
        Self(std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()))
    }

    /// Creates the folder.
    pub(super) fn create(&self) -> io::Result<()> {
        fs::create_dir_all(&self.0)
    }

    /// A file that has no name yet. Dropping it removes it.
    pub(super) fn begin(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new().prefix(".new-").tempfile_in(&self.0)
    }

    /// The file of a body, if there is one. It was used now.
    pub(super) fn find(&self, digest: &Digest) -> Option<PathBuf> {
        let path = self.path(digest);
        let found = fs::metadata(&path).ok()?;
        // After a loss of power, a file may be shorter than it was.
        if !found.is_file() || found.len() != digest.len {
            return None;
        }
        if age(&found).is_none_or(|age| age > USE_EVERY) {
            // A file whose use cannot be noted may be removed earlier.
            let file = File::options().write(true).open(&path);
            let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
        }
        Some(path)
    }

    /// Names a file that is complete and has this digest.
    pub(super) fn keep(&self, file: NamedTempFile, digest: &Digest) -> io::Result<PathBuf> {
        if let Some(path) = self.find(digest) {
            return Ok(path);
        }
        let path = self.path(digest);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        file.persist(&path)?;
        Ok(path)
    }

    /// The entry of an action whose body is a file, and this file.
    pub(super) fn find_entry(&self, action: &[u8]) -> Option<(Entry, PathBuf)> {
        let entry = Entry::parse(&fs::read(self.entry_path(action)).ok()?)?;
        let path = self.find(&entry.digest()?)?;
        Some((entry, path))
    }

    /// Keeps the entry of an action. Another process does without it after a failure.
    pub(super) fn note_entry(&self, action: &[u8], entry: &Entry) {
        let path = self.entry_path(action);
        let text = entry.text();
        // It is as old as its use, so that it goes with its body.
        let is_recent = fs::metadata(&path).ok().and_then(|found| age(&found));
        if is_recent.is_some_and(|age| age < USE_EVERY)
            && fs::read(&path).is_ok_and(|known| known == text)
        {
            return;
        }
        let written = self.begin().and_then(|mut file| {
            file.write_all(&text)?;
            fs::create_dir_all(path.parent().unwrap_or(&self.0))?;
            Ok(file.persist(&path)?)
        });
        if let Err(error) = written {
            tracing::debug!(%error, "an entry is not kept");
        }
    }

    /// Removes what no build used for some days, at most once a day. A failure leaves files.
    pub(super) fn trim(&self) {
        let marker = self.0.join(TRIMMED);
        let last = fs::metadata(&marker).ok().and_then(|found| age(&found));
        if last.is_some_and(|age| age < TRIM_EVERY) || fs::write(&marker, "").is_err() {
            return;
        }
        let files = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in files(&self.0) {
            remove_if_unused(&entry);
            for entry in files(&entry.path()) {
                remove_if_unused(&entry);
            }
        }
    }

    fn entry_path(&self, action: &[u8]) -> PathBuf {
        let name = hex(action);
        self.0.join(name.get(..2).unwrap_or("00")).join(format!("{name}.entry"))
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        let hash = digest.checksum().hex();
        self.0.join(&hash[..2]).join(hash)
    }
}

fn remove_if_unused(entry: &fs::DirEntry) {
    let found = entry.metadata().ok().filter(fs::Metadata::is_file);
    if found.and_then(|found| age(&found)).is_some_and(|age| age > UNUSED_MAX) {
        let _ = fs::remove_file(entry.path());
    }
}

/// The time since a change; `None` if that is in the future.
fn age(found: &fs::Metadata) -> Option<Duration> {
    found.modified().ok()?.elapsed().ok()
}

#[cfg(test)]
mod tests {
    use tidegate_core::digest::DigestFunction;

    use super::*;

    fn kept(files: &Files, body: &[u8]) -> (Digest, PathBuf) {
        let digest = Digest::of(DigestFunction::Sha256, body);
        let mut file = files.begin().unwrap();
        file.write_all(body).unwrap();
        (digest, files.keep(file, &digest).unwrap())
    }

    fn set_age(path: &Path, age: Duration) {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }

    #[test]
    fn files_are_found_when_they_are_complete() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        let (digest, path) = kept(&files, b"body");
        assert_eq!(files.find(&digest), Some(path.clone()));
        assert_eq!(kept(&files, b"body").1, path);
        fs::write(&path, "cut").unwrap();
        assert_eq!(files.find(&digest), None);
        assert_eq!(kept(&files, b"body").1, path);
        assert_eq!(fs::read(&path).unwrap(), b"body");
        assert!(fs::read_dir(folder.path()).unwrap().count() == 1, "no other file is left");
    }

    #[test]
    fn entries_need_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        let (digest, path) = kept(&files, b"body");
        let entry = Entry::new(b"out", &digest);
        assert_eq!(files.find_entry(b"action"), None);
        for _ in 0..2 {
            files.note_entry(b"action", &entry);
            assert_eq!(files.find_entry(b"action"), Some((entry.clone(), path.clone())));
        }
        files.note_entry(b"action", &Entry::new(b"other", &digest));
        let other = files.find_entry(b"action").unwrap().0;
        assert_eq!(other.output(), Some(b"other".to_vec()));
        fs::remove_file(path).unwrap();
        assert_eq!(files.find_entry(b"action"), None);
    }

    #[test]
    fn unused_files_go_after_some_days() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        let (old, old_path) = kept(&files, b"old");
        let (used, used_path) = kept(&files, b"used");
        let (new, _) = kept(&files, b"new");
        for path in [&old_path, &used_path] {
            set_age(path, Duration::from_hours(6 * 24));
        }
        assert!(files.find(&used).is_some());
        files.trim();
        let found = [old, used, new].map(|digest| files.find(&digest).is_some());
        assert_eq!(found, [false, true, true]);
        // Not again on the same day.
        set_age(&used_path, Duration::from_hours(6 * 24));
        files.trim();
        assert!(used_path.exists());
        set_age(&folder.path().join(TRIMMED), Duration::from_hours(25));
        files.trim();
        assert!(!used_path.exists());
    }
}
