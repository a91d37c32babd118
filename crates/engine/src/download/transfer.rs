//! One download in shards, from the first response to the verified target.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tidegate_core::checksum::Crc;
use tidegate_core::extents::Extents;
use tidegate_core::parts::CrcParts;

use super::mirrors::{Mirrors, Round};
use super::opening::{self, Opening};
use super::resume::{self, RefutedResume, RequiredProof};
use super::shard::ShardJob;
use super::units::ShardUnits;
use super::{Job, ShardedDownloadOptions, report};
use crate::budget::BytesPermit;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::{Known, Lookup};
use crate::remote::{BlobInfo, Location};
use crate::sink::file::journal::Identity;
use crate::sink::hashers::Sums;
use crate::sink::{Mark, Sink};
use crate::transfer::checks::{self, Checks, ChecksOptions, PartsToCheck, Proof};
use crate::transfer::destination::{
    Committed, Destination, DestinationOptions, InitialGrant, PartStart,
};
use crate::transfer::limits::{BATCH_BYTES, STREAM_BYTES, UNIT_BYTES};
use crate::transfer::target::Prepared;

/// Bytes between marks in the journal, at least. A killed run loses up to this many bytes of each
/// shard.
const MARK_BYTES_MIN: u64 = 1 << 20;

/// Marks of a blob, at most. Beyond 64 GiB the marks lie further apart, so the journal does not
/// grow.
const MARKS_MAX: u64 = 65_536;

/// The outcome of a download in shards; becomes a [`Report`](crate::Report).
pub(super) struct Transferred {
    pub(super) bytes: u64,
    pub(super) resumed_bytes: u64,
    pub(super) info: BlobInfo,
    pub(super) proof: Proof,
    pub(super) notes: Vec<String>,
    pub(super) memory: Option<Bytes>,
}

/// Fetches everything that `opening` found, into `prepared`. `granted` is the budget's grant from
/// before the first request. `refuted` is set if the download fails because the bytes of an earlier
/// run were wrong.
pub(super) async fn transfer(
    job: &Job<'_>,
    mirrors: &mut Mirrors,
    prepared: Prepared,
    mut opening: Opening,
    granted: BytesPermit,
    refuted_resume: &mut Option<RefutedResume>,
) -> Result<Transferred> {
    let Job { location, options, .. } = *job;
    let checks = match checks(job, &prepared, &mut opening) {
        Ok(checks) => checks,
        Err(error) => {
            let rest = prepared.abandon(&error).await;
            return Err(error.with_rest(rest));
        }
    };
    if !checks.decide() {
        mirrors.forbid_mixing();
    }
    let is_mixed = mirrors.are_mixed() || opening.is_of_another;
    let mut destination = open(job, prepared, &mut opening, &checks, is_mixed, granted).await?;
    let Opening { channel, info, range, single, resumed, required_proof, mut notes, .. } = opening;
    notes.append(&mut destination.take_notes());
    let resumed_bytes = resumed.iter().map(|mark| mark.crc.len()).sum();
    let expected = Some(range.end - range.start).filter(|_| range.end != u64::MAX);
    options.progress.expect(expected);
    options.progress.reused(resumed_bytes);

    let (parts, mut done) = already(&checks, &resumed);
    let granted = destination.take_granted();
    let shared = Arc::new(ShardJob {
        parts: Mutex::new(parts),
        layout: checks.crc_layout().cloned(),
        progress: Arc::clone(&options.progress),
        stop: options.cancel.child_token(),
        // Files and memory begin with the first wanted byte, which may lie inside the blob.
        origin: if matches!(destination.sink, Sink::Ordered(_)) { 0 } else { range.start },
        // Memory takes bytes at once: gathering would only hold them longer.
        batch_bytes: if matches!(destination.sink, Sink::Memory(_)) { 0 } else { BATCH_BYTES },
        destination,
        mark_bytes: MARK_BYTES_MIN.max(info.len_bytes.unwrap_or(0) / MARKS_MAX),
    });
    if let Some(first) = &channel {
        // The open stream already delivers these bytes.
        done.insert(first.position()..first.end().unwrap_or(u64::MAX).max(first.position()));
    }
    let first = channel.map(|channel| (channel, granted));
    let round = Round { done_bytes: 0, resumed_bytes, expected };
    mirrors.begin(&job.flow, &options.retry, &shared.stop, round);
    let mut units = ShardUnits::new(job, &shared, mirrors, range.clone(), single, done);
    let run = units.run(first).await;
    drop(units);
    // Every shard has ended, so nothing else holds the shared state.
    let Some(ShardJob { destination, parts, .. }) = Arc::into_inner(shared) else {
        return Err(job.calls.error(ErrorKind::Cancelled, "a shard outlived its download"));
    };
    let parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
    let crc = match run.and_then(|()| whole(&parts, &range, location)) {
        Ok(crc) => crc,
        Err(error) => {
            let keeps = !matches!(error.kind(), ErrorKind::Integrity | ErrorKind::Changed);
            let rest = destination.abandon(&error, keeps).await;
            return Err(error.with_rest(rest));
        }
    };
    let bytes = crc.len();
    let sums = Sums { whole: vec![crc.to_checksum()], parts: parts.composite() };
    let committed = destination.commit(sums, bytes, &checks).await;
    let Committed { proof, memory, note } = committed.map_err(|error| {
        if error.kind() != ErrorKind::Integrity {
            return error;
        }
        if required_proof != RequiredProof::Known && resumed_bytes > 0 {
            *refuted_resume = Some(RefutedResume { bytes, resumed_bytes });
        }
        mirrors.explain_mismatch(error)
    })?;
    notes.extend(note);
    notes.extend(report::unproved_end(&info, &proof, bytes, options));
    Ok(Transferred { bytes, resumed_bytes, info, proof, notes, memory })
}

