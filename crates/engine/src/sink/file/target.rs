//! The path of the finished file, checked before any request is sent.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::sticky;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::names::{hidden_name, is_reserved};

/// A part file is named `.NAME` with this suffix.
const SUFFIX: &str = ".tidegate-part";

/// The longest chain of links to a missing file that is followed: the same number that Linux
/// follows to an existing file.
const LINKS_MAX: usize = 40;

/// A target file and the part file next to it.
#[derive(Clone, Debug)]
pub(crate) struct FileTarget {
    /// The name that the finished file gets; symbolic links are followed to it.
    pub(crate) path: PathBuf,
    /// The hidden file that is written until then, in the same folder.
    pub(crate) part: PathBuf,
}

impl FileTarget {
    /// Checks the target. Fails if it is a folder or a special file, or if its folder is missing.
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
            None => dangling(path).map_err(|e| refuse("it cannot be found").caused_by(e))?,
        };
        let name = path.file_name().unwrap_or_default();
        if is_reserved(name) {
            return Err(reserved(&path.display().to_string()));
        }
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
            Ok(Some(found)) if found.is_dir() => {
                sticky::check(&path, existing.as_ref(), &found)?;
            }
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

/// The last name of a chain of symbolic links that ends at a missing file: the name that opening
/// the path would create. Returns the path itself if it is no link.
fn dangling(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(link) => path = path.parent().map_or_else(|| link.clone(), |at| at.join(&link)),
            // Not a link: no file has the name.
            Err(_) => return Ok(path),
        }
    }
    // The system refuses longer chains, and loops, before this is reached. Another process may have
    // created one since.
    Err(io::Error::from(rustix::io::Errno::LOOP))
}

fn reserved(shown: &str) -> Error {
    Error::new(ErrorKind::Invalid, Operation::Write, shown, "the name is reserved for part files")
        .with_hint("choose a name without `.tidegate-` in it")
}

fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Explains an error of the file system to the user.
pub(crate) fn storage_error(operation: Operation, target: &str, error: io::Error) -> Error {
    let (message, hint) = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (
            "no space is left",
            // Whether the next run resumes is not known here.
            Some("free some space, then run the same command again"),
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

    /// The last name is created, and no link of the chain is replaced.
    #[test]
    fn the_last_name_of_a_chain_of_links_is_the_target() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        symlink("two", at("one")).unwrap();
        symlink("sub/three", at("two")).unwrap();
        symlink(folder.path().join("last"), at("sub/three")).unwrap();
        for name in ["one", "two", "sub/three", "last"] {
            assert_eq!(FileTarget::new(&at(name)).unwrap().path, at("last"), "{name}");
        }
    }

    #[test]
    fn a_loop_of_links_and_a_chain_without_end_are_refused() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("b", at("a")).unwrap();
        symlink("a", at("b")).unwrap();
        symlink("self", at("self")).unwrap();
        for index in 0..60 {
            symlink(format!("link{}", index + 1), at(&format!("link{index}"))).unwrap();
        }
        for name in ["a", "self", "link0"] {
            let error = FileTarget::new(&at(name)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Storage, "{name}: {error:?}");
        }
        assert_eq!(FileTarget::new(&at("link30")).unwrap().path, at("link60"));
        assert!(dangling(&at("a")).is_err(), "and not by luck of an earlier look");
    }

    #[test]
    fn names_of_our_own_files_are_no_targets() {
        let folder = tempfile::tempdir().unwrap();
        for name in [".foo.tidegate-part", ".foo.tidegate-chunks", ".FOO.Tidegate-Part"] {
            let error = FileTarget::new(&folder.path().join(name)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name}");
        }
        std::os::unix::fs::symlink(".foo.tidegate-part", folder.path().join("link")).unwrap();
        assert!(FileTarget::new(&folder.path().join("link")).is_err(), "nor through a link");
        for name in ["foo.tidegate-part", ".foo.tidegate", "tidegate-part", ".tidegate-part"] {
            assert!(FileTarget::new(&folder.path().join(name)).is_ok(), "{name}");
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
}
