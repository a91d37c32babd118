//! [`UploadFolder`]: an upload in parts to a local file, as a hidden folder next to the target.
//!
//! | entry | content |
//! |---|---|
//! | `data` | the bytes received so far; each part is written in place |
//! | `part-N` | part N is in `data`: its offset, length and CRC32C, as JSON |
//! | `name` | the target's own name, as the folder's name may have cut it |
//!
//! Parts are in place, so completing copies nothing. It reads `data` once, verifies every part and
//! the whole, and renames `data`.
//!
//! Invariants:
//!
//! - A record is written after its bytes, and removed before they are written again. So every
//!   record is true after `kill -9`.
//! - The writer of a part holds a shared lock on `data`; completing holds an exclusive lock. So no
//!   byte changes between verifying and renaming, nor after it.
//!
//! All calls block.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tidegate_core::checksum::{Coverage, Crc, CrcAlgorithm, StoredChecksum};
use tidegate_core::retry::RetryClass;
use tokio_util::sync::CancellationToken;

use super::parts::{FilePart, UploadData};
use super::staged::{Place, STAGED_SUFFIX, create_private, hidden_from, unique};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::write::{
    CompleteRequest, PartNumber, StoredPart, Upload, UploadId, WriteOptions, Written,
};
use crate::sink::file::Durability;
use crate::sink::file::target::storage_error;

/// Upload folders are named `.NAME`, then this suffix, then 32 hexadecimal digits.
pub(super) const UPLOAD_SUFFIX: &str = ".tidegate-upload-";

/// Maximum number of parts of one upload: more than any network remote takes, and about 10 MiB of
/// records in memory.
pub(super) const PARTS_MAX: u32 = 100_000;

/// Only the owner has access.
const PRIVATE_FOLDER_MODE: u32 = 0o700;

/// The records are small; a longer file is not one of ours.
const RECORD_BYTES_MAX: u64 = 4096;

/// Completing waits this long for parts whose callers were dropped: at that time a batch of 1 MiB
/// can still be in flight.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(5);

/// Delay between two attempts to lock.
const LOCK_WAIT: Duration = Duration::from_millis(10);

/// A part may be recorded while the folder is being removed; then the removal is retried.
const REMOVALS_MAX: u32 = 4;

const DATA: &str = "data";
const NAME: &str = "name";
const RECORD_PREFIX: &str = "part-";

/// The content of a `part-N`.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    offset: u64,
    len_bytes: u64,
    crc32c: u32,
}

/// An upload that was started.
#[derive(Debug)]
pub(super) struct UploadFolder {
    path: PathBuf,
    /// The blob's name, for errors.
    blob: String,
}

impl UploadFolder {
    /// Creates the folder of a new upload.
    pub(super) fn create(blob: &str, options: &WriteOptions) -> Result<Upload> {
        let failed = |error| storage_error(Operation::Write, blob, error);
        let place = Place::prepare(blob, &options.precondition)?;
        let path = place.beside(UPLOAD_SUFFIX)?;
        let Some(id) = path.to_str() else {
            let message = "its folder's path is not UTF-8, so an upload there cannot be named";
            return Err(Error::new(ErrorKind::Unsupported, Operation::Write, blob, message));
        };
        DirBuilder::new().mode(PRIVATE_FOLDER_MODE).create(&path).map_err(failed)?;
        let name = place.name().as_os_str().as_encoded_bytes();
        let made = fs::write(path.join(NAME), name)
            .and_then(|()| create_private(&path.join(DATA)).map(drop));
        if let Err(error) = made {
            let _ = fs::remove_dir_all(&path);
            return Err(failed(error));
        }
        Ok(Upload::new(blob, UploadId::new(id), options))
    }

