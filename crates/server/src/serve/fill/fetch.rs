//! One download of the engine into the store.

use std::sync::Arc;

use tidegate::remote::{BlobInfo, Location};
use tidegate::{ChunkPolicy, Client, Error, ErrorKind, Operation, Report, Target};
use tidegate_core::digest::Digest;
use tokio::sync::watch;

use super::intake::Intake;
use super::{FillError, Flight, retry_policy};
use crate::store::LocalStore;

/// Shards of one blob in flight.
const WINDOW: u32 = 8;

/// The smallest shard and the largest. 8 of 4 MiB fill a link of 1 GiB/s at 20 ms.
const SHARD_BYTES_MIN: u64 = 4 << 20;
const SHARD_BYTES_MAX: u64 = 16 << 20;

/// A blob that was fetched, verified and named.
pub(in crate::serve) struct Fetched {
    pub(in crate::serve) digest: Digest,
    pub(in crate::serve) report: Report,
}

/// Downloads a blob into the store. `described` is called with the first response, before any byte is
/// written. The blob gets its name only after the engine has verified it.
///
/// CANCEL: dropping the future ends the download and names nothing.
pub(in crate::serve) async fn fetch(
    client: &Client,
    store: &LocalStore,
    location: &Location,
    expected: Option<Digest>,
    flight: &Arc<Flight>,
    described: impl FnOnce(&BlobInfo),
) -> Result<Fetched, FillError> {
    let intake = Intake::new(store, expected, Arc::clone(flight));
    let (describe, mut description) = watch::channel(None);
    let name = "the store".to_owned();
    let target = Target::Writer { writer: Box::new(intake.clone()), name };
    let download = client
        .download(location, target)
        .window(WINDOW)
        .shard_bytes_min(SHARD_BYTES_MIN)
        .shard_bytes_max(SHARD_BYTES_MAX)
        .chunks(ChunkPolicy::Never)
        .retry(retry_policy())
        .describe(describe);
    let mut download = download.into_future();
    let mut described = Some(described);
    let downloaded = loop {
        tokio::select! {
            biased;
            changed = description.changed(), if described.is_some() => {
                let info = description.borrow_and_update().clone();
                match (changed, info) {
                    (Ok(()), Some(info)) => described.take().map(|call| call(&info)),
                    // The download has ended without a description.
                    _ => described.take().map(drop),
                };
            }
            downloaded = &mut download => break downloaded,
        }
    };
    let report = downloaded.map_err(|error| match intake.take_failure() {
        Some(failure) => FillError::Store(failure),
        None => FillError::Remote(error),
    })?;
    if let (Some(described), Some(info)) = (described, description.borrow().as_ref()) {
        described(info);
    }
    let writer = intake.take().ok_or_else(|| lost(location))?;
    if writer.len() != report.bytes {
        return Err(lost(location));
    }
    // It panics only if the runtime shuts down.
    let named = tokio::task::spawn_blocking(move || writer.finish()).await;
    let digest =
        named.map_err(|_ended| FillError::Stopped)?.map_err(|error| match error.kind() {
            // The bytes are those of the remote, so it has other bytes under the digest.
            ErrorKind::Integrity => FillError::Remote(error),
            _ => FillError::Store(error),
        })?;
    Ok(Fetched { digest, report })
}

fn lost(location: &Location) -> FillError {
    let message = "the download delivered another number of bytes";
    let target = location.display();
    FillError::Remote(Error::new(ErrorKind::Integrity, Operation::Download, target, message))
}
