//! The demo's folder: a file of pseudo-random bytes to serve, and space for the fetched copy.
//! Dropping the [`Stage`] removes it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidegate::{Error, ErrorKind, Operation, Result};
use tidegate_testkit::{Blob, fill};
use tokio_util::sync::CancellationToken;

use crate::session::Session;
use crate::size;

const MIB: u64 = 1 << 20;
/// Five seconds for one stream: long enough for a measurable rate, short enough to wait for.
const BYTES: u64 = 512 * MIB;
/// A smaller file would be fetched before the rates mean anything.
const BYTES_MIN: u64 = 64 * MIB;
/// Time limit for creating the file. A slower machine gets a smaller file, because it will not be
/// faster at fetching it.
const MAKING_MAX: Duration = Duration::from_secs(2);
/// Disk space that stays free.
const SPARE_BYTES: u64 = 64 * MIB;
/// Generated and written at a time.
const CHUNK_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Stage {
    folder: TempDir,
    pub(super) bytes: u64,
}

impl Stage {
    /// Makes the folder and the file in it.
    pub(super) async fn set(session: &Session, size: Option<u64>, seed: u64) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("tidegate-demo-")
            .tempdir()
            .map_err(|error| failed(&std::env::temp_dir(), "no folder can be made in it", error))?;
        let room = room(folder.path())?;
        let wanted = size.unwrap_or_else(|| BYTES.min(room).max(BYTES_MIN));
        if wanted > room {
            let (wanted, room) = (size::human(wanted), size::human(room));
            let message = format!("{wanted} are needed twice, and there is room for {room}");
            return Err(storage(folder.path(), &message)
                .with_hint("set TMPDIR to a folder with more room, or pass a smaller --size"));
        }
        session.say(&format!("writing a file of up to {} ...", size::human(wanted)));
        let file = source(folder.path());
        let work = Making {
            file,
            bytes: wanted,
            seed,
            patience: size.is_none().then_some(MAKING_MAX),
            cancel: session.cancel.clone(),
        };
        let made = tokio::task::spawn_blocking(move || work.run()).await;
        let bytes = made.unwrap_or_else(|_panicked| Err(cancelled()))?;
        Ok(Self { folder, bytes })
    }

    /// The file as a blob.
    pub(super) fn blob(&self) -> Result<Blob> {
        let path = source(self.folder.path());
        let blob = Blob::from_file(&path);
        Ok(blob.map_err(|error| failed(&path, "it cannot be read", error))?.without_md5())
    }

    /// The file.
    pub(super) fn file(&self) -> PathBuf {
        source(self.folder.path())
    }

    /// A path beside the file.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The path of the copy.
    pub(super) fn target(&self) -> PathBuf {
        self.folder.path().join("fetched")
    }

    /// The folder for what processes of the demo keep from run to run.
    pub(super) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Removes the copy.
    pub(super) fn clear(&self) {
        // If this fails, the file is removed with the folder.
        let _ = fs::remove_file(self.target());
    }
}

fn source(folder: &Path) -> PathBuf {
    folder.join("blob")
}

/// The largest size of a file that fits on the disk twice.
fn room(folder: &Path) -> Result<u64> {
    let disk = rustix::fs::statvfs(folder)
        .map_err(|error| failed(folder, "its free space cannot be read", error.into()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    Ok(free.saturating_sub(SPARE_BYTES) / 2)
}

/// The file to create; runs on a thread that may block.
struct Making {
    file: PathBuf,
    bytes: u64,
    seed: u64,
    /// Stops early after this long.
    patience: Option<Duration>,
    cancel: CancellationToken,
}

impl Making {
    /// Returns the number of bytes written: all, or as many as the time limit allowed.
    fn run(&self) -> Result<u64> {
        let unwritable = |error| failed(&self.file, "it cannot be written", error);
        let mut file = File::create_new(&self.file).map_err(unwritable)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let (start, mut written) = (Instant::now(), 0);
        while written < self.bytes {
            if self.cancel.is_cancelled() {
                return Err(cancelled());
            }
            let late = self.patience.is_some_and(|patience| start.elapsed() > patience);
            if late && written >= BYTES_MIN.min(self.bytes) {
                break;
            }
            let len = usize::try_from(self.bytes - written).unwrap_or(usize::MAX).min(CHUNK_BYTES);
            let chunk = &mut chunk[..len];
            fill(chunk, self.seed, written);
            file.write_all(chunk).map_err(unwritable)?;
            written += len as u64;
        }
        Ok(written)
    }
}

pub(super) fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, Operation::Write, "the demo's file", "it was cancelled")
        .with_hint("all files of the demo are removed")
}

fn storage(path: &Path, message: &str) -> Error {
    Error::new(ErrorKind::Storage, Operation::Write, path.display().to_string(), message)
}

fn failed(path: &Path, message: &str, error: std::io::Error) -> Error {
    storage(path, message).caused_by(error)
}
