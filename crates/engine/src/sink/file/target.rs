//! The name that a file is to get, checked before any request is sent.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Operation, Result};

/// Part files are called `.NAME` and this.
const SUFFIX: &str = ".tidegate-part";

/// File names are at most so long on Linux's file systems, in bytes.
const FILE_NAME_BYTES_MAX: usize = 255;

/// A target file and the part file beside it.
#[derive(Clone, Debug)]
pub(crate) struct FileTarget {
    /// The name that the finished file gets; symbolic links are followed to it.
    pub(crate) path: PathBuf,
    /// The hidden file that is written until then, in the same folder.
    pub(crate) part: PathBuf,
    /// What the target allows today, to be kept.
    pub(crate) permissions: Option<Permissions>,
}

impl FileTarget {
    /// Looks at what is there. Fails where the target is a folder or a special file, or its
    /// folder is missing.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let refuse = |message: &str| {
            Error::new(ErrorKind::Storage, Operation::Write, path.display().to_string(), message)
        };
        let path_text = path.as_os_str().to_string_lossy();
        if path_text.is_empty() || path_text.ends_with('/') && !path.is_dir() {
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
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let part = folder.join(hidden_name(&name.unwrap_or_default(), SUFFIX));
        Ok(Self { path, part, permissions: existing.map(|found| found.permissions()) })
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
/// for that is cut, and gets a checksum of the whole.
pub(crate) fn hidden_name(name: &str, suffix: &str) -> String {
    // A dot before, and a checksum of nine bytes behind.
    let name_bytes_max = FILE_NAME_BYTES_MAX - suffix.len() - 1 - 9;
    if name.len() <= name_bytes_max {
        return format!(".{name}{suffix}");
    }
    // Two long names that begin alike must not share a file.
    let crc = tidegate_core::checksum::Crc::of(
        tidegate_core::checksum::CrcAlgorithm::Crc32c,
        name.as_bytes(),
    );
    let cut = name.floor_char_boundary(name_bytes_max);
    format!(".{}-{:08x}{suffix}", &name[..cut], crc.value())
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
        io::ErrorKind::FileTooLarge => ("the file system does not take files this large", None),
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

    #[test]
    fn long_names_stay_within_the_limit_and_apart() {
        let (one, two) = ("ä".repeat(127), "ä".repeat(126) + "ö");
        assert!(hidden_name(&one, SUFFIX).len() <= 255);
        assert_ne!(hidden_name(&one, SUFFIX), hidden_name(&two, SUFFIX));
    }
}
