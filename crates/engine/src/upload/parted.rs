//! An upload in parts, from its beginning to its end.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use tidegate_core::checksum::Crc;
use tokio_util::sync::CancellationToken;

use super::landed::Making;
use super::resume::{self, Continued};
use super::source::PositionalSource;
use super::units::{Done, Feed, Job, PartUnits, StreamFeed};
use super::{Made, OnFailure, Transfer, condition, landed, stream, sums, whole};
use crate::error::{Error, ErrorKind, Result};
use crate::remote::{
    CompleteRequest, LastPart, PartNumber, PartProfile, StoredPart, Upload, UploadPart,
    UploadState, WriteOptions, WriteWay, Written,
};
use crate::store::SendProgress;
use crate::transfer::driver::{Flight, drive_to_end};

/// Uploads a source that is read by position.
pub(super) async fn upload(
    transfer: &Arc<Transfer>,
    source: &Arc<PositionalSource>,
    part_bytes: u64,
) -> Result<Made> {
    let options = whole::described(transfer, source)?;
    let continued = match source.file() {
        Some(file) if transfer.options.on_failure == OnFailure::Keep => {
            resume::find(transfer, source, file, &options, part_bytes).await?
        }
        _ => Continued::none(),
    };
    let (journal, found) = match continued {
        Continued::Completed { written, crc, parts, journal } => {
            journal.remove().await;
            let checksum = crc.map(|crc| crc.to_checksum());
            let (len_bytes, notes) = (source.len(), Vec::new());
            let resumed_bytes = len_bytes;
            transfer.progress.reused(len_bytes);
            return Ok(Made { written, options, len_bytes, resumed_bytes, checksum, parts, notes });
        }
        Continued::Upload { journal, found } => (journal, found),
    };
    let (upload, part_bytes, done) = if let Some(found) = found {
        condition::prove(transfer, WriteWay::Parts).await?;
        *found
    } else {
        condition::check(transfer, &options.precondition).await?;
        condition::prove(transfer, WriteWay::Parts).await?;
        let upload = begin(transfer, &options).await?;
        if let Some(journal) = &journal {
            journal.begin(&upload, part_bytes, source.len()).await;
        }
        (upload, part_bytes, BTreeMap::new())
    };
    let profile = part_profile(transfer, &upload)?;
    let job = Job { transfer: Arc::clone(transfer), upload, profile, journal };
    let job = Arc::new(job);
    let outcome = match job.profile.last {
        LastPart::WithComplete => in_order(&job, source).await,
        LastPart::Alone => in_parts(&job, source, part_bytes, done).await,
    };
    ended(&job, outcome, source.file().is_some()).await
}

/// Uploads a stream, whose first part does not end it.
pub(super) async fn upload_stream(transfer: &Arc<Transfer>, feed: StreamFeed) -> Result<Made> {
    condition::prove(transfer, WriteWay::Parts).await?;
    let options = landed::marked(&transfer.options.write)?;
    let upload = begin(transfer, &options).await?;
    let profile = part_profile(transfer, &upload)?;
    let job = Job { transfer: Arc::clone(transfer), upload, profile, journal: None };
    let job = Arc::new(job);
    let outcome = match job.profile.last {
        // Google offers a session where it forbids parallel parts, and a session needs the length.
        LastPart::WithComplete => {
            let (stream, first) = feed.into_whole();
            match stream::spool(transfer, stream, first).await {
                Ok(source) => in_order(&job, &Arc::new(source)).await,
                Err(error) => Err(error),
            }
        }
        LastPart::Alone => {
            let done = run(&job, Feed::Stream(feed), BTreeMap::new()).await;
            match done {
                Ok(done) => complete(&job, done, 0).await,
                Err(error) => Err(error),
            }
        }
    };
    ended(&job, outcome, false).await
}

async fn begin(transfer: &Transfer, options: &WriteOptions) -> Result<Upload> {
    let (write, blob) = (transfer.write()?, &transfer.target.blob);
    let limit = transfer.calls.patience(0);
    transfer.calls.first(limit, |_| write.begin(blob, options)).await
}

pub(super) fn part_profile(transfer: &Transfer, upload: &Upload) -> Result<PartProfile> {
    transfer.write()?.part_profile(upload).ok_or_else(|| {
        transfer.error(ErrorKind::Unsupported, "the remote takes no parts of this upload")
    })
}

