//! The part file of an earlier attempt: finds the bytes that can be kept. Also decides what happens
//! to the file if this attempt fails before it starts to write.
//!
//! Invariant: an error or a cancellation before the first write leaves the file unchanged. An empty
//! file is removed.

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

/// The reusable content of an existing part file.
#[derive(Default)]
pub(super) struct Resumed {
    /// Verified ranges that are already at their place.
    pub(super) kept: Vec<Mark>,
    /// The kept chunks as seeds, to copy them to their other places.
    pub(super) seeds: Seeds,
}

/// Finds the chunks of the blob that the part file holds, if that is `wanted`.
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

/// Finds the verified ranges of a blob that arrives as one stream, if that is `wanted`.
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
        let kept = if wanted {
            verified_marks(&part.file, &found.marks, &calls.cancel)
        } else {
            Some(vec![])
        };
        // The check was cancelled before its end: the file stays unchanged.
        let kept = kept.ok_or_else(|| calls.cancelled())?;
        Ok((Prepared::File { part, found: None, notes }, kept))
    })
    .await
}

/// Releases the target because `error` came before anything was fetched.
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

/// Finds the chunks of a part file that are at their place and correct. Blocks.
fn look_at(part: &PartFile, manifest: &Manifest, calls: &Calls) -> Result<Resumed> {
    let failed = |error| storage_error(Operation::Read, &part.target.display(), error);
    let chunks =
        part::chunks(&part.file, part.ending().journal().as_ref(), manifest, &calls.cancel)
            .map_err(failed)?;
    if calls.cancel.is_cancelled() {
        // The check has not covered all chunks.
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

/// Leaves the file unchanged, or removes it if it is empty. Blocks.
fn let_be(part: PartFile) {
    if part.file.metadata().is_ok_and(|found| found.len() == 0) {
        part.remove();
    }
}
