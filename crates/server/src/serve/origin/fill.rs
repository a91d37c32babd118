//! From a request to a blob in the store: fresh, revalidated, or fetched.

use std::sync::Arc;

use tidegate::remote::{BlobInfo, Location};
use tidegate::{Report, Verified};
use tidegate_core::digest::Digest;

use super::entry::{Entry, described};
use super::{BlobPath, Origins, STALE_MAX};
use crate::serve::fill::{Description, FillError, Flight, fetch, retry_policy};

/// How a request was answered, as in the header `Cache-Status` (RFC 9211).
pub(super) const HIT: &str = "tidegate; hit";
const REVALIDATED: &str = "tidegate; fwd=stale; fwd-status=304";
const STALE: &str = "tidegate; hit; detail=origin-down";
pub(super) const FETCHED: &str = "tidegate; fwd=miss; stored";

/// What a request found.
pub(super) enum Found {
    /// It is in the store.
    Stored(Digest, Arc<Description>),
    /// It is on its way.
    Arriving(Arc<Flight>),
}

impl Origins {
    /// A blob that is fresh in the store; else the fill that revalidates or fetches it. A blob that was
    /// confirmed before `since_ms`, in milliseconds since 1970, is not fresh.
    pub(super) async fn find(&self, path: &BlobPath, since_ms: u64) -> Result<Found, FillError> {
        if let Some((entry, digest)) = self.stored(path).await?
            && self.is_fresh(&entry, since_ms)
        {
            return Ok(Found::Stored(digest, Arc::new(entry.description(HIT))));
        }
        let (origins, path) = (self.clone(), path.clone());
        let flight = self.0.flights.join(path.clone(), move |flight| async move {
            let outcome = origins.settle(&path, since_ms, &flight).await;
            outcome.map_err(|error| {
                log(&path, &error);
                Arc::new(error)
            })
        })?;
        Ok(Found::Arriving(flight))
    }

    /// What is known of a blob without its bytes: from the store, from a fill, or from the remote.
    pub(super) async fn facts(&self, path: &BlobPath) -> Result<Arc<Description>, Arc<FillError>> {
        let stored = self.stored(path).await?;
        if let Some((entry, _)) = &stored
            && self.is_fresh(entry, 0)
        {
            return Ok(Arc::new(entry.description(HIT)));
        }
        if stored.is_some() || self.0.flights.find(path).is_some() {
            let Found::Arriving(flight) = self.find(path, 0).await? else {
                return Box::pin(self.facts(path)).await;
            };
            return flight.described().await;
        }
        let info = self.ask(&self.locate(path)?).await.inspect_err(|error| log(path, error))?;
        Ok(Arc::new(described(&info, "tidegate; fwd=miss")))
    }

    fn is_fresh(&self, entry: &Entry, since_ms: u64) -> bool {
        entry.is_fresh(self.0.options.fresh_for) && entry.is_since(since_ms)
    }

    /// The entry of a blob whose bytes are in the store.
    async fn stored(&self, path: &BlobPath) -> Result<Option<(Entry, Digest)>, FillError> {
        let Some(entry) = self.entry(path).await.map_err(FillError::Store)? else {
            return Ok(None);
        };
        let Some(digest) = entry.digest() else { return Ok(None) };
        let is_there = self.0.store.has(&digest).await.map_err(FillError::Store)?;
        Ok(is_there.then_some((entry, digest)))
    }

    /// The work of a fill.
    async fn settle(
        &self,
        path: &BlobPath,
        since_ms: u64,
        flight: &Arc<Flight>,
    ) -> Result<Digest, FillError> {
        let location = self.locate(path)?;
        let stored = self.stored(path).await?;
        if let Some((entry, digest)) = stored {
            // Another fill may have ended since the request looked.
            if self.is_fresh(&entry, since_ms) {
                flight.describe(entry.description(HIT));
                return Ok(digest);
            }
            match self.ask(&location).await {
                Ok(info) if entry.is_same(&info) => {
                    let entry = entry.confirmed();
                    self.put_entry(path, &entry).await.map_err(FillError::Store)?;
                    flight.describe(entry.description(REVALIDATED));
                    return Ok(digest);
                }
                Ok(_changed) => {}
                Err(error)
                    if error.is_temporary()
                        && entry.is_fresh(STALE_MAX)
                        && entry.is_since(since_ms) =>
                {
                    log(path, &error);
                    flight.describe(entry.description(STALE));
                    return Ok(digest);
                }
                Err(error) => return Err(self.forget(path, error).await),
            }
        }
        match self.fetch(path, &location, flight).await {
            Ok(digest) => Ok(digest),
            Err(error) => Err(self.forget(path, error).await),
        }
    }

    /// Drops the entry of a blob that the remote does not have any more.
    async fn forget(&self, path: &BlobPath, error: FillError) -> FillError {
        if error.remote_kind() == Some(tidegate::ErrorKind::NotFound)
            && let Err(failed) = self.remove_entry(path).await
        {
            return FillError::Store(failed);
        }
        error
    }

    async fn fetch(
        &self,
        path: &BlobPath,
        location: &Location,
        flight: &Arc<Flight>,
    ) -> Result<Digest, FillError> {
        let (client, store) = (&self.0.client, &self.0.store);
        let describe = |info: &BlobInfo| flight.describe(described(info, FETCHED));
        let fetched = fetch(client, store, location, None, flight, describe).await?;
        let verified_by = verified_by(path, location, &fetched.report);
        let entry = Entry::new(&fetched.digest, &fetched.report.info, verified_by);
        self.put_entry(path, &entry).await.map_err(FillError::Store)?;
        // A blob without a version gets its tag from its bytes.
        flight.describe(entry.description(FETCHED));
        Ok(fetched.digest)
    }

    /// The remote's facts, in one request that moves no bytes of the blob.
    async fn ask(&self, location: &Location) -> Result<BlobInfo, FillError> {
        self.0.client.stat(location).retry(retry_policy()).await.map_err(FillError::Remote)
    }

    fn locate(&self, path: &BlobPath) -> Result<Location, FillError> {
        self.0.client.locate(&self.url(path)).map_err(FillError::Remote)
    }
}

/// The checksums that were compared. A blob without any has the length and the version that the
/// remote said, and the log says so.
fn verified_by(path: &BlobPath, location: &Location, report: &Report) -> Vec<String> {
    if let Some(reason) = report.verified.reason() {
        let (origin, blob) = (&path.origin, location.display());
        tracing::info!(origin, blob, %reason, "fetched without a checksum of the remote");
    }
    match &report.verified {
        Verified::ByParts(parts) => vec![parts.to_string()],
        verified => verified.checksums().iter().map(|sum| sum.algorithm().to_string()).collect(),
    }
}

/// Writes a failure to the log. The error names the blob, without secrets.
fn log(path: &BlobPath, error: &FillError) {
    let (origin, chain) = (&path.origin, error.chain());
    if error.remote_kind() == Some(tidegate::ErrorKind::NotFound) {
        tracing::debug!(origin, error = chain, "the origin has no such blob");
    } else {
        tracing::warn!(origin, error = chain, "a blob of an origin was not fetched");
    }
}
