//! What an operator sees of the server: metrics, the status, logs with the names of requests.
//!
//! | file | idea |
//! |---|---|
//! | `exchange` | a connection, and a request from its head to the end of its response |
//! | `request_body` | the body of a request: counted, and refused when its client stalls |
//! | `call` | the closed set of calls; what a handler says of its request |
//! | `outcome` | the closed set of ends of a request |
//! | `counters` | what requests count, in shards |
//! | `request_id` | a name for each request |
//! | `metadata` | what clients of the Remote Execution API say of a request |
//! | `invocations`, `hot`, `largest`, `failures` | tables of bounded size |
//! | `series` | the last hour |
//! | `survey` | what is stored |
//! | `snapshot` | everything at one time |
//! | `metrics` | `/metrics`: the snapshot for Prometheus |
//! | `status` | `/status`: the snapshot as JSON |
//! | `page` | `/`: the status for people |
//! | `routes` | which of these a request asks for |
//!
//! ```text
//!   connection -> exchange -> counters, invocations, failures
//!                                        |
//!   /metrics, /status, / <- snapshot <---+--- store, budget
//! ```
//!
//! Invariants:
//! - The memory of all tables is a constant, whatever clients send.
//! - A request adds to atomic counters. It takes a lock only for its invocation, if it names one, and
//!   for its failure. No lock is held across an await.
//! - No name of a client's value is shown. Hashes of blobs are.

mod call;
mod counters;
mod exchange;
mod failures;
mod hot;
mod invocations;
mod largest;
mod metadata;
mod metrics;
mod outcome;
mod page;
mod request_body;
mod request_id;
mod routes;
mod series;
mod snapshot;
mod status;
mod survey;
mod time;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tidegate_core::digest::Digest;

pub(crate) use self::call::{
    CallName, CallNotes, HttpAction, Lookups, MissReason, RefusalReason, StatusMark, ValueKind,
};
use self::counters::Counters;
pub(in crate::serve) use self::exchange::{Exchange, ObservedConnection};
use self::failures::Failures;
use self::hot::HotBlobs;
use self::invocations::Invocations;
pub(in crate::serve) use self::metadata::MetadataHeader;
use self::outcome::Outcome;
pub(in crate::serve) use self::request_body::{RequestBody, RequestBodyError};
use self::request_id::RequestIds;
pub(in crate::serve) use self::routes::{OperatorPath, OperatorRoutes};
use self::series::{STEP, STEPS_MAX, Series, Sums};

/// Connections.
#[derive(Debug, Default)]
struct Connections {
    open: AtomicU64,
    accepted: AtomicU64,
    /// Connections beyond the limit of their client.
    refused: AtomicU64,
}

/// What the server counts and remembers for its operator.
#[derive(Debug)]
pub(in crate::serve) struct Observer {
    counters: Counters,
    connections: Connections,
    ids: RequestIds,
    invocations: Invocations,
    failures: Failures,
    hot: HotBlobs,
    series: Mutex<Series>,
    begun: Instant,
    begun_unix: u64,
}

impl Observer {
    pub(in crate::serve) fn new() -> Arc<Self> {
        Arc::new(Self {
            counters: Counters::new(),
            connections: Connections::default(),
            ids: RequestIds::new(),
            invocations: Invocations::default(),
            failures: Failures::default(),
            hot: HotBlobs::default(),
            series: Mutex::default(),
            begun: Instant::now(),
            begun_unix: time::unix_seconds(),
        })
    }

    /// A connection begins.
    pub(in crate::serve) fn connect(self: &Arc<Self>) -> Arc<ObservedConnection> {
        ObservedConnection::new(Arc::clone(self))
    }

    /// A connection is beyond the limit of its client.
    pub(in crate::serve) fn refuse_connection(&self) {
        self.connections.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// A client reads a blob.
    pub(in crate::serve) fn read(&self, digest: &Digest) {
        self.hot.add(digest);
    }

    /// Keeps the last hour. Never ends.
    pub(in crate::serve) async fn keep_series(self: Arc<Self>) {
        let mut steps = 0;
        let mut every = tokio::time::interval(STEP);
        // The first tick is now.
        every.tick().await;
        loop {
            every.tick().await;
            let sums = self.sums();
            self.series.lock().unwrap_or_else(PoisonError::into_inner).push(sums);
            steps = (steps + 1) % STEPS_MAX;
            if steps == 0 {
                self.hot.age();
            }
        }
    }

    /// The sums of all calls of clients.
    fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for call in CallName::all().filter(|name| *name != CallName::Operator) {
            let totals = self.counters.call(call);
            sums.requests += totals.count();
            let outcomes = totals.outcomes.iter().enumerate();
            let errors = outcomes.filter(|(index, _)| Outcome::at(*index).is_error(call));
            sums.errors += errors.map(|(_, count)| count).sum::<u64>();
            sums.received_bytes += totals.received_bytes;
            sums.sent_bytes += totals.sent_bytes;
        }
        for kind in ValueKind::ALL {
            let totals = self.counters.kind(kind);
            sums.hits += totals.hits;
            sums.misses += totals.misses.iter().sum::<u64>();
        }
        sums
    }
}
