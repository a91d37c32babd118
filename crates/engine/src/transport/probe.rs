//! [`Probe`]: travels through `object_store` with a request. It carries headers that are added
//! last, and a slot that returns the response.
//!
//! `object_store` maps responses to its own results and errors and drops the rest: the status of a
//! refused range, `Retry-After`, checksums, the real `Content-Range`, and the body of a response
//! that is longer or shorter than the request. So the transport puts a successful response here,
//! with its body, and hides it from `object_store`. Of an error response it copies the head only,
//! because `object_store` reads the body of an error.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, StatusCode};

use super::{Added, ResponseBody};

/// The head of one response.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseHead {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Time from sending the request until the head arrived.
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

/// The slot; clones share it. If a request has several responses, the last one stays.
#[derive(Clone, Default)]
pub(crate) struct Probe(Arc<Carried>);

#[derive(Default)]
struct Carried {
    added: Added,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    sent: bool,
    answer: Option<(ResponseHead, Option<ResponseBody>)>,
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The headers may be secret.
        f.debug_struct("Probe").field("sent", &self.lock().sent).finish_non_exhaustive()
    }
}

impl Probe {
    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    /// A probe whose request gets these headers.
    pub(crate) fn new(added: Added) -> Self {
        Self(Arc::new(Carried { added, slot: Mutex::default() }))
    }

    pub(super) fn added(&self) -> &Added {
        &self.0.added
    }

    /// The request was sent.
    pub(super) fn sent(&self) {
        self.lock().sent = true;
    }

    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    /// Whether the request was ever sent. If not, an earlier step failed, such as finding
    /// credentials.
    pub(crate) fn was_sent(&self) -> bool {
        self.lock().sent
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.0.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn fill(&self, head: ResponseHead, body: Option<ResponseBody>) {
        self.lock().answer = Some((head, body));
    }

    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    /// The response, with its body if it is a success.
    pub(crate) fn take(&self) -> Option<(ResponseHead, Option<ResponseBody>)> {
        self.lock().answer.take()
    }
}
