//! What an earlier attempt left in the target's part file, and what becomes of it where this attempt
//! fails before it has begun to write.
//!
//! Invariant: whatever fails or is cancelled while the file is only looked at leaves it as it is,
//! but for one that is empty, which is removed.

use std::sync::Arc;

use crate::chunked::Manifest;
use crate::chunked::seed::{Seeds, part};
use crate::error::{Error, Operation, Result};
use crate::sink::Mark;
use crate::sink::file::PartFile;
use crate::sink::file::part_file::verified_marks;
use crate::sink::file::target::storage_error;
use crate::transfer::attempt::Calls;
use crate::transfer::blocking::blocking;
use crate::transfer::target::Prepared;

/// What a part file that is there already is good for.
#[derive(Default)]
pub(super) struct Resumed {
    /// What stands in its place.
    pub(super) kept: Vec<Mark>,
    /// Chunks that recur, and stand in one of their places.
    pub(super) seeds: Seeds,
}

/// What can be kept of a blob's chunks, if that is `wanted`.
pub(super) async fn chunks(
    prepared: Prepared,
    manifest: &Arc<Manifest>,
    wanted: bool,
    calls: &Calls,
) -> Result<(Prepared, Resumed)> {
    let Prepared::File { part, notes, .. } = prepared else {
        return Ok((prepared, Resumed::default()));
    };
    if !wanted {
        return Ok((Prepared::File { part, found: None, notes }, Resumed::default()));
    }
    let (manifest, calls) = (Arc::clone(manifest), calls.clone());
    blocking(move || match look_at(&part, &manifest, &calls) {
        Ok(resumed) => Ok((Prepared::File { part, found: None, notes }, resumed)),
        Err(error) => {
            let_be(*part);
            Err(error)
        }
    })
    .await
}

/// What can be kept of a blob that comes as a whole, if that is `wanted`.
pub(super) async fn whole(
    prepared: Prepared,
    wanted: bool,
    calls: &Calls,
) -> Result<(Prepared, Vec<Mark>)> {
    let Prepared::File { part, found: Some(found), notes } = prepared else {
        return Ok((prepared, Vec::new()));
    };
    let calls = calls.clone();
    blocking(move || {
        let kept =
            if wanted { verified_marks(&part.file, &found.marks, &calls.cancel) } else { Some(vec![]) };
        // Not all was looked at: the file stays as it is.
        let kept = kept.ok_or_else(|| calls.cancelled())?;
        Ok((Prepared::File { part, found: None, notes }, kept))
    })
    .await
}

/// Nothing was fetched, because of `error`.
pub(super) async fn leave(prepared: Prepared, error: &Error) {
    match prepared {
        Prepared::File { part, .. } => {
            let _ = blocking(move || {
                let_be(*part);
                Ok(())
            })
            .await;
        }
        other => {
            other.abandon(error).await;
        }
    }
}

/// What of a part file is right. Blocks.
fn look_at(part: &PartFile, manifest: &Manifest, calls: &Calls) -> Result<Resumed> {
    let failed = |error| storage_error(Operation::Read, &part.target.display(), error);
    let chunks =
        part::chunks(&part.file, part.ending().journal().as_ref(), manifest, &calls.cancel)
            .map_err(failed)?;
    if calls.cancel.is_cancelled() {
        // Not all was looked at.
        return Err(calls.cancelled());
    }
    let mut resumed = Resumed::default();
    let file = Arc::new(part.reader().map_err(failed)?);
    for (digest, mark) in chunks {
        resumed.seeds.add(digest, &file, mark.start);
        resumed.kept.push(mark);
    }
    Ok(resumed)
}

/// Leaves the file as it is, unless there is nothing in it. Blocks.
fn let_be(part: PartFile) {
    if part.file.metadata().is_ok_and(|found| found.len() == 0) {
        part.remove();
    }
}
