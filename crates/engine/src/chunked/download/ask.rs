//! The question for a blob's manifest, and when the blob comes as a whole instead.
//!
//! A manifest is not needed: it saves bytes. So a store that fails at this call alone costs no more
//! than the stall limit: it is asked twice, each time for half of that, since the first silence may be
//! a lost connection's. Failures that any other call would meet as well, such as refused credentials
//! or a store that asks for fewer requests, are told.

use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;

use super::fetch::Fetcher;
use crate::chunked::Manifest;
use crate::error::{Error, ErrorKind, Result};

/// Questions without an answer before the blob comes as a whole.
const SILENCES_MAX: u32 = 2;

/// The blob's manifest, where the store has one; with `whole_fallback` also why it comes as a whole
/// although the store may have one.
pub(super) async fn manifest(
    fetcher: &Fetcher,
    blob: &Digest,
    chunking: Option<&Chunking>,
    whole_fallback: bool,
) -> Result<(Option<Manifest>, Option<Error>)> {
    let (store, calls) = (&fetcher.store, &fetcher.calls);
    let budget = &calls.budget;
    if !whole_fallback {
        let limit = calls.patience(0);
        let asked = calls.attempt(limit, |_| store.manifest(blob, chunking, budget)).await;
        return asked.map(|manifest| (manifest, None));
    }
    let limit = calls.patience(0) / SILENCES_MAX;
    let mut attempts = calls.begin();
    let mut silences = 0;
    loop {
        let permit = attempts.permit().await?;
        let asked = store.manifest(blob, chunking, budget);
        let asked = attempts.within(limit, asked).await;
        drop(permit);
        let error = match asked {
            Ok(manifest) => return Ok((manifest, None)),
            Err(error) => error,
        };
        silences += u32::from(error.kind() == ErrorKind::Timeout);
        let ended =
            if silences >= SILENCES_MAX { Err(error) } else { attempts.interrupted(error).await };
        match ended {
            Ok(()) => {}
            Err(error) if is_of_the_question(&error) => return Ok((None, Some(error))),
            Err(error) => return Err(error),
        }
    }
}

/// Whether another call may succeed where this one failed.
fn is_of_the_question(error: &Error) -> bool {
    let kind = match error.kind() {
        ErrorKind::Exhausted => {
            let cause = std::error::Error::source(error);
            cause.and_then(|cause| cause.downcast_ref::<Error>()).map(Error::kind)
        }
        kind => Some(kind),
    };
    matches!(
        kind,
        Some(
            ErrorKind::Integrity
                | ErrorKind::Timeout
                | ErrorKind::Remote
                | ErrorKind::Unsupported
                | ErrorKind::OutOfRange
        )
    )
}
