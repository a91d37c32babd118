//! Asks the store once more for what it acknowledged.
//!
//! A store may acknowledge a blob and lose it before it is safe, for instance if it writes later,
//! or evicts as fast as it is filled. One question at the end finds that. It verifies what the
//! store says then, not what the store keeps later.

use std::collections::HashSet;

use tidegate_core::digest::Digest;

use super::ledger::{ChunkStatus, Ledger};
use super::transfer::Transfer;
use crate::error::{ErrorKind, Result};
use crate::report::Form;

/// Digests in one question, as in the earlier ones (see `inquiry`).
const BATCH_MAX: usize = 1024;

/// Chunks that an error names.
const NAMED_MAX: usize = 3;

/// Fails if the store lacks the blob, or chunks that the blob was made of or that this upload has
/// put.
pub(super) async fn confirm(
    transfer: &Transfer,
    ledger: &Ledger,
    blob: Digest,
    outcome: Form,
) -> Result<()> {
    let is_asked = |fate| match outcome {
        Form::Chunks => true,
        Form::Present => fate == ChunkStatus::Sent,
        // An upload to a store has the form of chunks or of one blob.
        Form::Whole | Form::Shards | Form::Parts | Form::Copied => false,
    };
    let chunks = ledger.ids(is_asked).into_iter().filter_map(|id| ledger.piece(id));
    let chunks = chunks.map(|piece| piece.digest).filter(|digest| *digest != blob);
    let asked: Vec<Digest> = std::iter::once(blob).chain(chunks).collect();
    let calls = &transfer.calls.missing;
    let mut lost = HashSet::new();
    for digests in asked.chunks(BATCH_MAX) {
        let missing = calls.attempt(calls.patience(0), |_| transfer.store.missing(digests)).await?;
        lost.extend(missing);
    }
    if lost.is_empty() {
        return Ok(());
    }
    let mut names = Vec::new();
    if lost.contains(&blob) {
        names.push(format!("the blob {blob}"));
    }
    let chunks: Vec<&Digest> = asked[1..].iter().filter(|chunk| lost.contains(chunk)).collect();
    if let Some(first) = chunks.first() {
        let more = chunks[1..].iter().take(NAMED_MAX - 1);
        let shown = more.fold(first.to_string(), |shown, chunk| format!("{shown}, {chunk}"));
        let rest = if chunks.len() > NAMED_MAX { ", and others" } else { "" };
        let (count, total) = (chunks.len(), asked.len() - 1);
        names.push(format!("{count} of {total} chunks ({shown}{rest})"));
    }
    let lacks = names.join(" and ");
    let message = format!("the store acknowledged the upload, and now it lacks {lacks}");
    Err(transfer.error(ErrorKind::Integrity, message).with_hint(
        "upload it again; where that fails, too, the store loses what it acknowledges: it may be \
         full, or evict too early",
    ))
}
