//! The name that a file is to get, checked before any request is sent.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tidegate_core::digest::{Digest, DigestFunction};

use crate::error::{Error, ErrorKind, Operation, Result};

/// Part files are called `.NAME` and this.
const SUFFIX: &str = ".tidegate-part";

/// File names are at most so long on Linux's file systems, in bytes.
const FILE_NAME_BYTES_MAX: usize = 255;

/// Of the hash of a name that is cut: no two names have it in common.
const NAME_HASH_BYTES: usize = 16;

/// A target file and the part file beside it.
#[derive(Clone, Debug)]
pub(crate) struct FileTarget {
    /// The name that the finished file gets; symbolic links are followed to it.
    pub(crate) path: PathBuf,
    /// The hidden file that is written until then, in the same folder.
    pub(crate) part: PathBuf,
}

impl FileTarget {
    /// Looks at what is there. Fails where the target is a folder or a special file, or its
    /// folder is missing.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let refuse = |message: &str| {
            Error::new(ErrorKind::Storage, Operation::Write, path.display().to_string(), message)
        };
        let path_bytes = path.as_os_str().as_bytes();
        if path_bytes.is_empty() || path_bytes.ends_with(b"/") && !path.is_dir() {
            return Err(refuse("it is not the name of a file").with_hint("name the target file"));
        }
        let existing =
            metadata(path).map_err(|error| refuse("it cannot be seen").caused_by(error))?;
        // A link is written through, not replaced.
        let path = match &existing {
            Some(_) => {
                fs::canonicalize(path).map_err(|e| refuse("it cannot be found").caused_by(e))?
            }
            None => dangling(path),
        };
        if let Some(existing) = &existing {
            if existing.is_dir() {
                return Err(refuse("it is a folder").with_hint("name a file in it"));
            }
            if !existing.is_file() {
                return Err(refuse("it is not a regular file"));
            }
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        match metadata(&folder) {
            Ok(Some(found)) if found.is_dir() => {}
            Ok(Some(_)) => return Err(refuse("its parent is not a folder")),
            Ok(None) => {
                return Err(refuse("its folder does not exist")
                    .with_hint(format!("create {} first", folder.display())));
            }
            Err(error) => return Err(refuse("its folder cannot be seen").caused_by(error)),
        }
        let part = folder.join(hidden_name(path.file_name().unwrap_or_default(), SUFFIX));
        Ok(Self { path, part })
    }

    pub(crate) fn display(&self) -> String {
        self.path.display().to_string()
    }
}

/// What a symbolic link to nothing points to; the path itself where it is no link.
fn dangling(path: &Path) -> PathBuf {
    match fs::read_link(path) {
        Ok(link) => path.parent().map_or_else(|| link.clone(), |folder| folder.join(&link)),
        Err(_) => path.to_path_buf(),
    }
}

fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The name of the hidden file that stands beside `name`: `.NAME` and the suffix. A name too long
/// for that is cut, and gets a hash of the whole. Names are bytes here, whatever they spell: two that
/// differ never share a hidden file.
pub(crate) fn hidden_name(name: &OsStr, suffix: &str) -> OsString {
    let bytes = name.as_bytes();
    let name_bytes_max =
        FILE_NAME_BYTES_MAX.saturating_sub(1 + suffix.len() + 1 + 2 * NAME_HASH_BYTES);
    let mut hidden = vec![b'.'];
    if bytes.len() <= name_bytes_max {
        hidden.extend_from_slice(bytes);
    } else {
        // Longer than any name that is not cut, so that it is none of theirs.
        hidden.extend_from_slice(whole_chars(bytes, name_bytes_max));
        hidden.push(b'-');
        let hash = Digest::of(DigestFunction::Blake3, bytes).hash;
        for byte in hash.iter().take(NAME_HASH_BYTES) {
            hidden.extend_from_slice(format!("{byte:02x}").as_bytes());
        }
    }
    hidden.extend_from_slice(suffix.as_bytes());
    OsString::from_vec(hidden)
}

