//! The state that all connections of a server share: options, blobs, script, log and counts.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use tokio::sync::watch;

use crate::{
    flavour::Dialect,
    log::Log,
    options::ServerOptions,
    random::key,
    script::Script,
    store::Store,
    write::{Blocks, Races, Sessions, Uploads},
};

pub(crate) struct Origin {
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) options: ServerOptions,
    pub(crate) store: Store,
    pub(crate) script: Script,
    pub(crate) log: Log,
    pub(crate) uploads: Uploads,
    pub(crate) sessions: Sessions,
    pub(crate) blocks: Blocks,
    pub(crate) races: Races,
    pub(crate) counts: watch::Sender<Counts>,
    open: AtomicUsize,
    accepted: AtomicU64,
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Origin").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Requests so far and now.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) requests: usize,
    pub(crate) in_service: usize,
    pub(crate) in_service_peak: usize,
}

impl Origin {
    pub(crate) fn new(options: ServerOptions) -> Self {
        Self {
            dialect: options.flavour.dialect(),
            store: Store::new(options.versioning),
            script: Script::default(),
            log: Log::default(),
            uploads: Uploads::new(options.seed),
            sessions: Sessions::new(options.seed),
            blocks: Blocks::default(),
            races: Races::default(),
            counts: watch::Sender::new(Counts::default()),
            open: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            options,
        }
    }

    /// The bucket of a path with the slash after it, or the whole path if it has no bucket.
    pub(crate) fn bucket<'a>(&self, path: &'a str) -> &'a str {
        let mut slashes = path.match_indices('/').map(|(at, _)| at);
        let end = slashes.nth(self.dialect.bucket_segments());
        end.and_then(|end| path.get(..=end)).unwrap_or(path)
    }

    pub(crate) fn connections_open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    pub(crate) fn connections_accepted(&self) -> u64 {
        self.accepted.load(Ordering::Acquire)
    }

    /// Milliseconds before the response to this request of this connection.
    pub(crate) fn latency_ms(&self, connection: u64, request: u64) -> u64 {
        let profile = self.options.profile;
        let parts = [&connection.to_le_bytes()[..], &request.to_le_bytes()[..]];
        let jitter = key(self.options.seed, &parts) % profile.jitter_ms.saturating_add(1).max(1);
        profile.latency_ms.saturating_add(jitter)
    }
}

/// Counts a connection as open while it lives.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    origin: Arc<Origin>,
    pub(crate) number: u64,
}

impl OpenConnection {
    pub(crate) fn new(origin: Arc<Origin>) -> Self {
        let number = origin.accepted.fetch_add(1, Ordering::AcqRel) + 1;
        origin.open.fetch_add(1, Ordering::AcqRel);
        Self { origin, number }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.origin.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Counts a request as in service while it lives.
#[derive(Debug)]
pub(crate) struct InService(Arc<Origin>);

impl InService {
    pub(crate) fn new(origin: &Arc<Origin>) -> Self {
        origin.counts.send_modify(|counts| {
            counts.requests += 1;
            counts.in_service += 1;
            counts.in_service_peak = counts.in_service_peak.max(counts.in_service);
        });
        Self(Arc::clone(origin))
    }
}

impl Drop for InService {
    fn drop(&mut self) {
        self.0.counts.send_modify(|counts| counts.in_service -= 1);
    }
}
