//! The first response. It is already the first shard, and describes the blob.

use std::ops::Range;
use std::sync::Arc;

use tidegate_core::checksum::{CrcAlgorithm, StoredChecksum};
use tidegate_core::range::ByteRange;

use super::resume::{self, RequiredProof, Resumption};
use super::{Job, ShardedDownloadOptions};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::{Facts, Flow, Known, Lookup, PartsCheck, PartsWanted, RangeOptions, RangeStream};
use crate::remote::{BlobInfo, Location};
use crate::sink::Mark;
use crate::sink::file::journal::Journal;
use crate::transfer::limits::ORDERED_SHARE;
use crate::transfer::target::Prepared;
use crate::verified::Unverified;

/// What the first response says.
pub(super) struct Opening {
    /// The response, with its first byte still unread; `None` if nothing is left to fetch.
    pub(super) channel: Option<RangeStream>,
    pub(super) info: BlobInfo,
    /// The bytes to fetch; ends at `u64::MAX` if the server gives no length.
    pub(super) range: Range<u64>,
    /// One request must deliver everything: the remote ignores ranges, or names no version or
    /// length.
    pub(super) single: bool,
    /// Only a part of the blob is wanted.
    pub(super) partial: bool,
    /// Verified bytes of an earlier run.
    pub(super) resumed: Vec<Mark>,
    pub(super) journal: Option<Journal>,
    /// The CRC algorithm of this journal.
    pub(super) journal_crc: Option<CrcAlgorithm>,
    /// What must be verified before the resumed bytes are trusted.
    pub(super) required_proof: RequiredProof,
    /// The journal is of another mirror.
    pub(super) is_of_another: bool,
    /// Why the remote's checksums are not known or cannot be compared, if they should be.
    pub(super) unverified: Option<Unverified>,
    /// A composite checksum whose parts are known.
    pub(super) parts: Option<PartsCheck>,
    pub(super) notes: Vec<String>,
}

pub(super) async fn open(job: &Job<'_>, target: &mut Prepared) -> Result<Opening> {
    let mut notes = target.take_notes();
    // If this fails, another mirror may resume it.
    if let Some(found) = target.found().cloned() {
        match resume::resume(job, target, found).await {
            Ok(Resumption::Resumed(mut opening)) => {
                opening.notes.splice(0..0, notes);
                return Ok(*opening);
            }
            Ok(Resumption::Declined(why)) => notes.push(why),
            Err(error) if moved_on(&error) => {
                notes.push("it changed since the earlier attempt: started again".to_owned());
            }
            Err(error) => return Err(error),
        }
    }
    let opening = begin(job, notes).await?;
    target.take_found();
    Ok(opening)
}

/// Whether a pinned request failed because the blob has another version now.
fn moved_on(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Changed | ErrorKind::NotFound | ErrorKind::OutOfRange)
}

async fn begin(job: &Job<'_>, mut notes: Vec<String>) -> Result<Opening> {
    let Job { location, options, .. } = *job;
    let wanted = options.range.clone().unwrap_or(ByteRange::All);
    if wanted.is_empty() {
        let info = lookup(job).stat().await?;
        return Ok(Opening { channel: None, info, range: 0..0, ..Opening::nothing(notes) });
    }
    let first = first(&wanted, options);
    let mut channel = channel(job, first, Known::default());
    let Facts { mut info, unverified, parts } = facts(&mut channel, job).await?;
    let known = info.len_bytes.is_some() && info.version.is_some();
    let mut single = !known || channel.ignores_ranges();
    if channel.is_local_stream() {
        notes.push("it is a stream: read once, from beginning to end".to_owned());
    } else if channel.ignores_ranges() && options.window > 1 {
        notes.push("the server ignores ranges: fetched as one stream".to_owned());
    } else if !known && options.window > 1 && limited(&wanted, options) {
        notes.push("the server names no version or length: fetched as one stream".to_owned());
        // Nothing ties a second request to the first, so one request must deliver everything. No
        // byte of the first response is used, so the second may have another coding.
        let known = Known { coding: None, ..Known::of(&info) };
        channel = self::channel(job, wanted.clone(), known);
        // The checksums that were looked up are kept, and those of the second response are
        // compared, too.
        let mut second = channel.info().await?.clone();
        second.checksums.append(&mut info.checksums);
        info = second;
        single = true;
    }
    let range = match info.len_bytes {
        Some(len) => wanted.resolve(len).map_err(|error| {
            Error::new(
                ErrorKind::OutOfRange,
                Operation::Read,
                location.display(),
                format!("the range does not fit a blob of {len} bytes"),
            )
            .caused_by(error)
        })?,
        None if channel.ignores_ranges() => {
            // The end of the first shard was a guess. Only the range that the caller asked for ends
            // the read.
            channel.set_end(match &wanted {
                ByteRange::Bounded(range) => Some(range.end),
                _ => None,
            });
            channel.position()..u64::MAX
        }
        None => channel.position()..channel.end().unwrap_or(u64::MAX),
    };
    if (single || options.window <= 1) && range.end != u64::MAX {
        channel.set_end(Some(range.end));
    }
    if range.is_empty() {
        // No shard will check that the body ends after the last byte, so check it here.
        channel.sound().await?;
    }
    let partial = options.range.is_some();
    notes.extend(encoded(&channel, &info));
    Ok(Opening {
        channel: Some(channel),
        info,
        range,
        single,
        partial,
        unverified,
        parts,
        ..Opening::nothing(notes)
    })
}

