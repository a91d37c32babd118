//! What Remote Asset calls need of origins: a blob as a digest in the function of the request.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use tidegate::store::BlobStore as _;
use tidegate::{Digest, DigestFunction};

use super::fill::Found;
use super::{BlobPath, Origins};
use crate::serve::fill::FillError;
use crate::store::LocalStore;

impl Origins {
    /// Brings a blob into the store. `since_ms` is the oldest confirmation that the caller accepts, in
    /// milliseconds since 1970. Cancel-safe: the fill goes on.
    pub(in crate::serve) async fn bring(
        &self,
        path: &BlobPath,
        since_ms: u64,
    ) -> Result<Digest, Arc<FillError>> {
        match self.find(path, since_ms).await? {
            Found::Stored(digest, _) => Ok(digest),
            Found::Arriving(flight) => flight.ended().await,
        }
    }

    /// The digest of a stored blob in another function. The blob is stored under both. Cancel-safe: the
    /// work goes on.
    pub(in crate::serve) async fn rename(
        &self,
        digest: &Digest,
        function: DigestFunction,
    ) -> Result<Digest, Arc<FillError>> {
        if digest.function == function {
            return Ok(*digest);
        }
        if let Some(known) = self.renamed(digest, function).await.map_err(FillError::Store)? {
            return Ok(known);
        }
        let (origins, digest) = (self.clone(), *digest);
        let flight = self.0.renames.join((digest, function), move |_| async move {
            let copied = origins.copy(&digest, function).await;
            copied.map_err(|error| Arc::new(FillError::Store(error)))
        })?;
        flight.ended().await
    }

    /// The other digest of a blob that was copied before.
    async fn renamed(
        &self,
        digest: &Digest,
        function: DigestFunction,
    ) -> tidegate::Result<Option<Digest>> {
        let Some((_, body)) = self.0.store.value(&rename_name(digest, function)).await? else {
            return Ok(None);
        };
        let text = body.try_collect::<Vec<_>>().await?.concat();
        let text = std::str::from_utf8(&text).ok();
        let Some(known) = text.and_then(|text| Digest::parse(text).ok()) else { return Ok(None) };
        Ok(self.0.store.has(&known).await?.then_some(known))
    }

    async fn copy(&self, digest: &Digest, function: DigestFunction) -> tidegate::Result<Digest> {
        let store: &LocalStore = &self.0.store;
        let mut writer = store.begin_unnamed(function, None);
        let mut body = store.get(digest, 0, &self.0.budget).await?;
        while let Some(piece) = body.try_next().await? {
            let written = tokio::task::spawn_blocking(move || {
                writer.write(&piece)?;
                Ok::<_, tidegate::Error>(writer)
            });
            writer = written.await.map_err(|error| cancelled(digest, error))??;
        }
        let named = tokio::task::spawn_blocking(move || writer.finish()).await;
        let renamed = named.map_err(|error| cancelled(digest, error))??;
        if let Some(value) = store.begin_value(&rename_name(digest, function)) {
            value.write(renamed.to_string().into()).await?.finish().await?;
        }
        Ok(renamed)
    }
}

/// The name of the value that holds the other digest of a blob.
fn rename_name(digest: &Digest, function: DigestFunction) -> Vec<u8> {
    ["", "origin-digest", function.name(), &digest.to_string()].join("\0").into_bytes()
}

/// It panics only if the runtime shuts down.
pub(super) fn cancelled(digest: &Digest, error: tokio::task::JoinError) -> tidegate::Error {
    let message = "the runtime is shutting down";
    let (kind, operation) = (tidegate::ErrorKind::Cancelled, tidegate::Operation::Write);
    tidegate::Error::new(kind, operation, digest.to_string(), message).caused_by(error)
}
