//! `--upstream`: what this cache lacks is filled from another cache of the Remote Execution API.
//!
//! | file | idea |
//! |---|---|
//! | `blob` | one blob: waited for, or followed while it arrives |
//! | `action` | an action result, with everything that it needs |
//! | `by_hash` | the length of a blob that HTTP names by its hash alone |
//! | `outage` | whether the upstream was down a moment ago |
//!
//! Reads are filled: `ByteStream.Read`, `BatchReadBlobs`, `GET /cas/HASH` and `GetActionResult`.
//! `FindMissingBlobs` answers for this store only. A client asks it what to upload, and a blob that it
//! uploads here is here for sure; one that only the upstream has may be gone when it is needed.
//!
//! An action result is a hit only after all that it needs was filled, for the same reason.
//!
//! A cache that fails is a miss, never an error of a build: a failure of the upstream is written to the
//! log, and the call answers as if there were none. After an outage, the upstream is left alone for a
//! while, so that each miss does not wait for it.

mod action;
mod blob;
mod by_hash;
mod outage;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tidegate::remote::reapi::ReapiCache;
use tidegate::{Budget, Client, ClientOptions, Digest, Result};

use self::outage::Outage;
use super::fill::{FillError, Flights};
use crate::store::LocalStore;

/// How long a call waits for the first response of the upstream. A cache on another continent answers
/// in a second.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// An action by the instance and its digest.
type ActionKey = (String, Digest);

/// The upstream of a server. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Upstream(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    client: Client,
    cache: ReapiCache,
    store: LocalStore,
    /// Pays for responses.
    budget: Budget,
    blobs: Flights<Digest>,
    actions: Flights<ActionKey>,
    outage: Outage,
    /// The upstream does not answer HTTP at its address.
    lacks_http: AtomicBool,
}

impl Upstream {
    /// The cache at `url`. `fills` is the memory of fills, and `budget` that of responses.
    pub(super) fn new(
        url: &str,
        options: ClientOptions,
        store: LocalStore,
        budget: Budget,
        fills: Budget,
    ) -> Result<Self> {
        let client = Client::new(options.budget(fills));
        let cache = client.cache(url)?;
        Ok(Self(Arc::new(Shared {
            client,
            cache,
            store,
            budget,
            blobs: Flights::new(),
            actions: Flights::new(),
            outage: Outage::default(),
            lacks_http: AtomicBool::new(false),
        })))
    }

    /// Ends all fills and waits for their tasks.
    pub(super) async fn stop(&self) {
        self.0.actions.stop().await;
        self.0.blobs.stop().await;
    }

    /// Whether the upstream was down a moment ago.
    fn is_down(&self) -> bool {
        self.0.outage.is_on(Instant::now())
    }

    /// The upstream did not answer in time.
    fn is_late(&self) {
        self.0.outage.begin(Instant::now());
    }

    /// Writes a failure to the log, and remembers an outage.
    fn failed(&self, what: &Digest, error: &FillError) {
        if error.remote_kind() == Some(tidegate::ErrorKind::NotFound) {
            return;
        }
        tracing::warn!(%what, error = error.chain(), "the upstream gave nothing");
        if error.is_temporary() {
            self.0.outage.begin(Instant::now());
        }
    }
}
