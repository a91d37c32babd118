//! The last stage: the store makes the blob of its chunks. It may have lost some of them by then.
//!
//! A store may lose a chunk after it has said that it has it. Then the store is asked again, and
//! the missing chunks are sent again.
//!
//! A store may also say that it has a chunk that it cannot use, for instance a chunk that it only
//! knows as a blob made of chunks. To ask again gives the same response. So if the store lacks
//! nothing and still reports a missing chunk, chunks are sent without asking: first those that the
//! store said it had, then all. Both end after `ROUNDS_MAX` rounds.

use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;

use super::ledger::ChunkStatus;
use super::pipeline::Pipeline;
use super::source::SourceFile;
use super::transfer::Transfer;
use crate::chunked::{Manifest, Registered};
use crate::error::{Error, ErrorKind, Result};

/// How often lost chunks are sent again. A store that loses them faster than they are sent is full.
const ROUNDS_MAX: u32 = 3;

/// Makes `blob` of its chunks. The store should have all of them. `chunking` is how they were cut,
/// if the store knows that chunking. Returns how often some chunks were missing.
pub(super) async fn register(
    transfer: &Transfer,
    pipeline: &mut Pipeline,
    blob: Digest,
    chunking: Option<Chunking>,
) -> Result<u32> {
    let chunks = pipeline.ledger().chunks();
    let manifest = Manifest::new(blob, chunks, chunking).map_err(|error| {
        transfer.error(ErrorKind::Integrity, "its chunks do not make it up").caused_by(error)
    })?;
    let mut resend = Resend::Missing;
    for round in 0..=ROUNDS_MAX {
        transfer.file.blocking(SourceFile::check_unchanged).await?;
        let calls = &transfer.calls.register;
        let limit = transfer.answer_limit(blob.len);
        let registered = calls.attempt(limit, |_| transfer.store.register(&manifest)).await;
        match registered? {
            Registered::Done => return Ok(round),
            Registered::ChunkMissing if round == ROUNDS_MAX => break,
            Registered::ChunkMissing => {}
        }
        tracing::debug!(blob = %blob, round, ?resend, "chunks are missing");
        resend = send_again(pipeline, resend).await?;
    }
    Err(lost(transfer, pipeline, resend))
}

/// Which chunks are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resend {
    /// Those that the store says are missing.
    Missing,
    /// Those that this upload has not sent, whatever the store says.
    Unsent,
    /// All of them.
    All,
}

/// Sends the chunks that the store lacks. If it says that it lacks none, sends those that it may
/// lack.
async fn send_again(pipeline: &mut Pipeline, resend: Resend) -> Result<Resend> {
    if resend == Resend::Missing {
        let all = pipeline.ledger().ids(|_| true);
        let before = pipeline.delivered_chunks();
        pipeline.again(&all, false).await?;
        if pipeline.delivered_chunks() > before {
            return Ok(Resend::Missing);
        }
    }
    let unsent = pipeline.ledger().ids(|fate| fate != ChunkStatus::Sent);
    if resend == Resend::Missing && !unsent.is_empty() {
        pipeline.again(&unsent, true).await?;
        return Ok(Resend::Unsent);
    }
    let all = pipeline.ledger().ids(|_| true);
    pipeline.again(&all, true).await?;
    Ok(Resend::All)
}

fn lost(transfer: &Transfer, pipeline: &Pipeline, resend: Resend) -> Error {
    let (distinct, _) = pipeline.ledger().count(|_| true);
    let (kind, message) = if resend == Resend::Missing {
        let message = format!(
            "the store lost chunks as fast as they were sent: {ROUNDS_MAX} times some of \
             {distinct} were missing when the blob was to be made of them"
        );
        (ErrorKind::Exhausted, message)
    } else {
        let message = format!(
            "the store says that it has all {distinct} chunks, and that it cannot make the blob of \
             them because one is missing, even after they were sent again"
        );
        (ErrorKind::Integrity, message)
    };
    transfer.error(kind, message).with_hint("the store may be full, or damaged")
}
