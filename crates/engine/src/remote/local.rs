//! [`LocalFile`]: a local path, opened for reading by its type.
//!
//! Not every path has a length. The system gives no length for a pipe or a terminal. It gives a
//! wrong length for many kernel files: 0 in `/proc`, one page in `/sys`. If a reader accepted the
//! 0, it would deliver an empty blob. So a length is accepted only for a regular file with a byte
//! immediately before that position and none at it. Everything else is a stream: it is read in
//! order, once, until the end. Devices without an end are refused.
//!
//! All calls block or may block; call them off the runtime's threads.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, Operation, Result};

/// Bytes read at once to find out whether there are any.
const PROBE_BYTES: usize = 4096;

/// Interval between two checks for cancellation: too short to be noticed, too long to cost much.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Maximum number of checks of a file that grows during the check.
const LOOKS_MAX: u32 = 4;

/// An opened path.
#[derive(Debug)]
pub(crate) enum LocalFile {
    /// A file with random access and the length that the system reports.
    Regular(File, Metadata),
    Stream(LocalStream),
}

/// Bytes in order, once; only reading finds the end.
#[derive(Debug)]
pub(crate) struct LocalStream {
    file: File,
    /// Bytes that were read already.
    head: Vec<u8>,
}

/// Whether this path is standard input, which is read through its inherited descriptor. If it were
/// opened again, a socket would be refused, and a file would start at its beginning.
fn is_standard_input(path: &Path) -> bool {
    ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].iter().any(|name| path == Path::new(name))
}

/// The name of a path in messages.
pub(crate) fn name(path: &Path) -> String {
    if is_standard_input(path) { "standard input".to_owned() } else { path.display().to_string() }
}

impl LocalFile {
    /// Opens a path that has an end. A pipe without a writer is opened, too: the read waits for a
    /// writer.
    pub(crate) fn open(path: &Path, operation: Operation) -> Result<Self> {
        let failed = |error| failed(&name(path), operation, error);
        if is_standard_input(path) {
            let file = io::stdin().as_fd().try_clone_to_owned().map(File::from).map_err(failed)?;
            return Self::of_input(file, operation);
        }
        let found = std::fs::metadata(path).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.read(true);
        if !found.is_file() || found.len() == 0 {
            // Without this flag a pipe would wait for its writer in `open`, and a kernel log for
            // its next line.
            options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
        }
        check_kind(&name(path), operation, &found)?;
        let file = options.open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        check_kind(&name(path), operation, &metadata)?;
        if !metadata.is_file() {
            check_end(&name(path), operation, &file, &metadata)?;
            return Ok(Self::Stream(LocalStream { file, head: Vec::new() }));
        }
        if metadata.len() > 0 {
            return Self::measured(file, metadata).map_err(failed);
        }
        let mut head = vec![0; PROBE_BYTES];
        match (&file).read(&mut head) {
            Ok(0) => return Ok(Self::Regular(file, metadata)),
            Ok(count) => head.truncate(count),
            Err(error) if is_later(&error) => head.clear(),
            Err(error) => return Err(failed(error)),
        }
        Ok(Self::Stream(LocalStream { file, head }))
    }

    /// Standard input, which other processes may read before and after us.
    fn of_input(file: File, operation: Operation) -> Result<Self> {
        static IS_TAKEN: AtomicBool = AtomicBool::new(false);
        let name = "standard input";
        let failed = |error| failed(name, operation, error);
        let metadata = file.metadata().map_err(failed)?;
        check_kind(name, operation, &metadata)?;
        if metadata.is_file() && seek(&file, SeekFrom::Current(0)) == Ok(0) {
            match Self::measured(file.try_clone().map_err(failed)?, metadata).map_err(failed)? {
                Self::Stream(_) => {}
                regular @ Self::Regular(..) => return Ok(regular),
            }
        } else if !metadata.is_file() {
            check_end(name, operation, &file, &metadata)?;
        }
        // A second reader would get only the rest and take it for everything.
        if IS_TAKEN.swap(true, Ordering::AcqRel) {
            return Err(Error::new(ErrorKind::Unsupported, operation, name, "it was read before"));
        }
        Ok(Self::Stream(LocalStream { file, head: Vec::new() }))
    }

    /// A regular file if its length is correct; otherwise a stream.
    fn measured(file: File, mut metadata: Metadata) -> io::Result<Self> {
        for _ in 0..LOOKS_MAX {
            let len = metadata.len();
            let has_byte = |at: u64| match file.read_at(&mut [0], at) {
                Ok(count) => Ok(count > 0),
                // The read will report any other error.
                Err(error) if error.raw_os_error() != Some(Errno::SPIPE.raw_os_error()) => {
                    Ok(at < len)
                }
                Err(error) => Err(error),
            };
            let is_true = match len.checked_sub(1).map(has_byte) {
                Some(Ok(last)) => last && !has_byte(len).unwrap_or(true),
                Some(Err(_)) => false,
                None => !has_byte(len).unwrap_or(true),
            };
            if is_true {
                return Ok(Self::Regular(file, metadata));
            }
            let now = file.metadata()?;
            if now.len() == len {
                break;
            }
            metadata = now;
        }
        Ok(Self::Stream(LocalStream { file, head: Vec::new() }))
    }
}

