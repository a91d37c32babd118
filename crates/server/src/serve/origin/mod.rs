//! `/origin/NAME/PATH`: blobs of remotes, served from the store and filled on a miss.
//!
//! | file | idea |
//! |---|---|
//! | `options` | [`OriginOptions`]: names, URLs, how long a version counts as fresh |
//! | `path` | [`BlobPath`]: what a request names, and its URL at the remote |
//! | `entry` | [`Entry`]: the version, length and digest of a blob, kept in the store |
//! | `fill` | from a request to an entry: fresh, revalidated, or fetched |
//! | `uri`, `asset`, `integrity` | what Remote Asset calls need: the origin of a URI, a digest of its blob, the checksum that a client expects |
//! | `notes` | whether a response was a hit, for the observer |
//! | `respond` | the responses: ranges, entity tags, a body that arrives |
//!
//! The bytes of a blob are a blob of the store like any other, by its SHA-256. The entry is an opaque
//! value of the store beside it; it survives a restart. Eviction may take either; then the blob is
//! fetched again.
//!
//! A version is fresh for a time after the remote has confirmed it. Later, the next request asks the
//! remote for the facts about the blob, without its bytes, and compares the version. If the remote
//! cannot be reached, what is stored is served for at most [`STALE_MAX`] after the last confirmation.
//! A remote that says that the blob is gone, or that it has another version, is believed at once.

mod asset;
mod entry;
mod fill;
mod integrity;
mod notes;
mod options;
mod path;
mod respond;
mod uri;

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Budget, Client, Digest, DigestFunction};

pub(super) use self::notes::noted;
pub(super) use integrity::Integrity;
pub use options::{Origin, OriginOptions};
pub(super) use path::BlobPath;

use super::fill::Flights;
use crate::store::LocalStore;

/// How long a blob is served after the last confirmation if its remote is down: a day, in which a
/// person sees that it is.
const STALE_MAX: Duration = Duration::from_hours(24);

/// The origins of a server. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Origins(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: OriginOptions,
    client: Client,
    store: LocalStore,
    /// Pays for responses.
    budget: Budget,
    flights: Flights<BlobPath>,
    /// Copies of blobs under another digest.
    renames: Flights<(Digest, DigestFunction)>,
}

impl Origins {
    /// Origins over a store. `fills` is the memory of fills, and `budget` that of responses.
    pub(super) fn new(
        options: OriginOptions,
        store: LocalStore,
        budget: Budget,
        fills: Budget,
    ) -> Self {
        let client = Client::new(options.client.clone().budget(fills));
        Self(Arc::new(Shared {
            options,
            client,
            store,
            budget,
            flights: Flights::new(),
            renames: Flights::new(),
        }))
    }

    /// Whether a path is theirs. Without origins, none is.
    pub(super) fn has(&self, path: &str) -> bool {
        !self.0.options.origins.is_empty() && path.starts_with("/origin/")
    }

    /// Ends all fills and waits for their tasks.
    pub(super) async fn stop(&self) {
        self.0.flights.stop().await;
        self.0.renames.stop().await;
    }
}