    /// Opens the folder of an upload; `NotFound` if it is gone.
    pub(super) fn open(upload: &Upload) -> Result<Self> {
        let (path, blob) = (path_of(upload, &[UPLOAD_SUFFIX])?, upload.blob.clone());
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => Ok(Self { path, blob }),
            _ => Err(unknown(&blob)),
        }
    }

    fn failed(&self, error: io::Error) -> Error {
        match error.kind() {
            // Completed or aborted in the meantime.
            io::ErrorKind::NotFound => unknown(&self.blob),
            _ => storage_error(Operation::Write, &self.blob, error),
        }
    }

    fn record_path(&self, number: u32) -> PathBuf {
        self.path.join(format!("{RECORD_PREFIX}{number}"))
    }

    /// Opens and locks `data`, and checks that the name still leads to the locked file.
    fn lock(&self, operation: FlockOperation) -> Result<File> {
        let path = self.path.join(DATA);
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).custom_flags(flags).open(&path);
        let file = file.map_err(|error| self.failed(error))?;
        let began = Instant::now();
        loop {
            match rustix::fs::flock(&file, operation) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if began.elapsed() < LOCK_WAIT_MAX => {
                    std::thread::sleep(LOCK_WAIT);
                }
                Err(Errno::WOULDBLOCK) => return Err(busy(&self.blob)),
                // A file system without locks: the caller guarantees that no part is in flight.
                Err(error) => {
                    tracing::debug!(%error, "an upload's data cannot be locked");
                    break;
                }
            }
        }
        let (named, open) = (fs::symlink_metadata(&path), file.metadata());
        match (named, open) {
            (Ok(named), Ok(open)) if (named.dev(), named.ino()) == (open.dev(), open.ino()) => {
                Ok(file)
            }
            // Another caller renamed it to the target before this caller got the lock.
            _ => Err(unknown(&self.blob)),
        }
    }

    /// Opens `data` for writing one part; the part is not stored until it is recorded.
    pub(super) fn begin_part(&self, number: PartNumber) -> Result<File> {
        if number.get() > PARTS_MAX {
            let message = format!("part {number} is beyond the last one, {PARTS_MAX}");
            return Err(invalid(&self.blob, message));
        }
        let data = self.lock(FlockOperation::NonBlockingLockShared)?;
        match fs::remove_file(self.record_path(number.get())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(error)),
            _ => Ok(data),
        }
    }

    /// Records a part whose bytes are in `data`.
    pub(super) fn record(
        &self,
        number: PartNumber,
        offset: u64,
        crc: &Crc,
        data: &File,
        durability: Durability,
    ) -> Result<StoredPart> {
        let failed = |error| self.failed(error);
        if durability != Durability::None {
            data.sync_data().map_err(failed)?;
        }
        let crc32c = u32::try_from(crc.value()).unwrap_or_default();
        let record = Record { offset, len_bytes: crc.len(), crc32c };
        let text = serde_json::to_vec(&record).map_err(|error| failed(error.into()))?;
        let path = self.record_path(number.get());
        let fresh = self.path.join(format!("new-{}", unique().map_err(failed)?));
        fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &path)).map_err(failed)?;
        Ok(record.stored(number))
    }

    /// The parts that are recorded, by number.
    pub(super) fn parts(&self) -> Result<Vec<StoredPart>> {
        let mut parts = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(|error| self.failed(error))? {
            let name = entry.map_err(|error| self.failed(error))?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(RECORD_PREFIX));
            let Some(number) = number.and_then(|number| number.parse().ok()) else { continue };
            if let (Some(number), Some(record)) = (PartNumber::new(number), self.read(number)?) {
                parts.push(record.stored(number));
            }
        }
        parts.sort_by_key(|part| part.number);
        Ok(parts)
    }

    /// The record of a part; `None` if there is none, or if it is not one of ours.
    fn read(&self, number: u32) -> Result<Option<Record>> {
        let path = self.record_path(number);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() && found.len() <= RECORD_BYTES_MAX => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(self.failed(error));
            }
            _ => return Ok(None),
        }
        match fs::read(&path) {
            Ok(text) => Ok(serde_json::from_slice(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// The parts of the blob, in order, if the records and the request agree on them.
    fn agreed(&self, request: &CompleteRequest) -> Result<Vec<FilePart>> {
        let mut parts: Vec<FilePart> = Vec::with_capacity(request.parts.len());
        let mut end: u64 = 0;
        for asked in &request.parts {
            let number = asked.number;
            let refuse = |what: &str| Err(invalid(&self.blob, format!("part {number} {what}")));
            if parts.last().is_some_and(|last| last.number >= number) {
                return refuse("is not in order");
            }
            let Some(record) = self.read(number.get())? else { return refuse("is not stored") };
            if record.len_bytes != asked.len_bytes || record.offset != end {
                return refuse("does not begin where the part before it ends");
            }
            let crc = record.crc();
            if let Some(checksum) = &asked.checksum {
                super::receive::compare(checksum, &crc.to_checksum(), &self.blob)?;
            }
            end = end.saturating_add(record.len_bytes);
            parts.push(FilePart { number, crc });
        }
        if request.last.is_some() || end != request.len_bytes {
            let message = format!("expected {} bytes, the parts have {end}", request.len_bytes);
            return Err(invalid(&self.blob, message));
        }
        Ok(parts)
    }

    /// Verifies all parts and the whole, and gives `data` the target's name.
    pub(super) fn complete(
        &self,
        upload: &Upload,
        request: &CompleteRequest,
        stop: &CancellationToken,
    ) -> Result<Written> {
        let WriteOptions { precondition, durability, .. } = &upload.options;
        let place = Place::prepare(&self.blob, precondition)?;
        let data = self.lock(FlockOperation::NonBlockingLockExclusive)?;
        let parts = self.agreed(request)?;
        UploadData { data: &data, blob: &self.blob, stop }
            .verify(&parts, request.checksum.as_ref())?;
        data.set_len(request.len_bytes).map_err(|error| self.failed(error))?;
        let mut written = place.commit(&data, &self.path.join(DATA), precondition, *durability)?;
        // The blob is complete, even if removing the records fails.
        if let Err(error) = Self::remove(upload) {
            tracing::warn!(%error, "the folder of a completed upload stays behind");
        }
        written.checksums.extend(
            request
                .checksum
                .clone()
                .map(|checksum| StoredChecksum { checksum, coverage: Coverage::FullObject }),
        );
        Ok(written)
    }

    /// Removes an upload's folder, or a staged file that a killed process has left. Afterwards the
    /// path is free.
    pub(super) fn remove(upload: &Upload) -> Result<()> {
        let path = path_of(upload, &[UPLOAD_SUFFIX, STAGED_SUFFIX])?;
        let mut last = None;
        for _ in 0..REMOVALS_MAX {
            let removed = match fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
                Ok(_) => fs::remove_file(&path),
                Err(error) => Err(error),
            };
            match removed {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => last = Some(error),
            }
        }
        let error = last.unwrap_or_else(|| io::ErrorKind::Other.into());
        Err(storage_error(Operation::Delete, &upload.blob, error))
    }
}

impl Record {
    fn crc(&self) -> Crc {
        Crc::from_value(CrcAlgorithm::Crc32c, u64::from(self.crc32c), self.len_bytes)
    }

    fn stored(&self, number: PartNumber) -> StoredPart {
        let mut part = StoredPart::new(number, self.len_bytes);
        part.checksum = Some(self.crc().to_checksum());
        part
    }
}

/// Reads the name of the target whose upload is in `folder`; `None` if the upload was interrupted
/// before it wrote the name.
pub(super) fn name_in(folder: &Path) -> Option<String> {
    let path = folder.join(NAME);
    let found = fs::symlink_metadata(&path).ok()?;
    let is_ours = found.is_file() && (1..=RECORD_BYTES_MAX).contains(&found.len());
    is_ours.then(|| fs::read_to_string(&path).ok()).flatten()
}

/// The path that an upload's id names. An id comes from a journal, so it is accepted only if it
/// names a hidden path of ours.
fn path_of(upload: &Upload, suffixes: &[&str]) -> Result<PathBuf> {
    let path = PathBuf::from(upload.id.as_str());
    let name = path.file_name().map_or(Path::new(""), Path::new);
    if suffixes.iter().any(|suffix| hidden_from(name, suffix).is_some()) {
        return Ok(path);
    }
    Err(invalid(&upload.blob, "the id of the upload is not one of a local file".to_owned()))
}

fn unknown(blob: &str) -> Error {
    let message = "the upload is not there: it was completed or aborted";
    Error::new(ErrorKind::NotFound, Operation::Write, blob, message)
        .with_hint("begin the upload anew")
}

fn busy(blob: &str) -> Error {
    let message = "a part of the upload is still being written";
    Error::new(ErrorKind::Storage, Operation::Commit, blob, message)
        .retryable(RetryClass::Now)
        .with_hint("complete the upload after the last part has ended")
}

fn invalid(blob: &str, message: String) -> Error {
    Error::new(ErrorKind::Invalid, Operation::Write, blob, message)
}
