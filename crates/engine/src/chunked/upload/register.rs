//! The last stage: the blob is made of its chunks, which may have gone in the meantime.
//!
//! A store may lose a chunk between saying that it has it and making a blob of it; then it is asked
//! again, and what it lacks is sent again. A store may also say that it has a chunk that it cannot
//! use, for instance one that it knows as a blob made of chunks itself; asking again says the same
//! again. So where the store lacks nothing and yet finds something missing, chunks are sent
//! whatever it says: those first that it said it had, then all. Both end after some rounds.

use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;

use super::ledger::Fate;
use super::pipeline::Pipeline;
use super::source::SourceFile;
use super::transfer::Transfer;
use crate::chunked::{Manifest, Registered};
use crate::error::{Error, ErrorKind, Result};

/// How often lost chunks are sent again: a store that loses them faster than they come is full.
const ROUNDS_MAX: u32 = 3;

/// Makes `blob` of its chunks, all of which are there, cut by `chunking` where the store knows that. Gives how often some were not.
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
    let mut doubt = Doubt::None;
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
        tracing::debug!(blob = %blob, round, ?doubt, "chunks are missing");
        doubt = bring_again(pipeline, doubt).await?;
    }
    Err(lost(transfer, pipeline, doubt))
}

/// Which of the store's claims to have a chunk are not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    None,
    /// About those that this upload has not sent.
    Unsent,
    All,
}

/// Sends what the store lacks, or, where it says that this is nothing, what it must lack.
async fn bring_again(pipeline: &mut Pipeline, doubt: Doubt) -> Result<Doubt> {
    if doubt == Doubt::None {
        let all = pipeline.ledger().ids(|_| true);
        let before = pipeline.brought();
        pipeline.again(&all, false).await?;
        if pipeline.brought() > before {
            return Ok(Doubt::None);
        }
    }
    let unsent = pipeline.ledger().ids(|fate| fate != Fate::Sent);
    if doubt == Doubt::None && !unsent.is_empty() {
        pipeline.again(&unsent, true).await?;
        return Ok(Doubt::Unsent);
    }
    let all = pipeline.ledger().ids(|_| true);
    pipeline.again(&all, true).await?;
    Ok(Doubt::All)
}

fn lost(transfer: &Transfer, pipeline: &Pipeline, doubt: Doubt) -> Error {
    let (distinct, _) = pipeline.ledger().count(|_| true);
    let (kind, message) = if doubt == Doubt::None {
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