async fn in_parts(
    job: &Arc<Job>,
    source: &Arc<PositionalSource>,
    part_bytes: u64,
    done: BTreeMap<u32, Done>,
) -> Result<Made> {
    let resumed_bytes = done.values().map(|done| done.stored.len_bytes).sum();
    job.transfer.progress.reused(resumed_bytes);
    let left: VecDeque<_> = ranges(source.len(), part_bytes)
        .filter(|(number, _)| !done.contains_key(&number.get()))
        .collect();
    let feed = Feed::Ranges { source: Arc::clone(source), left };
    let done = run(job, feed, done).await?;
    source.check_unchanged().await?;
    complete(job, done, resumed_bytes).await
}

/// The numbers and ranges of the parts.
pub(super) fn ranges(len: u64, part_bytes: u64) -> impl Iterator<Item = (PartNumber, Range<u64>)> {
    let count = u32::try_from(len.div_ceil(part_bytes.max(1))).unwrap_or(u32::MAX);
    (1..=count).filter_map(move |number| {
        let start = u64::from(number - 1) * part_bytes;
        Some((PartNumber::new(number)?, start..len.min(start.saturating_add(part_bytes))))
    })
}

async fn run(job: &Arc<Job>, feed: Feed, done: BTreeMap<u32, Done>) -> Result<BTreeMap<u32, Done>> {
    // After a failure nothing may be in flight: a part that arrives after the abort would stay.
    let stop = CancellationToken::new();
    let mut units = PartUnits::new(Arc::clone(job), feed, done, stop.clone());
    let cancel = &job.transfer.calls.cancel;
    let outcome = drive_to_end(&mut units, Flight::default(), cancel, &stop, || {}).await;
    outcome.map(|()| units.done)
}

/// Makes the blob of its parts.
async fn complete(job: &Job, done: BTreeMap<u32, Done>, resumed_bytes: u64) -> Result<Made> {
    let crc = sums::combined(done.values().map(|done| &done.crc));
    let parts = done.into_values().map(|done| {
        let checksum = job.algorithm().filter(|sent| sent.crc() == Some(done.crc.algorithm()));
        let mut part = done.stored;
        part.checksum = checksum.map(|_| done.crc.to_checksum());
        part
    });
    let mut request = CompleteRequest::new(parts.collect());
    let verifies = |crc: &&Crc| {
        job.profile.whole_checksums.iter().any(|whole| whole.crc() == Some(crc.algorithm()))
    };
    request.checksum = crc.as_ref().filter(verifies).map(Crc::to_checksum);
    let (parts, len_bytes) = (request.parts.len(), request.len_bytes);
    let written = commit(job, &request).await?;
    let options = job.upload.options.clone();
    Ok(Made {
        written,
        options,
        len_bytes,
        resumed_bytes,
        checksum: crc.map(|crc| crc.to_checksum()),
        parts: u32::try_from(parts).unwrap_or(u32::MAX),
        notes: Vec::new(),
    })
}

/// Sends everything that the remote lacks with the request that makes the blob: for a remote that
/// takes the bytes of an upload in order, in one stream.
async fn in_order(job: &Job, source: &Arc<PositionalSource>) -> Result<Made> {
    let len = source.len();
    let algorithm = job.profile.whole_checksums.first().copied();
    let whole = source.sums(0..len, algorithm).await?;
    let (transfer, mut resumed_bytes) = (&job.transfer, 0);
    let mut attempts = transfer.calls.begin();
    let mut is_first = true;
    let written = loop {
        let permit = attempts.permit().await?;
        let state = attempts.within(transfer.calls.patience(0), state(job)).await;
        let outcome = match state {
            Ok(UploadState::Completed(written)) => break written,
            Ok(UploadState::Prefix(at)) if at <= len => {
                if std::mem::take(&mut is_first) {
                    resumed_bytes = at;
                    transfer.progress.reused(at);
                }
                send_rest(job, source, at, len, &whole).await
            }
            Ok(_) => {
                let message = "the remote has more bytes of the upload than the source";
                Err(landed::lost(transfer, transfer.error(ErrorKind::NotFound, message)))
            }
            Err(error) => Err(error),
        };
        drop(permit);
        match outcome {
            Ok(written) => break written,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(landed::lost(transfer, error));
            }
            Err(error) => attempts.interrupted(error).await?,
        }
    };
    transfer.progress.done(len.saturating_sub(resumed_bytes));
    let sent = whole.sent().cloned();
    let confirmed =
        sent.as_ref().filter(|sum| written.checksums.iter().any(|stored| stored.checksum == **sum));
    transfer.confirmed(sent.as_ref(), confirmed);
    let checksum = Some(whole.crc.to_checksum());
    let notes = vec![
        "the parts were sent one after another: this remote checks a condition only so".to_owned(),
    ];
    let options = job.upload.options.clone();
    Ok(Made { written, options, len_bytes: len, resumed_bytes, checksum, parts: 1, notes })
}

