//! [`LocalFile`]: a local path, opened to be read as what it is.
//!
//! Not everything that has a path has a length. The system tells none of a pipe or a terminal, and a
//! wrong one of many files of the kernel: 0 of those in `/proc`, a page of those in `/sys`. What is
//! believed to be 0 bytes long would be an empty blob. So a length is believed only of a regular file
//! that has a byte right before it and none behind; everything else is a stream: read in order, once,
//! to the end that is found there. Devices without an end are refused.
//!
//! All of it blocks, or may; call it off the runtime's threads.

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

/// Read at once to see whether there is anything.
const PROBE_BYTES: usize = 4096;

/// Between two looks whether a wait is still wanted: too short to be noticed, too long to cost much.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A file that grows while it is looked at is looked at again so often.
const LOOKS_MAX: u32 = 4;

/// What was opened.
#[derive(Debug)]
pub(crate) enum LocalFile {
    /// Its bytes are at positions, as many as the system says.
    Regular(File, Metadata),
    Stream(LocalStream),
}

/// Bytes in order, once, to an end that only reading finds.
#[derive(Debug)]
pub(crate) struct LocalStream {
    file: File,
    /// What was read already.
    head: Vec<u8>,
}

/// Whether this path is standard input, which is read as it was given: opened anew, a socket would be
/// refused, and a file would begin at its beginning.
fn is_standard_input(path: &Path) -> bool {
    ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].iter().any(|name| path == Path::new(name))
}

/// What people are told that a path is.
pub(crate) fn name(path: &Path) -> String {
    if is_standard_input(path) { "standard input".to_owned() } else { path.display().to_string() }
}

impl LocalFile {
    /// Opens what can be read to an end. A pipe that has no writer yet is opened, too: reading it
    /// waits for one.
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
            // A pipe would wait for its writer in `open`, and a log of the kernel for its next line.
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

    /// Standard input, which others may read before us and behind us.
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
        // A second reader would take what the first has left for all that there is.
        if IS_TAKEN.swap(true, Ordering::AcqRel) {
            return Err(Error::new(ErrorKind::Unsupported, operation, name, "it was read before"));
        }
        Ok(Self::Stream(LocalStream { file, head: Vec::new() }))
    }

    /// A regular file whose length is true; else a stream.
    fn measured(file: File, mut metadata: Metadata) -> io::Result<Self> {
        for _ in 0..LOOKS_MAX {
            let len = metadata.len();
            let has_byte = |at: u64| match file.read_at(&mut [0], at) {
                Ok(count) => Ok(count > 0),
                // Whatever else is wrong, reading it will tell.
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
    /// Reads what there is next, and waits for it where nothing is there yet; 0 at the end. `None`
    /// where `stop` ends the wait.
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
            // Asked before the first read, too: a pipe whose writer has not come yet looks ended.
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

/// Refuses what is no source at all.
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

/// Refuses devices that may have no end: of those that give bytes, only terminals have one, and the
/// null device.
fn check_end(name: &str, operation: Operation, file: &File, found: &Metadata) -> Result<()> {
    let is_null = || std::fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == found.rdev());
    if !found.file_type().is_char_device() || file.is_terminal() || is_null() {
        return Ok(());
    }
    let message = "it is a device, and may have no end";
    Err(Error::new(ErrorKind::Invalid, operation, name, message)
        .with_hint("read a part of it: head -c BYTES DEVICE | tidegate cp - TARGET"))
}

/// What an error of the file system means.
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
        // With a hole at the end.
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
