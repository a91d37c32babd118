//! [`upload`]: makes a local file a blob of a store, and sends only the chunks that the store
//! lacks.
//!
//! The stages of the pipeline overlap:
//!
//! 1. Cutting: the file is cut into chunks and hashed on all cores.
//! 2. Asking: the store is asked which chunks it lacks while cutting continues.
//! 3. Sending: a missing chunk is read from the file again when it is sent. Small chunks share a
//!    request.
//! 4. Registering: once the store has all chunks, it makes the blob of them.
//!
//! The store is also asked for the *blob*, in parallel with the other calls, as soon as the digest
//! of the blob is known. If the caller gives the digest, the blob is asked for before any chunk.
//! Otherwise it goes with the last question about chunks: the digest takes a pass over the whole
//! file, and chunks are sent during that pass. If the store has the blob, requests in flight are
//! dropped.
//!
//! Some blobs are their own only chunk: a blob no longer than the longest chunk, and any blob for a
//! store that takes no manifests or only cuts in ways that we do not know. The same pipeline asks
//! for it and puts it. A blob is also put whole if a store that takes manifests rejects its
//! manifest. Such a blob may be longer than a message can be.
//!
//! | file | idea |
//! |---|---|
//! | `options` | what the caller chooses |
//! | `choice` | how blobs are named and cut, by what store and caller say |
//! | `source` | the file, and whether it changes |
//! | `spool` | a stream, copied to a file |
//! | `cutting` | its chunks, as they become known |
//! | `ledger` | the fate of each chunk |
//! | `missing_query` | when the store is asked which chunks it lacks |
//! | `send_queue` | which chunks go into one request |
//! | `pipeline` | all stages together |
//! | `send`, `chunk_source` | one request that carries bytes |
//! | `floor` | the lowest speed that an upload may have |
//! | `register` | the blob is made of its chunks; lost chunks are sent again |
//! | `confirm` | the store is asked once more for what it acknowledged |
//! | `held` | memory that is charged to the budget |
//! | `spare` | memory that the next batch reuses |
//! | `transfer` | state that all of these share |

mod choice;
mod chunk_source;
mod confirm;
mod cutting;
mod floor;
mod held;
mod ledger;
mod missing_query;
mod options;
mod pipeline;
mod register;
mod send;
mod send_queue;
mod source;
mod spare;
mod spool;
mod transfer;

pub(crate) use options::ChunkedUploadOptions;
pub(crate) use source::ChunkedSource;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::digest::{Digest, DigestFunction};
use tokio::time::Instant;

use self::cutting::{Cut, SourceCutter};
use self::ledger::ChunkStatus;
use self::pipeline::Pipeline;
use self::source::SourceFile;
use self::transfer::Transfer;
use super::{ChunkStore, StoreProfile};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::BlobInfo;
use crate::report::{ChunkReport, ChunkTotals, Form, Report};
use crate::transfer::deadline;
use crate::verified::Verified;

/// Puts a file or a stream into `store`. A stream, and so a pipe, a terminal, or a file with a wrong reported length is first
/// copied to a temporary file (in `TMPDIR`, else `/var/tmp`).
///
/// A chunk is sent only if the store lacks it and no other upload of this process is sending it to
/// the store. The file may be larger than memory: the buffers that it is read into are charged to
/// the budget.
///
/// Dropping the future ends the upload and every request in flight.
///
/// # Errors
///
/// - `Changed` if the file changes during the upload. Nothing was registered then.
/// - `Integrity` if the file does not have the digest [`ChunkedUploadOptions::digest`], if the
///   store contradicts itself, or, with [`ChunkedUploadOptions::confirm`], if the store has lost
///   what it acknowledged.
/// - `Exhausted` if the store loses chunks as fast as they are sent, or if the attempts or the
///   deadline are used up.
/// - `Unsupported` for a digest function that the store does not know, and for a blob that is too
///   long for it.
///
/// Other errors of the store, and errors of reading the file, are returned unchanged.
pub(crate) async fn upload(
    store: &Arc<dyn ChunkStore>,
    source: ChunkedSource,
    options: &ChunkedUploadOptions,
) -> Result<Report> {
    let (deadline_ms, name) = (options.retry.deadline_ms, source.name());
    let (name, cancel) = (&*name, &options.cancel);
    deadline::in_time(deadline_ms, cancel, Operation::Upload, name, |cancel| async move {
        let options = ChunkedUploadOptions { cancel: cancel.clone(), ..options.clone() };
        // CANCEL: the upload is dropped, and with it all requests in flight.
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                Err(Error::new(ErrorKind::Cancelled, Operation::Upload, name, "it was cancelled"))
            }
            outcome = run(store, source, &options) => outcome,
        }
    })
    .await
}