impl LocalStream {
    /// Reads the next bytes, and waits for them if there are none yet; 0 at the end. `None` if
    /// `stop` ends the wait.
    pub(crate) fn read(
        &mut self,
        buffer: &mut [u8],
        stop: &CancellationToken,
    ) -> io::Result<Option<usize>> {
        if !self.head.is_empty() {
            let count = self.head.len().min(buffer.len());
            buffer[..count].copy_from_slice(&self.head[..count]);
            self.head.drain(..count);
            return Ok(Some(count));
        }
        while !stop.is_cancelled() {
            // Polls before the first read, too: a pipe without a writer looks as if it had ended.
            let mut waited = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut waited, Some(&LOOK_EVERY)) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            match self.file.read(buffer) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Refuses paths that cannot be a source.
fn check_kind(name: &str, operation: Operation, found: &Metadata) -> Result<()> {
    if found.is_dir() {
        return Err(Error::new(ErrorKind::Invalid, operation, name, "it is a folder")
            .with_hint("name one file; whole folders are not copied yet"));
    }
    if found.file_type().is_block_device() {
        return Err(Error::new(ErrorKind::Invalid, operation, name, "it is a block device")
            .with_hint("read it with a tool for that: dd if=DEVICE | tidegate cp - TARGET"));
    }
    Ok(())
}

/// Refuses devices that may have no end. Among devices that give bytes, only terminals and the null
/// device have an end.
fn check_end(name: &str, operation: Operation, file: &File, found: &Metadata) -> Result<()> {
    let is_null = || std::fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == found.rdev());
    if !found.file_type().is_char_device() || file.is_terminal() || is_null() {
        return Ok(());
    }
    let message = "it is a device, and may have no end";
    Err(Error::new(ErrorKind::Invalid, operation, name, message)
        .with_hint("read a part of it: head -c BYTES DEVICE | tidegate cp - TARGET"))
}

/// Maps a file system error to our error.
pub(crate) fn failed(name: &str, operation: Operation, error: io::Error) -> Error {
    let (kind, message) = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            (ErrorKind::NotFound, "there is no such file")
        }
        io::ErrorKind::PermissionDenied => (ErrorKind::NoAccess, "the file may not be read"),
        _ => (ErrorKind::Storage, "the file cannot be read"),
    };
    let failed = Error::new(kind, operation, name, message).caused_by(error);
    match kind {
        ErrorKind::NotFound => failed.with_hint("check the path"),
        ErrorKind::NoAccess => failed.with_hint("check the file's permissions"),
        _ => failed,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(path: &str) -> Result<Option<Vec<u8>>> {
        let stop = CancellationToken::new();
        match LocalFile::open(Path::new(path), Operation::Read)? {
            LocalFile::Regular(..) => Ok(None),
            LocalFile::Stream(mut stream) => {
                let (mut all, mut buffer) = (Vec::new(), [0; 7]);
                while let Some(count @ 1..) = stream.read(&mut buffer, &stop).unwrap() {
                    all.extend_from_slice(&buffer[..count]);
                }
                Ok(Some(all))
            }
        }
    }

    #[test]
    fn a_length_is_believed_where_it_is_true() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for len in [0, 1, 5000] {
            std::fs::write(&path, vec![7; len]).unwrap();
            assert_eq!(read(path.to_str().unwrap()).unwrap(), None, "{len}");
        }
        // The file has a hole at the end.
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        assert_eq!(read(path.to_str().unwrap()).unwrap(), None);
        for path in ["/proc/version", "/proc/self/cmdline", "/sys/devices/system/cpu/possible"] {
            assert_eq!(read(path).unwrap(), Some(std::fs::read(path).unwrap()), "{path}");
        }
        assert_eq!(read("/dev/null").unwrap(), Some(Vec::new()));
    }

    #[test]
    fn what_has_no_end_is_refused() {
        for path in ["/dev/zero", "/dev/urandom", "/dev/full", "/"] {
            assert_eq!(read(path).unwrap_err().kind(), ErrorKind::Invalid, "{path}");
        }
        assert_eq!(read("/no/such").unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_pipe_ends_when_its_writer_is_gone_and_not_before_it_came() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        let theirs = path.clone();
        let reading = std::thread::spawn(move || read(theirs.to_str().unwrap()));
        let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
        writer.write_all(b"all of it").unwrap();
        drop(writer);
        assert_eq!(reading.join().unwrap().unwrap(), Some(b"all of it".to_vec()));
    }

    #[test]
    fn a_wait_can_be_ended() {
        let (reader, _writer) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        let mut stream = LocalStream { file, head: b"abc".to_vec() };
        let stop = CancellationToken::new();
        let mut buffer = [0; 2];
        assert_eq!(stream.read(&mut buffer, &stop).unwrap(), Some(2));
        assert_eq!(stream.read(&mut buffer, &stop).unwrap(), Some(1));
        let theirs = stop.clone();
        let waiting = std::thread::spawn(move || stream.read(&mut buffer, &theirs).unwrap());
        stop.cancel();
        assert_eq!(waiting.join().unwrap(), None);
    }
}
