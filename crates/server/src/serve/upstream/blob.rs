//! One blob of the upstream: waited for, or followed while it arrives.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tidegate::Digest;
use tidegate::remote::Body;
use tidegate::store::not_found;

use super::{ANSWER_TIME_MAX, Upstream};
use crate::serve::fill::{Description, FillError, Flight, FollowState, fetch, follow};

/// Blobs of one call that are waited for at a time.
const TOGETHER: usize = 16;

/// A blob up to this length is verified before its first byte is delivered, so that a failure is a
/// miss. A longer one is delivered while it arrives: it would take a second at 10 MiB/s and more.
const WHOLE_BYTES_MAX: u64 = 8 << 20;

impl Upstream {
    /// Fills a blob; `false` if the upstream does not give it. Cancel-safe: the fill goes on.
    pub(in crate::serve) async fn fill(&self, digest: &Digest) -> bool {
        let Some(flight) = self.begin(digest).await else { return false };
        flight.ended().await.is_ok()
    }

    /// Fills those of these blobs that the store lacks. Cancel-safe: the fills go on.
    pub(in crate::serve) async fn fill_missing(
        &self,
        digests: Vec<Digest>,
    ) -> tidegate::Result<()> {
        let present = self.0.store.present(digests.clone()).await?;
        let missing = digests.into_iter().zip(present).filter(|(_, is_there)| !is_there);
        let missing = missing.map(|(digest, _)| digest);
        let fill = |digest| async move {
            // What is not filled is a miss.
            let _ = self.fill(&digest).await;
        };
        stream::iter(missing).for_each_concurrent(TOGETHER, fill).await;
        Ok(())
    }

    /// A blob that the store lacks, from `offset` on: `None` if the upstream does not give it.
    pub(in crate::serve) async fn open(&self, digest: &Digest, offset: u64) -> Option<Body> {
        let flight = self.begin(digest).await?;
        if digest.len <= WHOLE_BYTES_MAX {
            flight.ended().await.ok()?;
        }
        let (store, budget) = (self.0.store.clone(), self.0.budget.clone());
        let range = offset..digest.len;
        let pieces = follow(FollowState { flight, store, budget, range, takes_unverified: false });
        // A client asks for a missing blob elsewhere, or makes it again.
        let digest = *digest;
        Some(pieces.map_err(move |error| not_found(&digest).caused_by(error)).boxed())
    }

    /// The fill of a blob, after the upstream has answered that it has it.
    async fn begin(&self, digest: &Digest) -> Option<Arc<Flight>> {
        if self.is_down() {
            return None;
        }
        let (upstream, digest) = (self.clone(), *digest);
        let joined = self.0.blobs.join(digest, move |flight| async move {
            let fetched = upstream.fetch(&digest, &flight).await;
            fetched.map_err(|error| {
                upstream.failed(&digest, &error);
                Arc::new(error)
            })
        });
        let flight = joined.inspect_err(|error| self.failed(&digest, error)).ok()?;
        match tokio::time::timeout(ANSWER_TIME_MAX, flight.described()).await {
            Ok(described) => described.ok()?,
            Err(_late) => {
                tracing::warn!(%digest, "the upstream did not answer in time");
                self.is_late();
                return None;
            }
        };
        Some(flight)
    }

    async fn fetch(&self, digest: &Digest, flight: &Arc<Flight>) -> Result<Digest, FillError> {
        let url = self.0.cache.url().with_digest(Some(*digest)).to_string();
        let location = self.0.client.locate(&url).map_err(FillError::Remote)?;
        let described = Description { len: Some(digest.len), ..Description::default() };
        let fetched =
            fetch(&self.0.client, &self.0.store, &location, Some(*digest), flight, |_| {
                flight.describe(described);
            });
        Ok(fetched.await?.digest)
    }
}
