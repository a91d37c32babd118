//! [`manifest`]: requests the manifest of a blob, and decides when the blob arrives as one stream
//! instead.
//!
//! A manifest is optional: it only saves bytes. So a store that does not respond to this one call
//! costs at most one call timeout (`Calls::patience`). The store is asked twice, each time with
//! half of that timeout, because the first timeout may come from a lost connection. Errors that
//! every other call would meet as well are returned, such as refused credentials or throttling.

use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;

use super::fetch::Fetcher;
use crate::chunked::Manifest;
use crate::error::{Error, ErrorKind, Result};

/// After this many timeouts the blob arrives as one stream.
const SILENCES_MAX: u32 = 2;

/// Returns the manifest if the store has one. With `whole_fallback` it may return an error instead:
/// the reason why the blob arrives as one stream although the store may have a manifest.
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

/// Whether the error belongs to this call alone, so that other calls may succeed.
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