/// The first `bytes_max` bytes, less what would be half a character of UTF-8: some file systems refuse
/// such names.
fn whole_chars(bytes: &[u8], bytes_max: usize) -> &[u8] {
    let is_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    let back = (0..4).find(|back| !is_inside(bytes_max.saturating_sub(*back))).unwrap_or(0);
    bytes.get(..bytes_max.saturating_sub(back)).unwrap_or(bytes)
}

/// What an error of the file system means for the user.
pub(crate) fn storage_error(operation: Operation, target: &str, error: io::Error) -> Error {
    let (message, hint) = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (
            "no space is left",
            Some("free some space, then run the same command again: it goes on where it stopped"),
        ),
        io::ErrorKind::ReadOnlyFilesystem => ("the file system is read-only", None),
        io::ErrorKind::PermissionDenied => {
            ("the folder may not be written to", Some("choose a folder that you may write to"))
        }
        io::ErrorKind::FileTooLarge => (
            "the file may not be this large",
            Some("raise the limit on the size of files (ulimit -f), or choose another file system"),
        ),
        _ => ("the file system refuses", None),
    };
    let failure = Error::new(ErrorKind::Storage, operation, target, message).caused_by(error);
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_file_is_hidden_beside_the_target() {
        let folder = tempfile::tempdir().unwrap();
        let target = FileTarget::new(&folder.path().join("a.bin")).unwrap();
        assert_eq!(target.part, folder.path().join(".a.bin.tidegate-part"));
    }

    #[test]
    fn folders_and_missing_parents_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_path_buf(), folder.path().join("no/such/file")] {
            assert_eq!(FileTarget::new(&path).unwrap_err().kind(), ErrorKind::Storage);
        }
    }

    #[test]
    fn a_link_is_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::os::unix::fs::symlink("real", &link).unwrap();
        let dangling = FileTarget::new(&link).unwrap();
        assert_eq!(dangling.path, real);
        fs::write(&real, b"x").unwrap();
        assert_eq!(FileTarget::new(&link).unwrap().path, fs::canonicalize(&real).unwrap());
    }

    fn hidden(name: &[u8]) -> Vec<u8> {
        hidden_name(OsStr::from_bytes(name), SUFFIX).into_vec()
    }

    #[test]
    fn long_names_stay_within_the_limit_and_apart() {
        let (one, two) = ("ä".repeat(127), "ä".repeat(126) + "ö");
        assert_ne!(hidden(one.as_bytes()), hidden(two.as_bytes()));
        for len in 0..=FILE_NAME_BYTES_MAX {
            for unit in ["a", "ä", "€", "😀"] {
                let mut name = unit.repeat(len / unit.len());
                name.push_str(&"x".repeat(len - name.len()));
                let hidden = String::from_utf8(hidden(name.as_bytes())).expect("whole characters");
                assert!(hidden.len() <= FILE_NAME_BYTES_MAX, "{len}: {hidden}");
            }
        }
    }

    /// Whether they are of UTF-8, of some other encoding, or of none.
    #[test]
    fn no_two_names_share_a_hidden_file() {
        let mut names: Vec<Vec<u8>> = (0x80..=0xff).map(|byte| vec![b'a', byte]).collect();
        names.push("a\u{fffd}".into());
        for len in 195..=FILE_NAME_BYTES_MAX {
            names.extend([b'x', 0x80, 0xe4].map(|byte| vec![byte; len]));
            names.push([vec![b'x'; len - 1], vec![b'y']].concat());
        }
        // One that spells what another is cut to.
        let cut = hidden(&[b'x'; 255]);
        names.push(cut[1..cut.len() - SUFFIX.len()].to_vec());
        let count = names.len();
        let hidden: std::collections::HashSet<_> = names.iter().map(|name| hidden(name)).collect();
        assert_eq!(hidden.len(), count);
    }
}
