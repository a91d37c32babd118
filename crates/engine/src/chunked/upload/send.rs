//! Sends one load: reads it from the file, compares it, and puts it until the store has it.
//!
//! The memory is granted before this begins, and the bytes are read only now. During the pause
//! after a failed attempt the bytes stay in memory, since the next attempt needs them at once. The
//! request's permit is released for the pause. The memory's permit is released when the last of the
//! bytes is dropped: the connection may hold some of them after this has ended.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryClass;
use tidegate_core::speed::SpeedVerdict;

use super::chunk_source::{self, ChunkSource};
use super::held::HeldBytes;
use super::ledger::UploadChunk;
use super::send_queue::Load;
use super::source::SourceFile;
use super::transfer::Transfer;
use crate::chunked::{ChunkStore, PutRequest, PutSession, SendProgress};
use crate::error::{Error, ErrorKind, Result};
use crate::read::{SLOW_HINT, floor_of};
use crate::transfer::blob_part::BlobPart;

/// The bytes that a load holds while it is sent, without the store's buffers.
pub(super) fn held_bytes(load: &Load) -> u64 {
    match load {
        Load::Batch(_) => load.len_bytes(),
        Load::Single(piece) => chunk_source::held_bytes(piece.digest.len),
    }
}

/// The bytes that are reserved from the budget for a load.
pub(super) fn paid_bytes(load: &Load, store: &dyn ChunkStore) -> u64 {
    let buffered = match load {
        Load::Batch(_) => store.put_batch_buffer_bytes(load.len_bytes()),
        Load::Single(piece) => store.put_buffer_bytes(piece.digest.len),
    };
    held_bytes(load).saturating_add(buffered)
}

/// Puts a load. Fails with errors that no further attempt can fix.
pub(super) async fn send(transfer: &Transfer, load: Load, held: HeldBytes) -> Result<Load> {
    let _under_way = transfer.progress.begin_unit();
    match &load {
        Load::Batch(pieces) => match send_batch(transfer, pieces, held.clone()).await {
            // A store may not know batches, or may take less than its profile says.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                tracing::debug!(error = error.chain(), "no more batches");
                transfer.batches.store(false, Ordering::Relaxed);
                held.let_go_of_room();
                for piece in pieces {
                    send_single(transfer, piece, held.clone()).await?;
                }
            }
            outcome => outcome?,
        },
        Load::Single(piece) => send_single(transfer, piece, held).await?,
    }
    Ok(load)
}

async fn send_batch(transfer: &Transfer, pieces: &[UploadChunk], held: HeldBytes) -> Result<()> {
    let mut chunks = read(transfer, pieces.to_vec(), held).await?;
    let calls = &transfer.calls.put_batch;
    let mut attempts = calls.begin();
    loop {
        let bytes = chunks.iter().map(|(digest, _)| digest.len).sum();
        let permit = attempts.permit().await?;
        let sent = transfer.started();
        let sending = Sending(transfer.progress.sending(bytes));
        let put = transfer.store.put_batch(&chunks, &sending.0);
        let put = moving(transfer, &sending, bytes, put);
        let put = attempts.within(longest(transfer, bytes), put).await;
        drop((permit, sending));
        let (failing, outcome) = match put {
            Ok(answers) => taken(transfer, &mut chunks, answers),
            Err(error) => (None, Err(error)),
        };
        sent.ended(bytes, &outcome);
        let Err(error) = outcome else { return Ok(()) };
        let failed: HashSet<Digest> = match failing {
            Some(digest) => HashSet::from([digest]),
            None => chunks.iter().map(|(digest, _)| *digest).collect(),
        };
        let is_failed = |piece: &&UploadChunk| failed.contains(&piece.digest);
        let failed: Vec<UploadChunk> = pieces.iter().filter(is_failed).copied().collect();
        if *error.retry() == RetryClass::Never {
            // Perhaps because the file has changed: then that is the error.
            let pieces = pieces.to_vec();
            let compare = move |file: &SourceFile| file.compare(&chunks, &pieces);
            let compared = transfer.file.blocking(compare).await;
            return compared.and(Err(in_part(transfer, &failed, error)));
        }
        if chunks.iter().map(|(digest, _)| digest.len).sum::<u64>() < bytes {
            // The store took some chunks: that is progress, even if they have few bytes.
            attempts.on_bytes(calls.policy.progress_bytes_min);
        }
        let rested = attempts.interrupted(error).await;
        rested.map_err(|error| in_part(transfer, &failed, error))?;
    }
}

/// How long a call that moves `bytes` may take in all, even if it moves them steadily.
fn longest(transfer: &Transfer, bytes: u64) -> Duration {
    transfer.calls.put.patience(bytes).saturating_add(transfer.answer_limit(bytes))
}

/// The outcome of `call`. Fails if nothing moves for the stall limit, or if the upload is too slow.
async fn moving<T>(
    transfer: &Transfer,
    sending: &Sending,
    len: u64,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        biased;
        outcome = call => outcome,
        limit = sending.0.stalled(transfer.stall_limit(), transfer.answer_limit(len)) => {
            let message = format!("nothing moved for {} s", limit.as_secs_f64());
            Err(transfer.error(ErrorKind::Timeout, message).retryable(RetryClass::Now))
        }
        verdict = transfer.floor.too_slow(&sending.0) => Err(too_slow(transfer, verdict)),
    }
}

fn too_slow(transfer: &Transfer, verdict: SpeedVerdict) -> Error {
    let message = floor_of(&transfer.calls.put.policy, "were sent");
    let error = transfer.error(ErrorKind::Timeout, message).retryable(RetryClass::Now);
    if verdict == SpeedVerdict::GiveUp {
        let gave_up = transfer.error(ErrorKind::Exhausted, "gave up: the transfer is too slow");
        return gave_up.caused_by(error).with_hint(SLOW_HINT);
    }
    error
}