async fn state(job: &Job) -> Result<UploadState> {
    job.transfer.write()?.parts(&job.upload).await
}

async fn send_rest(
    job: &Job,
    source: &Arc<PositionalSource>,
    at: u64,
    len: u64,
    whole: &sums::PartSums,
) -> Result<Written> {
    let transfer = &job.transfer;
    let rest = match at {
        0 => whole.clone(),
        _ => source.sums(at..len, None).await?,
    };
    source.check_unchanged().await?;
    let Some(number) = PartNumber::new(1) else { return Err(transfer.calls.cancelled()) };
    let write = transfer.write()?;
    let mut call = |sending: SendProgress| {
        let payload = source.payload(at..len, &rest, &sending);
        let last = UploadPart { number, offset: at, payload };
        let mut request = CompleteRequest::new(Vec::new());
        request.len_bytes = len;
        request.checksum = whole.sent().cloned();
        request.last = Some(last);
        async move { write.complete(&job.upload, &request).await }
    };
    transfer.once(len - at, &mut call).await
}

pub(super) async fn commit(job: &Job, request: &CompleteRequest) -> Result<Written> {
    let (transfer, write) = (&job.transfer, job.transfer.write()?);
    let call = |_: SendProgress| write.complete(&job.upload, request);
    let look = || async move {
        Ok(match write.parts(&job.upload).await? {
            UploadState::Completed(written) => Some(written),
            UploadState::Parts(_) | UploadState::Prefix(_) => None,
        })
    };
    let error = match transfer.make_blob(Making::Stored(transfer.commit_limit()), call, look).await
    {
        Ok(written) => return Ok(written),
        Err(error) => error,
    };
    let is_lost = match error.kind() {
        ErrorKind::NotFound => true,
        ErrorKind::Invalid => lacks_parts(job, request).await,
        _ => false,
    };
    Err(if is_lost { landed::lost(transfer, error) } else { error })
}

/// Whether the remote has lost parts that it had acknowledged: Azure drops all blocks of a name when
/// any other upload to it is completed.
async fn lacks_parts(job: &Job, request: &CompleteRequest) -> bool {
    let (transfer, limit) = (&job.transfer, job.transfer.calls.patience(0));
    match transfer.calls.attempt(limit, |_| state(job)).await {
        Ok(UploadState::Parts(listed)) => {
            let listed: BTreeMap<_, _> =
                listed.iter().map(|part| (part.number, part.len_bytes)).collect();
            let has = |part: &StoredPart| listed.get(&part.number) == Some(&part.len_bytes);
            !request.parts.iter().all(has)
        }
        Err(error) => error.kind() == ErrorKind::NotFound,
        Ok(_) => false,
    }
}

/// Cleans up after the upload, and says what stays behind.
pub(super) async fn ended(job: &Job, outcome: Result<Made>, is_file: bool) -> Result<Made> {
    let error = match outcome {
        Ok(made) => {
            if let Some(journal) = &job.journal {
                journal.remove().await;
            }
            return Ok(made);
        }
        Err(error) => error,
    };
    let keeps = is_file && job.transfer.options.on_failure == OnFailure::Keep;
    // The parts of a changed source are of no use, and neither are those for a name that is taken.
    let is_final = matches!(error.kind(), ErrorKind::Changed | ErrorKind::AlreadyExists);
    if keeps && !is_final && !landed::is_lost(&error) {
        return Err(error.leaving_upload());
    }
    Err(abort(job, error).await)
}

/// Aborts the upload, also if the transfer was cancelled.
async fn abort(job: &Job, error: Error) -> Error {
    let aborted = async { job.transfer.write()?.abort(&job.upload).await };
    let limit = job.transfer.calls.patience(0);
    match tokio::time::timeout(limit, aborted).await {
        Ok(Ok(())) => {
            if let Some(journal) = &job.journal {
                journal.remove().await;
            }
            error
        }
        _ => error.leaving_upload().with_hint(
            "parts of the upload stay at the remote: list its unfinished uploads, and abort this one",
        ),
    }
}
