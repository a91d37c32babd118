//! [`UploadJournal`]: what an upload of a file has stored, so that the next run goes on with it.
//!
//! It is a file in `uploads` of the state folder. Its name is a keyed hash of source and target, so
//! that it tells neither. Only the user can read it: the address of a session of Google is a secret.
//! The first line describes the upload, each further line one part. A last line that a crash cut
//! is ignored.
//!
//! The journal is a hint. The remote's list of parts decides which parts are stored; the journal
//! saves reading them again. A journal that cannot be written costs only the resume.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Crc};

use super::file::UploadFile;
use super::units::Done;
use super::{Transfer, hex};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::offload::offload;
use crate::remote::{Upload, Version};
use crate::sink::file::user_key::UserKey;

/// The form of the file.
const FORM: u32 = 1;

/// Separates the names of journals from other uses of the user's key.
const DOMAIN: &str = "tidegate upload journal";

/// Only the owner reads and writes it.
const PRIVATE: u32 = 0o600;

/// 10,000 lines of parts take about 1 MiB.
const BYTES_MAX: u64 = 16 << 20;

/// See the module docs. It is locked until it is dropped.
#[derive(Clone, Debug)]
pub(super) struct UploadJournal {
    path: PathBuf,
    file: Arc<File>,
    stamp: Version,
}

/// What an earlier run has recorded.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) upload: Upload,
    pub(super) part_bytes: u64,
    pub(super) len: u64,
    pub(super) stamp: Version,
    pub(super) parts: BTreeMap<u32, RecordedPart>,
}

/// A part that an earlier run has stored.
#[derive(Clone, Debug)]
pub(super) struct RecordedPart {
    pub(super) crc: Checksum,
    pub(super) tag: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    form: u32,
    upload: Upload,
    part_bytes: u64,
    len: u64,
    stamp: Version,
}

#[derive(Serialize, Deserialize)]
struct Line {
    part: u32,
    algorithm: String,
    crc: String,
    tag: Option<String>,
}

impl UploadJournal {
    /// Opens the journal for this file and target. `None` if there is no state folder, or if it
    /// cannot be used. Fails if another process uploads the same file to the same target.
    pub(super) async fn open(
        transfer: &Transfer,
        file: &UploadFile,
    ) -> Result<Option<(Self, Option<Recorded>)>> {
        let target = transfer.target.display().to_owned();
        let Some(selection) = transfer.target.selection() else { return Ok(None) };
        let state = transfer.options.state.clone();
        let source = std::path::absolute(file.path()).unwrap_or_else(|_| file.path().to_owned());
        let (stamp, name) = (file.stamp().clone(), target.clone());
        offload(Operation::Upload, &target, move || {
            let Some(folder) = state.path() else { return Ok(None) };
            let Ok(key) = UserKey::load(&state) else { return Ok(None) };
            let mut identity = selection.all();
            identity.extend_from_slice(source.as_os_str().as_encoded_bytes());
            let tag = key.tag(DOMAIN, &identity);
            let path = folder.join("uploads").join(hex(&tag));
            match Self::locked(path, stamp) {
                Ok(Some(journal)) => {
                    let recorded = journal.recorded();
                    Ok(Some((journal, recorded)))
                }
                Ok(None) => {
                    let message = "another process uploads this file to this target";
                    Err(Error::new(ErrorKind::AlreadyExists, Operation::Upload, name, message)
                        .with_hint("wait for its end, then run the same command again"))
                }
                Err(error) => {
                    tracing::warn!(%error, "no journal: this upload cannot be resumed");
                    Ok(None)
                }
            }
        })
        .await
    }

    /// Opens and locks the file; `None` if another process has it.
    fn locked(path: PathBuf, stamp: Version) -> io::Result<Option<Self>> {
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        loop {
            let mut options = OpenOptions::new();
            // A link would lead to a file that is no journal.
            let flags = OFlags::NOFOLLOW.bits().cast_signed();
            options.read(true).append(true).create(true).mode(PRIVATE).custom_flags(flags);
            let file = options.open(&path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            // Its owner may have removed it between the opening and the lock.
            let metadata = file.metadata()?;
            if metadata.nlink() > 0 {
                // It may have come from a backup.
                if metadata.mode() & 0o077 != 0 {
                    file.set_permissions(Permissions::from_mode(PRIVATE))?;
                }
                return Ok(Some(Self { path, file: Arc::new(file), stamp }));
            }
        }
    }

    /// What is recorded; `None` if nothing is, or if it is not in our form.
    fn recorded(&self) -> Option<Recorded> {
        let mut text = String::new();
        (&*self.file).take(BYTES_MAX).read_to_string(&mut text).ok()?;
        // The next line must not go on with one that a crash has cut.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            self.file.set_len(u64::try_from(whole).ok()?).ok()?;
        }
        Recorded::read(&text)
    }

    /// Records a new upload in place of an earlier one.
    pub(super) async fn begin(&self, upload: &Upload, part_bytes: u64, len: u64) {
        let (upload, stamp) = (upload.clone(), self.stamp.clone());
        let head = Head { form: FORM, upload, part_bytes, len, stamp };
        let file = Arc::clone(&self.file);
        let write = move || {
            file.set_len(0)?;
            append(&file, &head)
        };
        warned(write).await;
    }

    /// Records a stored part.
    pub(super) async fn record(&self, done: &Done) {
        let line = Line {
            part: done.stored.number.get(),
            algorithm: done.crc.algorithm().algorithm().name().to_owned(),
            crc: done.crc.to_checksum().to_base64(),
            tag: done.stored.tag.clone(),
        };
        let file = Arc::clone(&self.file);
        warned(move || append(&file, &line)).await;
    }

    /// Removes it: the upload has ended.
    pub(super) async fn remove(&self) {
        let path = self.path.clone();
        warned(move || fs::remove_file(path)).await;
    }
}

/// One write, so that a crash cuts at most the last line.
fn append(file: &File, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    (&*file).write_all(&text)
}

async fn warned(work: impl FnOnce() -> io::Result<()> + Send + 'static) {
    let outcome = tokio::task::spawn_blocking(work).await;
    if let Ok(Err(error)) = outcome {
        tracing::warn!(%error, "the journal of the upload cannot be written");
    }
}

impl Recorded {
    /// Reads the text of a journal; `None` if it is not in our form.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let head: Head = serde_json::from_str(lines.next()?).ok()?;
        if head.form != FORM {
            return None;
        }
        let parts = lines.map_while(|line| {
            let line: Line = serde_json::from_str(line).ok()?;
            let algorithm = [ChecksumAlgorithm::Crc64Nvme, ChecksumAlgorithm::Crc32c]
                .into_iter()
                .find(|algorithm| algorithm.name() == line.algorithm)?;
            let crc = Checksum::from_base64(algorithm, &line.crc).ok()?;
            Some((line.part, RecordedPart { crc, tag: line.tag }))
        });
        let parts = parts.collect();
        let Head { upload, part_bytes, len, stamp, .. } = head;
        Some(Self { upload, part_bytes, len, stamp, parts })
    }
}

impl RecordedPart {
    /// The CRC of a part of `len` bytes.
    pub(super) fn crc(&self, len: u64) -> Option<Crc> {
        Crc::from_checksum(&self.crc, len)
    }
}

#[cfg(test)]
mod tests;