async fn run(
    store: &Arc<dyn ChunkStore>,
    source: ChunkedSource,
    options: &ChunkedUploadOptions,
) -> Result<Report> {
    let start = Instant::now();
    let file = SourceFile::open(store, source, options).await?;
    let budget = options.budget.share();
    let transfer = Arc::new(Transfer::new(store, &file, &budget, options));
    let calls = &transfer.calls.profile;
    let profile = calls.first(calls.patience(0), |_| store.profile()).await?;
    let function = choice::digest_function(&profile, options, &transfer)?;
    let chunking = choice::chunking(&profile, options, &transfer)?;
    options.progress.expect(Some(file.len()));

    if file.len() == 0 {
        let digest = Digest::of(function, &[]);
        file.check_named(&digest)?;
        let stored = UploadOutcome { digest, form: Form::Present, rounds: 0 };
        return Ok(report(&transfer, None, &stored, start.elapsed()));
    }
    if let (None, Some(bytes_max)) = (chunking, profile.blob_bytes_max)
        && file.len() > bytes_max
    {
        let len = file.len();
        let message = format!("it has {len} bytes, and the store takes blobs of up to {bytes_max}");
        return Err(transfer.error(ErrorKind::Unsupported, message));
    }
    let (cutting, asked) = match chunking {
        Some(chunking) => {
            let cutting = SourceCutter::chunks(&file, function, chunking, &budget, &options.cancel);
            (cutting, options.digest)
        }
        None => (SourceCutter::whole(&file, function, options.digest, &budget), None),
    };
    let mut pipeline = Pipeline::new(&transfer, &profile, cutting, asked);
    pipeline.run().await?;
    let Some(blob) = pipeline.blob() else {
        return Err(transfer.error(ErrorKind::Cancelled, "cutting it ended early"));
    };
    let mut rounds = 0;
    let form = match chunking {
        _ if pipeline.is_present() => Form::Present,
        Some(chunking) => {
            // A store refuses a chunking that its profile does not name.
            let named = profile.chunkings.contains(&chunking).then_some(chunking);
            match register::register(&transfer, &mut pipeline, blob, named).await {
                Ok(sent_again) => {
                    rounds = sent_again;
                    Form::Chunks
                }
                Err(error) if error.kind() == ErrorKind::Unsupported && options.whole_fallback => {
                    drop(pipeline);
                    let whole = whole_instead(&transfer, &profile, blob, error);
                    pipeline = Box::pin(whole).await?;
                    Form::Whole
                }
                Err(error) => return Err(error),
            }
        }
        None if pipeline.delivered_chunks() == 0 => Form::Present,
        None => Form::Whole,
    };
    if form == Form::Present && options.digest.is_none() {
        file.blocking(SourceFile::check_unchanged).await?;
    }
    compare(&transfer, function).await?;
    if options.confirm {
        confirm::confirm(&transfer, pipeline.ledger(), blob, form).await?;
    }
    let stored = UploadOutcome { digest: blob, form, rounds };
    Ok(report(&transfer, Some(&pipeline), &stored, start.elapsed()))
}

/// Reads and hashes the file if the caller gave its digest and the two have not been compared yet.
/// That is so if the store had the blob, or if another upload of this process sent it. After
/// success the file has that digest, also if another transfer sent the blob.
async fn compare(transfer: &Transfer, function: DigestFunction) -> Result<()> {
    if !transfer.file.is_uncompared() {
        return Ok(());
    }
    let mut hashing = SourceCutter::whole(&transfer.file, function, None, &transfer.budget);
    match hashing.next().await? {
        Cut::Chunks(all) => all.iter().try_for_each(|digest| transfer.file.check_named(digest)),
        Cut::End(digest) => transfer.file.check_named(&digest),
    }
}

/// Puts the whole blob, because the store cannot make it of its chunks.
async fn whole_instead(
    transfer: &Arc<Transfer>,
    profile: &StoreProfile,
    blob: Digest,
    error: Error,
) -> Result<Pipeline> {
    if profile.blob_bytes_max.is_some_and(|bytes_max| blob.len > bytes_max) {
        return Err(error);
    }
    tracing::debug!(%blob, error = error.chain(), "put whole, as it cannot be made of its chunks");
    transfer.progress.expect(Some(blob.len));
    let cutting = SourceCutter::whole(&transfer.file, blob.function, Some(blob), &transfer.budget);
    let mut pipeline = Pipeline::new(transfer, profile, cutting, None);
    pipeline.run().await?;
    Ok(pipeline)
}

/// What the store has at the end.
struct UploadOutcome {
    digest: Digest,
    form: Form,
    /// How often chunks that the store had lost were sent again.
    rounds: u32,
}

fn report(
    transfer: &Transfer,
    pipeline: Option<&Pipeline>,
    stored: &UploadOutcome,
    elapsed: Duration,
) -> Report {
    let UploadOutcome { digest, form, rounds } = *stored;
    let ledger = pipeline.map(Pipeline::ledger);
    let totals = |(chunks, bytes)| ChunkTotals { chunks, bytes };
    let of = |fate| ledger.map_or((0, 0), |ledger| ledger.count(|known| known == fate));
    let (requests, totals_of_calls) = transfer.calls.totals();
    let chunks = ChunkReport {
        all: totals(ledger.map_or((0, 0), ledger::Ledger::cut)),
        distinct: totals(ledger.map_or((0, 0), |ledger| ledger.count(|_| true))),
        moved: totals(of(ChunkStatus::Sent)),
        shared: totals(of(ChunkStatus::Shared)),
        reused: totals(of(ChunkStatus::Present)),
        window: transfer.window_now(),
        rounds,
        requests,
    };
    Report {
        bytes: digest.len,
        resumed_bytes: 0,
        elapsed,
        totals: totals_of_calls,
        held_bytes_peak: transfer.budget.held_bytes_peak(),
        info: BlobInfo::of_digest(&digest),
        digest: Some(digest),
        checksums: vec![digest.checksum()],
        // The file was hashed; the store has the blob under that name.
        verified: Verified::By(vec![digest.checksum()]),
        form,
        chunks: Some(chunks),
        notes: transfer.file.note().map(str::to_owned).into_iter().collect(),
        source_bytes: None,
        mirrors: Vec::new(),
        memory: None,
    }
}
