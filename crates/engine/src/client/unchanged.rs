//! [`Client::unchanged`]: whether a local file is already the blob.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Checksummer, StoredChecksum};
use tokio_util::sync::CancellationToken;

use super::{Client, Comparison};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::offload::offload;
use crate::remote::{BlobInfo, Location};
use crate::sink::file::{StateFolder, provenance};

/// One read.
const READ_BYTES: usize = 256 << 10;

/// Why a local file is the blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unchanged {
    /// It was downloaded from this version, and neither has changed since then.
    Version,
    /// Its bytes match this checksum of the remote.
    Checksum(ChecksumAlgorithm),
}

impl Client {
    /// Asks whether the file at `path` already is the blob; `None` if it is not, or that is not
    /// known. Sends one request, and does not fetch the blob.
    ///
    /// A download writes the blob's version into a user attribute of its target
    /// (`user.tidegate.copy`), together with the file's length and times. If that is missing or no
    /// longer applies, the file is read and compared with a checksum of the remote. If there is no
    /// such checksum, the result is `None`.
    ///
    /// # Errors
    ///
    /// The remote's error, as in [`Self::stat`]; `Cancelled`. A file that cannot be read is not the
    /// blob.
    pub async fn unchanged(
        &self,
        blob: &Location,
        path: impl AsRef<Path>,
        cancel: &CancellationToken,
    ) -> Result<Option<Unchanged>> {
        let path = path.as_ref().to_path_buf();
        let info = self.stat(blob).cancel(cancel.clone()).await?;
        let (location, state) = (blob.clone(), self.0.state.clone());
        let stop = cancel.child_token();
        // CANCEL: the reading of the file ends soon after the future is dropped.
        let _guard = stop.clone().drop_guard();
        let known = (info.clone(), path.clone());
        let found = offload(Operation::Verify, blob.display(), move || {
            let target = location.display().to_owned();
            match compare(&location, &info, &path, &state, &stop) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(cancelled(target)),
                found => Ok(found.unwrap_or(None)),
            }
        })
        .await?;
        match found {
            Some(found) => Ok(Some(found)),
            None => self.unchanged_by_parts(blob, known.0, known.1, cancel).await,
        }
    }

    /// Compares the file with a checksum of the upload's parts, or with the entity tag, of the
    /// version that `info` describes.
    async fn unchanged_by_parts(
        &self,
        blob: &Location,
        info: BlobInfo,
        path: PathBuf,
        cancel: &CancellationToken,
    ) -> Result<Option<Unchanged>> {
        let is_same_len = path.metadata().is_ok_and(|found| Some(found.len()) == info.len_bytes);
        let is_whole = info.checksums.iter().any(StoredChecksum::is_verifiable);
        let (false, true, Some(file)) = (is_whole, is_same_len, path.to_str()) else {
            return Ok(None);
        };
        let compared = match self.compare_known(blob, &info, file, cancel).await {
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            // The blob or the file has changed since then, or the file cannot be read.
            Err(_) => return Ok(None),
            Ok(compared) => compared,
        };
        let Comparison::Same(verified) = compared else { return Ok(None) };
        record(path, blob, &info, self.0.state.clone()).await;
        let whole = verified.checksums().first();
        let parts = verified.parts_checksum().map(|parts| &parts.checksum);
        Ok(whole.or(parts).map(|checksum| Unchanged::Checksum(checksum.algorithm())))
    }
}

/// Whether the file at `path` has all these checksums; `false` if it cannot be read. Sends no request.
///
/// # Errors
///
/// `Cancelled`.
pub async fn file_matches(
    path: impl AsRef<Path>,
    expected: &[Checksum],
    cancel: &CancellationToken,
) -> Result<bool> {
    let (path, expected) = (path.as_ref().to_path_buf(), expected.to_vec());
    let stop = cancel.child_token();
    // CANCEL: the reading of the file ends soon after the future is dropped.
    let _guard = stop.clone().drop_guard();
    let target = path.display().to_string();
    offload(Operation::Verify, &target.clone(), move || match has_all(&path, &expected, &stop) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(cancelled(target)),
        found => Ok(found.unwrap_or(false)),
    })
    .await
}

fn has_all(path: &Path, expected: &[Checksum], stop: &CancellationToken) -> io::Result<bool> {
    if !path.metadata()?.is_file() {
        return Ok(false);
    }
    for expected in expected {
        let Ok(mut checksummer) = Checksummer::new(expected.algorithm()) else { return Ok(false) };
        hash(path, &mut checksummer, stop)?;
        if checksummer.finish() != *expected {
            return Ok(false);
        }
    }
    Ok(true)
}

fn cancelled(target: String) -> Error {
    Error::new(ErrorKind::Cancelled, Operation::Verify, target, "it was cancelled")
}

/// Notes in a downloaded file which version it is a copy of. This may fail silently: then a later
/// run compares checksums.
pub(super) async fn record(path: PathBuf, blob: &Location, info: &BlobInfo, state: StateFolder) {
    let (Some(selection), Some(version)) = (blob.selection(), info.version.clone()) else { return };
    let work = move || Ok(provenance::write(&path, &selection, &version, &state));
    let _ = offload(Operation::Write, blob.display(), work).await;
}

fn compare(
    blob: &Location,
    info: &BlobInfo,
    path: &Path,
    state: &StateFolder,
    stop: &CancellationToken,
) -> io::Result<Option<Unchanged>> {
    let found = path.metadata()?;
    if !found.is_file() || info.len_bytes.is_some_and(|len| len != found.len()) {
        return Ok(None);
    }
    let recorded = blob.selection().and_then(|selection| provenance::read(path, &selection, state));
    if recorded.is_some() && recorded == info.version {
        return Ok(Some(Unchanged::Version));
    }
    let stored = info.checksums.iter().filter(|stored| stored.is_verifiable());
    let strongest = stored.map(|stored| &stored.checksum).max_by_key(|checksum| strength(checksum));
    let Some(expected) = strongest else { return Ok(None) };
    let algorithm = expected.algorithm();
    let Ok(mut checksummer) = Checksummer::new(algorithm) else { return Ok(None) };
    hash(path, &mut checksummer, stop)?;
    if checksummer.finish() != *expected {
        return Ok(None);
    }
    if let (Some(selection), Some(version)) = (blob.selection(), &info.version) {
        // The next run then does not read the file.
        let _ = provenance::write(path, &selection, version, state);
    }
    Ok(Some(Unchanged::Checksum(algorithm)))
}

fn strength(checksum: &Checksum) -> usize {
    checksum.as_bytes().len()
}

fn hash(path: &Path, checksummer: &mut Checksummer, stop: &CancellationToken) -> io::Result<()> {
    let mut file = provenance::open(path)?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        if stop.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => checksummer.update(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
