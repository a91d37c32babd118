//! An interrupted upload of a file goes on.
//!
//! The remote's list of parts is believed over the journal. A listed part counts if it has the
//! place and the length that the plan gives it, and its checksum is that of the file's bytes. The
//! journal has that checksum if the file is unchanged; otherwise the range is read again. A part
//! that the remote lists without a checksum counts only by the tag that the journal has of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::checksum::Crc;

use super::file::UploadFile;
use super::journal::{Recorded, UploadJournal};
use super::source::PositionalSource;
use super::units::Done;
use super::{Transfer, parted, plan, sums};
use crate::error::{ErrorKind, Result};
use crate::remote::{StoredPart, Upload, UploadState, WriteOptions, Written};

/// What an earlier run has left.
pub(super) enum Continued {
    /// The blob is complete; only the response was lost.
    Completed { written: Written, crc: Option<Crc>, parts: u32, journal: UploadJournal },
    /// The upload that goes on; `None` if it begins anew.
    Upload { journal: Option<UploadJournal>, found: Option<Box<ContinuedUpload>> },
}

/// The upload, the length of its parts, and the parts that are stored.
pub(super) type ContinuedUpload = (Upload, u64, BTreeMap<u32, Done>);

impl Continued {
    pub(super) fn none() -> Self {
        Self::Upload { journal: None, found: None }
    }
}

/// Finds the upload that an earlier run has begun.
pub(super) async fn find(
    transfer: &Transfer,
    source: &Arc<PositionalSource>,
    file: &UploadFile,
    options: &WriteOptions,
    part_bytes: u64,
) -> Result<Continued> {
    let Some((journal, recorded)) = UploadJournal::open(transfer, file).await? else {
        return Ok(Continued::none());
    };
    let anew = |journal| Ok(Continued::Upload { journal: Some(journal), found: None });
    let Some(recorded) = recorded else { return anew(journal) };
    if recorded.upload.blob != transfer.target.blob {
        // Not ours, so its upload is not aborted either.
        return anew(journal);
    }
    let wished = transfer.options.part_bytes;
    let is_usable = recorded.len == source.len()
        && is_planned(transfer, &recorded)?
        && is_same(&recorded.upload.options, options)
        && wished.is_none_or(|_| recorded.part_bytes == part_bytes);
    let write = transfer.write()?;
    if !is_usable {
        abandon(transfer, &recorded.upload).await?;
        return anew(journal);
    }
    let limit = transfer.calls.patience(0);
    let state = transfer.calls.first(limit, |_| write.parts(&recorded.upload)).await;
    let listed = match state {
        Ok(UploadState::Completed(written)) if recorded.stamp == *file.stamp() => {
            let crc = whole(&recorded);
            let parts = u32::try_from(recorded.parts.len()).unwrap_or(u32::MAX);
            return Ok(Continued::Completed { written, crc, parts, journal });
        }
        Ok(UploadState::Parts(listed)) => listed,
        Ok(UploadState::Prefix(_)) => Vec::new(),
        Ok(UploadState::Completed(_)) => return anew(journal),
        // `Invalid`: the remote never gave such an id.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => {
            return anew(journal);
        }
        // Without a list of parts, nothing that is stored can be relied on.
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            abandon(transfer, &recorded.upload).await?;
            return anew(journal);
        }
        Err(error) => return Err(error),
    };
    let done = usable(transfer, source, file, &recorded, listed).await?;
    let Recorded { upload, part_bytes, len, stamp, .. } = recorded;
    if stamp != *file.stamp() {
        journal.begin(&upload, part_bytes, len).await;
        for done in done.values() {
            journal.record(done).await;
        }
    }
    Ok(Continued::Upload {
        journal: Some(journal),
        found: Some(Box::new((upload, part_bytes, done))),
    })
}

/// Aborts an upload that does not go on: its parts cost money. One attempt, because the new upload waits for it.
async fn abandon(transfer: &Transfer, upload: &Upload) -> Result<()> {
    let (write, limit) = (transfer.write()?, transfer.calls.patience(0));
    let aborted = tokio::time::timeout(limit, write.abort(upload));
    match transfer.calls.unless_cancelled(aborted).await? {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "an earlier upload stays behind"),
        Err(_elapsed) => tracing::warn!("an earlier upload stays behind: no answer to its abort"),
    }
    Ok(())
}

/// Whether the recorded parts are some that the remote takes. Parts of one byte would take more memory
/// than there is.
fn is_planned(transfer: &Transfer, recorded: &Recorded) -> Result<bool> {
    let Some(profile) = transfer.write()?.part_profile(&recorded.upload) else { return Ok(false) };
    let bytes = recorded.part_bytes;
    Ok(plan::part_bytes(recorded.len, Some(bytes), &profile) == Ok(bytes))
}

/// Whether two uploads make the same blob, apart from their marks.
fn is_same(one: &WriteOptions, other: &WriteOptions) -> bool {
    let bare = |options: &WriteOptions| WriteOptions { mark: None, ..options.clone() };
    bare(one) == bare(other)
}

/// The CRC of the whole, if all its parts are recorded.
pub(super) fn whole(recorded: &Recorded) -> Option<Crc> {
    let crcs = parted::ranges(recorded.len, recorded.part_bytes)
        .map(|(number, range)| recorded.parts.get(&number.get())?.crc(range.end - range.start));
    let crcs: Option<Vec<Crc>> = crcs.collect();
    sums::combined(&crcs?)
}

/// The listed parts that have the file's bytes.
async fn usable(
    transfer: &Transfer,
    source: &Arc<PositionalSource>,
    file: &UploadFile,
    recorded: &Recorded,
    listed: Vec<StoredPart>,
) -> Result<BTreeMap<u32, Done>> {
    let profile = transfer.write()?.part_profile(&recorded.upload);
    let algorithm = profile.and_then(|profile| profile.checksums.first().copied());
    let is_unchanged = recorded.stamp == *file.stamp();
    let mut listed: BTreeMap<u32, StoredPart> =
        listed.into_iter().map(|part| (part.number.get(), part)).collect();
    let mut done = BTreeMap::new();
    if listed.is_empty() {
        // A session has no parts, and may be longer than any number of them.
        return Ok(done);
    }
    for (number, range) in parted::ranges(recorded.len, recorded.part_bytes) {
        let len = range.end - range.start;
        let Some(part) = listed.remove(&number.get()).filter(|part| part.len_bytes == len) else {
            continue;
        };
        let known = recorded.parts.get(&number.get()).filter(|_| is_unchanged);
        let crc = if let Some(crc) = known.and_then(|known| known.crc(len)) {
            crc
        } else {
            let reading = source.sums(range, algorithm);
            transfer.calls.unless_cancelled(reading).await??.crc
        };
        let is_ours = match &part.checksum {
            Some(checksum) => *checksum == crc.to_checksum(),
            None => known.is_some_and(|known| known.tag.is_some() && known.tag == part.tag),
        };
        if is_ours {
            done.insert(number.get(), Done { stored: part, crc });
        }
    }
    Ok(done)
}