/// The progress of one attempt. Its bytes no longer count as in flight once this is dropped.
struct Sending(SendProgress);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Removes the chunks that the store took. Otherwise fails with the error of one chunk, preferably
/// one that cannot be retried, and returns that chunk.
fn taken(
    transfer: &Transfer,
    chunks: &mut Vec<(Digest, Bytes)>,
    answers: Vec<Result<()>>,
) -> (Option<Digest>, Result<()>) {
    let (expected, actual) = (chunks.len(), answers.len());
    if expected != actual {
        let message = format!("expected {expected} answers for {expected} chunks, got {actual}");
        return (None, Err(transfer.error(ErrorKind::Integrity, message)));
    }
    let mut failure: Option<(Digest, Error)> = None;
    let mut answers = answers.into_iter();
    chunks.retain(|(digest, _)| match answers.next() {
        Some(Err(error)) => {
            if failure.is_none() || *error.retry() == RetryClass::Never {
                failure = Some((*digest, error));
            }
            true
        }
        _ => false,
    });
    failure.map_or((None, Ok(())), |(digest, error)| (Some(digest), Err(error)))
}

/// Adds the place of these chunks in the file to the error. An error of the file itself, or a
/// cancellation, is about no chunk and stays as it is.
fn in_part(transfer: &Transfer, pieces: &[UploadChunk], error: Error) -> Error {
    let is_of_file = error.target() == &**transfer.file.name();
    let has_part = is_of_file
        && (error.range().is_some()
            || matches!(error.kind(), ErrorKind::Changed | ErrorKind::Storage));
    if has_part || pieces.is_empty() || error.kind() == ErrorKind::Cancelled {
        return error;
    }
    let part = match pieces {
        [blob] if blob.offset == 0 && blob.digest.len == transfer.file.len() => {
            BlobPart::of_blob(&blob.digest)
        }
        pieces => {
            let chunks: Vec<_> = pieces.iter().map(|piece| (piece.offset, piece.digest)).collect();
            BlobPart::of_batch(&chunks, transfer.file.name())
        }
    };
    part.add_to(error, &transfer.calls.register, "was not taken")
}

/// Reads chunks again, all into one run of memory. If this is dropped, the reading thread keeps the
/// permit until it ends.
async fn read(
    transfer: &Transfer,
    pieces: Vec<UploadChunk>,
    held: HeldBytes,
) -> Result<Vec<(Digest, Bytes)>> {
    let work = move |file: &SourceFile| {
        // The sum fits into memory: the budget has granted it.
        let len = |piece: &UploadChunk| usize::try_from(piece.digest.len).unwrap_or(usize::MAX);
        let mut bytes = held.filled_whole(pieces.iter().map(len).sum(), |mut rest| {
            for piece in &pieces {
                let (chunk, after) = rest.split_at_mut(len(piece));
                file.read(piece.offset, chunk)?;
                rest = after;
            }
            Ok(())
        })?;
        let chunks: Vec<_> =
            pieces.iter().map(|piece| (piece.digest, bytes.split_to(len(piece)))).collect();
        // The caller may have given the digest of a blob that is its own only chunk.
        let is_named = chunks.iter().any(|(digest, _)| file.is_called(digest));
        if file.may_have_changed()? || is_named {
            file.compare(&chunks, &pieces)?;
        }
        Ok(chunks)
    };
    transfer.file.blocking(work).await
}

async fn send_single(transfer: &Transfer, piece: &UploadChunk, held: HeldBytes) -> Result<()> {
    let source = Arc::new(ChunkSource::new(Arc::clone(&transfer.file), piece, held));
    let (calls, mut session) = (&transfer.calls.put, PutSession::default());
    let (len, mut known, mut resume, mut is_anew) = (piece.digest.len, 0, false, false);
    let mut attempts = calls.begin();
    loop {
        let permit = attempts.permit().await?;
        let sending = Sending(transfer.progress.sending(len));
        let request = PutRequest {
            digest: piece.digest,
            session: session.clone(),
            resume,
            source: Arc::clone(&source) as _,
            progress: sending.0.clone(),
        };
        source.begin(&sending.0);
        let sent = transfer.started();
        let put = moving(transfer, &sending, len, transfer.store.put(&request));
        let outcome = attempts.within(longest(transfer, len), put).await;
        drop((permit, sending));
        sent.ended(len, &outcome);
        let Err(error) = outcome else { return Ok(()) };
        if let Some(error) = source.take_failure() {
            return Err(error);
        }
        let is_stuck = resume && !is_anew;
        if is_stuck && may_disagree(&error) {
            (session, known, resume, is_anew) = (PutSession::default(), 0, false, true);
            continue;
        }
        let kept = source.kept().unwrap_or(known);
        attempts.on_bytes(kept.saturating_sub(known));
        let rested = attempts.interrupted(error).await;
        rested.map_err(|error| in_part(transfer, std::slice::from_ref(piece), error))?;
        (known, resume) = (kept.max(known), true);
        if is_stuck && kept == len {
            // The store says that it has all bytes, and does not finish the put.
            (session, known, resume, is_anew) = (PutSession::default(), 0, false, true);
        }
    }
}

/// Whether the store may have refused to continue an upload because it has kept other bytes than it
/// says. A restart under another name either succeeds or shows the error.
fn may_disagree(error: &Error) -> bool {
    let is_final = *error.retry() == RetryClass::Never;
    is_final
        && matches!(
            error.kind(),
            ErrorKind::Invalid
                | ErrorKind::OutOfRange
                | ErrorKind::NotFound
                | ErrorKind::Integrity
                | ErrorKind::Remote
        )
}
