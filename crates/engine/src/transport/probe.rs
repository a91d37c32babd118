//! What travels through `object_store` with a request: headers that are put on it last, and a slot
//! that comes back holding the answer.
//!
//! `object_store` maps responses to its own results and errors and drops the rest: the status of
//! a refused range, `Retry-After`, checksums, the real `Content-Range`; the body of an answer that
//! brings more or less than was asked for. So the transport puts a successful answer here as a
//! whole, and does not let `object_store` see it; of a refusal only the head, as `object_store`
//! reads what a refusal says.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, StatusCode};

use super::{Added, Answer};

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
    answer: Option<(ResponseHead, Option<Answer>)>,
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The headers may be secret.
        f.debug_struct("Probe").field("sent", &self.lock().sent).finish_non_exhaustive()
    }
}

impl Probe {
    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    /// For a request that these headers are to be put on.
    pub(crate) fn new(added: Added) -> Self {
        Self(Arc::new(Carried { added, slot: Mutex::default() }))
    }

    pub(super) fn added(&self) -> &Added {
        &self.0.added
    }

    /// The request is on its way.
    pub(super) fn sent(&self) {
        self.lock().sent = true;
    }

    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    /// Whether the request was ever sent: where it was not, what failed came before it, such as
    /// finding credentials.
    pub(crate) fn was_sent(&self) -> bool {
        self.lock().sent
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.0.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn fill(&self, head: ResponseHead, body: Option<Answer>) {
        self.lock().answer = Some((head, body));
    }

    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    /// The answer, with its body if it is a success.
    pub(crate) fn take(&self) -> Option<(ResponseHead, Option<Answer>)> {
        self.lock().answer.take()
    }
}