/// The CRCs and the extents of the bytes of an earlier run.
fn already(checks: &Checks, resumed: &[Mark]) -> (CrcParts, Extents) {
    let mut parts = match checks.crc_layout() {
        Some(layout) => CrcParts::with_layout(checks.crc, layout.clone()),
        None => CrcParts::new(checks.crc),
    };
    let mut done = Extents::new();
    for mark in resumed {
        done.insert(mark.start..mark.start + mark.crc.len());
        // Verified not to overlap when they were read back.
        let _ = parts.insert(mark.start, mark.crc);
    }
    (parts, done)
}

async fn open(
    job: &Job<'_>,
    prepared: Prepared,
    opening: &mut Opening,
    checks: &Checks,
    is_mixed: bool,
    granted: BytesPermit,
) -> Result<Destination> {
    let options = job.options;
    let identity = identity(job, &prepared, opening, checks, is_mixed);
    let start = match (opening.journal.take(), identity) {
        // The old journal may say that its version alone ties the bytes to the blob.
        (Some(_), Some(identity)) if is_mixed => PartStart::Kept(identity, opening.resumed.clone()),
        (Some(journal), _) => PartStart::Resumed(journal, opening.resumed.clone()),
        (None, identity) => PartStart::Empty(identity),
    };
    // The first shard's bytes were granted before its request; an ordered sink keeps them.
    let end = match &opening.channel {
        Some(channel) => channel.end().unwrap_or(u64::MAX),
        None => opening.range.start,
    };
    let len = opening.range.end - opening.range.start;
    let shards = len.div_ceil(options.shard_bytes_min.max(1)).min(options.window.into());
    let destination = DestinationOptions {
        range: opening.range.clone(),
        hashers: checks.hashers(),
        start,
        granted: InitialGrant { permit: Some(granted), end },
        units_bytes: shards * UNIT_BYTES,
        lends: false,
        durability: options.durability,
        pool: options.pool.clone(),
        progress: Arc::clone(&options.progress),
    };
    let channel = &mut opening.channel;
    let release = || {
        if let Some(channel) = channel {
            channel.suspend();
        }
    };
    Destination::open(prepared, destination, job.calls.clone(), release).await
}