/// A note if the response was compressed although identity was asked for.
fn encoded(channel: &RangeStream, info: &BlobInfo) -> Option<String> {
    let coding = info.content_encoding.as_ref().filter(|_| channel.is_encoded_unasked())?;
    Some(format!(
        "it came compressed (Content-Encoding: {coding}) although identity was asked for: kept as \
         it came"
    ))
}

/// The range of the first request: the first shard, or everything if one request is to deliver all.
fn first(wanted: &ByteRange, options: &ShardedDownloadOptions) -> ByteRange {
    if !limited(wanted, options) {
        return wanted.clone();
    }
    let shard = first_bytes(options);
    let first = match wanted {
        ByteRange::All => Ok(ByteRange::first(shard)),
        ByteRange::From(start) => ByteRange::first_from(*start, shard),
        other => other.limit(shard),
    };
    first.unwrap_or_else(|_| wanted.clone())
}

/// Length of the first shard: at most what an ordered target can hold in its share of the budget.
pub(super) fn first_bytes(options: &ShardedDownloadOptions) -> u64 {
    options.shard_bytes_min.min(options.budget.limits().bytes / ORDERED_SHARE).max(1)
}

/// Whether the first request asks for less than the wanted range.
fn limited(wanted: &ByteRange, options: &ShardedDownloadOptions) -> bool {
    let shard = first_bytes(options);
    options.window > 1
        && match wanted {
            ByteRange::Last(_) => false,
            ByteRange::Bounded(range) => range.end - range.start > shard,
            _ => true,
        }
}

impl Opening {
    /// Adds the checksums that another mirror declares, unless this one declares any of the whole
    /// blob.
    pub(super) fn lend(&mut self, checksums: Vec<StoredChecksum>) {
        if !self.info.checksums.iter().any(StoredChecksum::is_verifiable) {
            self.info.checksums.extend(checksums);
        }
    }

    pub(super) fn nothing(notes: Vec<String>) -> Self {
        Self {
            channel: None,
            info: BlobInfo::default(),
            range: 0..0,
            single: false,
            partial: false,
            resumed: Vec::new(),
            journal: None,
            journal_crc: None,
            required_proof: RequiredProof::Known,
            is_of_another: false,
            unverified: None,
            parts: None,
            notes,
        }
    }
}

/// A channel that is pinned to what is known of the blob.
pub(super) fn channel(job: &Job<'_>, range: ByteRange, known: Known) -> RangeStream {
    stream(Arc::new(job.location.clone()), range, known, job.options, Arc::clone(&job.flow))
}

/// A stream of `range` that is pinned to what is known of the blob at `location`.
pub(super) fn stream(
    location: Arc<Location>,
    range: ByteRange,
    known: Known,
    options: &ShardedDownloadOptions,
    flow: Arc<Flow>,
) -> RangeStream {
    let (retry, flow) = (options.retry.clone(), Some(flow));
    let read = RangeOptions { range: Some(range), known, retry, flow, ..RangeOptions::default() };
    let stats = Arc::clone(options.progress.stats());
    RangeStream::new(location, read, options.budget.clone(), stats)
}

/// The blob's description from the first response. If the remote's ranged responses lack checksums,
/// they are looked up in parallel.
pub(super) async fn facts(channel: &mut RangeStream, job: &Job<'_>) -> Result<Facts> {
    if job.location.remote.open_gives_checksums() || job.options.range.is_some() {
        return Ok(Facts::of(channel.info().await?.clone()));
    }
    lookup(job).facts(channel).await
}

pub(super) fn lookup(job: &Job<'_>) -> Lookup {
    let options = job.options;
    Lookup {
        location: Arc::new(job.location.clone()),
        version: None,
        retry: options.retry.clone(),
        budget: options.budget.clone(),
        stats: Arc::clone(options.progress.stats()),
        wants: PartsWanted {
            composites: options.expected.is_empty(),
            entity_tags: options.expected.is_empty() && options.entity_tag,
        },
    }
}
