//! A file's access control list (POSIX.1e draft 17), as the bytes that Linux stores. They are
//! copied from one file to another and never parsed.

/// The list of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Acl {
    /// There is only the mode.
    None,
    List(Vec<u8>),
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    use rustix::fs::XattrFlags;
    use rustix::io::Errno;

    use super::Acl;

    const NAME: &str = "system.posix_acl_access";

    /// The longest extended attribute that Linux takes.
    const BYTES_MAX: usize = 64 << 10;

    pub(crate) fn of_path(path: &Path) -> Option<Acl> {
        found(|buffer| rustix::fs::getxattr(path, NAME, buffer))
    }

    pub(crate) fn of_file(file: &File) -> Option<Acl> {
        found(|buffer| rustix::fs::fgetxattr(file, NAME, buffer))
    }

    fn found(get: impl FnOnce(&mut [u8]) -> Result<usize, Errno>) -> Option<Acl> {
        let mut bytes = vec![0; BYTES_MAX];
        match get(&mut bytes) {
            Ok(len) => {
                bytes.truncate(len);
                Some(Acl::List(bytes))
            }
            Err(Errno::NODATA) => Some(Acl::None),
            // A file system without lists.
            Err(_) => None,
        }
    }

    pub(crate) fn set(file: &File, list: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::fsetxattr(file, NAME, list, XattrFlags::empty())?)
    }

    pub(crate) fn remove(file: &File) -> io::Result<()> {
        match rustix::fs::fremovexattr(file, NAME) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Other systems store their lists in another way.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    use super::Acl;

    pub(crate) fn of_path(_path: &Path) -> Option<Acl> {
        None
    }

    pub(crate) fn of_file(_file: &File) -> Option<Acl> {
        None
    }

    pub(crate) fn set(_file: &File, _list: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn remove(_file: &File) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{of_file, of_path, remove, set};
#[cfg(target_os = "linux")]
pub(super) use linux::{of_file, of_path, remove, set};