/// The blob's identity in a part file's journal; `None` if no later run could resume it. Bytes of
/// several mirrors have no selection: so a later run resumes them only if it has a checksum of the
/// whole blob.
fn identity(
    job: &Job<'_>,
    prepared: &Prepared,
    opening: &Opening,
    checks: &Checks,
    is_mixed: bool,
) -> Option<Identity> {
    let Prepared::File { part, .. } = prepared else { return None };
    let is_known = !opening.partial && opening.range.end != u64::MAX;
    let (Some(version), Some(len_bytes), true) =
        (&opening.info.version, opening.info.len_bytes, is_known)
    else {
        return None;
    };
    // No journal is written if no later run would accept it.
    let is_provable =
        || resume::can_prove(RequiredProof::ByHash, &opening.info, &job.options.expected);
    (part.has_key() || is_provable()).then(|| Identity {
        source: job.location.display().to_owned(),
        selected: part.selected(job.location.selection().as_ref().filter(|_| !is_mixed)),
        version: version.clone(),
        revision: opening.info.revision.clone(),
        coding: Known::of(&opening.info).coding,
        len_bytes,
        crc: checks.crc.into(),
    })
}

fn checks(job: &Job<'_>, prepared: &Prepared, opening: &mut Opening) -> Result<Checks> {
    let options = job.options;
    if options.range.is_some() {
        return Ok(Checks::none());
    }
    let version = opening.info.version.clone();
    let lookup = || Lookup { version, ..opening::lookup(job) };
    let known = ChecksOptions {
        by_hand: &options.expected,
        journal: opening.journal_crc,
        resumed: &opening.resumed,
        lookup: opening.unverified.clone(),
        parts: opening.parts.take().map(|check| PartsToCheck::new(check, lookup())),
        entity_tag: options.entity_tag,
        is_file_copy: job.location.remote.scheme() == "file"
            && matches!(prepared, Prepared::File { .. }),
    };
    match opening.required_proof {
        // A CRC verifies nothing here: forged bytes can match it.
        RequiredProof::ByHash => {
            let mut info = opening.info.clone();
            info.checksums.retain(|stored| checks::is_hash(&stored.checksum));
            Checks::choose(&info, known)
        }
        _ => Checks::choose(&opening.info, known),
    }
}

/// The CRC of all bytes, if there are no gaps.
fn whole(parts: &CrcParts, range: &Range<u64>, location: &Location) -> Result<Crc> {
    let is_empty = parts.iter().next().is_none();
    let empty = || is_empty.then(|| (range.start, Crc::empty(parts.algorithm())));
    let crc = parts.single_run().or_else(empty);
    let crc = crc.filter(|(start, crc)| {
        let end = start.saturating_add(crc.len());
        *start == range.start && (end == range.end || range.end == u64::MAX)
    });
    crc.map(|(_, crc)| crc).ok_or_else(|| {
        Error::new(
            ErrorKind::Integrity,
            Operation::Verify,
            location.display(),
            "some of its bytes never arrived",
        )
    })
}

/// Bytes to take from the budget before the first request, for the bytes that its response
/// delivers.
pub(super) fn first_bytes(prepared: &Prepared, options: &ShardedDownloadOptions) -> u64 {
    match prepared {
        Prepared::Writer { .. } if options.window > 1 => opening::first_bytes(options),
        Prepared::Writer { .. } => STREAM_BYTES,
        // This may become an ordered target, if only the remote's hash can be compared.
        Prepared::Discard => opening::first_bytes(options).max(UNIT_BYTES),
        _ => UNIT_BYTES,
    }
}
