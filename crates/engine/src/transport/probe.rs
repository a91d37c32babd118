//! What travels with a request: a slot that comes back holding the head of its response, and
//! headers that are put on it last.
//!
//! `object_store` maps responses to its own results and errors and drops the rest: the status of
//! a refused range, `Retry-After`, checksums, the real `Content-Range`. The transport fills the
//! slot before `object_store` sees the response, so that nothing is lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, StatusCode};

/// The head of one response.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseHead {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// From sending the request until the head was there.
    pub(crate) waited: Duration,
    /// Requests that led to it: one, and one more for each redirect.
    pub(crate) requests: u32,
}

impl ResponseHead {
    /// A header's value as text; `None` where it is absent or not text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// The slot; clones share it. Where a request is answered more than once, the last answer stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probe(Arc<Mutex<Slot>>);

#[derive(Debug, Default)]
struct Slot {
    sent: bool,
    head: Option<ResponseHead>,
}

impl Probe {
    /// The request is on its way.
    pub(crate) fn sent(&self) {
        self.lock().sent = true;
    }

    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    /// Whether the request was ever sent: where it was not, what failed came before it, such as
    /// finding credentials.
    pub(crate) fn was_sent(&self) -> bool {
        self.lock().sent
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn fill(&self, head: ResponseHead) {
        self.lock().head = Some(head);
    }

    pub(crate) fn take(&self) -> Option<ResponseHead> {
        self.lock().head.take()
    }
}
