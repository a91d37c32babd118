//! [`RequestEvent`]: the `tracing` event of one request, for both HTTP clients.
//!
//! Each request is one event of level debug and target [`REQUEST`]. It is emitted when the request
//! ends: its body was read to the end, it failed, or its caller dropped it. So a request that is in
//! flight has no event yet. [`crate::events`] lists the fields.
//!
//! Invariant: no secret is in an event. The URL has no user info and no query, because a query may
//! be a signature. Of the headers, only `Range` is shown.
//!
//! Without a subscriber that wants these events, a [`RequestEvent`] is empty: one load of an atomic
//! integer decides, and nothing is allocated.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[cfg(feature = "reapi")]
use http::HeaderMap;
use http::{Method, Request, StatusCode, Uri, header};
use tracing::{Level, Span};

use crate::error::chain;
use crate::events::REQUEST;

/// One request, from its start to its event. Dropping it emits the event.
#[derive(Debug, Default)]
pub(crate) struct RequestEvent(Option<Box<Facts>>);

/// The connection that a request went over.
#[derive(Clone, Copy, Debug)]
enum Used {
    /// It was made for this request, in this time.
    New(Duration),
    /// It had been made before.
    Again,
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// The caller dropped it.
    Dropped,
    /// The body was read to its end.
    Complete,
    /// See the error.
    Failed,
}

#[derive(Debug)]
struct Facts {
    span: Span,
    start: Instant,
    method: Method,
    url: String,
    range: Option<String>,
    sent_bytes: Arc<AtomicU64>,
    used: Option<Used>,
    status: Option<StatusCode>,
    grpc_status: Option<String>,
    first_byte: Option<Duration>,
    received_bytes: u64,
    outcome: Outcome,
    error: Option<String>,
}

impl RequestEvent {
    /// The event of this request, which is to be sent to its absolute address.
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        if !tracing::event_enabled!(target: REQUEST, Level::DEBUG) {
            return Self::default();
        }
        let range = request.headers().get(header::RANGE);
        Self(Some(Box::new(Facts {
            span: Span::current(),
            start: Instant::now(),
            method: request.method().clone(),
            url: shown(request.uri()),
            range: range.and_then(|range| range.to_str().ok()).map(str::to_owned),
            sent_bytes: Arc::default(),
            used: None,
            status: None,
            grpc_status: None,
            first_byte: None,
            received_bytes: 0,
            outcome: Outcome::Dropped,
            error: None,
        })))
    }

    /// The request's body has this length.
    #[cfg(feature = "_http1")]
    pub(crate) fn sends(&mut self, bytes: u64) {
        if let Some(facts) = &self.0 {
            facts.sent_bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// The counter of the bytes of the request's body; `None` if there is no event.
    #[cfg(feature = "reapi")]
    pub(crate) fn sent_bytes(&self) -> Option<Arc<AtomicU64>> {
        self.0.as_ref().map(|facts| Arc::clone(&facts.sent_bytes))
    }

    /// The request goes over a connection that was made for it in `took`.
    pub(crate) fn connected(&mut self, took: Duration) {
        self.used(Used::New(took));
    }

    /// The request goes over a connection that had been made before.
    pub(crate) fn reused(&mut self) {
        self.used(Used::Again);
    }

    fn used(&mut self, used: Used) {
        if let Some(facts) = &mut self.0 {
            facts.used = Some(used);
        }
    }

    /// The head of the response arrived.
    pub(crate) fn answered(&mut self, status: StatusCode) {
        if let Some(facts) = &mut self.0 {
            facts.status = Some(status);
            facts.first_byte = Some(facts.start.elapsed());
        }
    }

    /// The headers, or the trailers, name the status of a call.
    #[cfg(feature = "reapi")]
    pub(crate) fn grpc_status(&mut self, headers: &HeaderMap) {
        let Some(facts) = &mut self.0 else { return };
        if let Some(status) = headers.get("grpc-status").and_then(|status| status.to_str().ok()) {
            facts.grpc_status = Some(status.to_owned());
        }
    }

    /// More bytes of the body arrived.
    pub(crate) fn received(&mut self, bytes: usize) {
        if let Some(facts) = &mut self.0 {
            facts.received_bytes += bytes as u64;
        }
    }

    /// The body was read to its end: emits the event.
    pub(crate) fn complete(&mut self) {
        if let Some(mut facts) = self.0.take() {
            facts.outcome = Outcome::Complete;
        }
    }

    /// The request, or its response, failed: emits the event.
    pub(crate) fn failed(&mut self, error: &(dyn StdError + 'static)) {
        if let Some(mut facts) = self.0.take() {
            (facts.outcome, facts.error) = (Outcome::Failed, Some(chain(error)));
        }
    }
}

impl Drop for Facts {
    fn drop(&mut self) {
        let (connection, connect) = match self.used {
            Some(Used::New(took)) => (Some("new"), Some(took)),
            Some(Used::Again) => (Some("reused"), None),
            None => (None, None),
        };
        let outcome = match self.outcome {
            Outcome::Dropped => "dropped",
            Outcome::Complete => "complete",
            Outcome::Failed => "failed",
        };
        tracing::debug!(
            target: REQUEST,
            parent: &self.span,
            method = self.method.as_str(),
            url = self.url,
            range = self.range,
            status = self.status.map(|status| status.as_u16()),
            grpc_status = self.grpc_status,
            connection,
            connect_ms = connect.map(in_ms),
            first_byte_ms = self.first_byte.map(in_ms),
            ms = in_ms(self.start.elapsed()),
            sent_bytes = self.sent_bytes.load(Ordering::Relaxed),
            received_bytes = self.received_bytes,
            outcome,
            error = self.error,
        );
    }
}

fn in_ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The address without user info and query.
fn shown(address: &Uri) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(scheme) = address.scheme_str() {
        let _ = write!(text, "{scheme}://");
    }
    if let Some(authority) = address.authority() {
        text.push_str(authority.as_str().rsplit('@').next().unwrap_or_default());
    }
    text.push_str(address.path());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_has_no_secret() {
        for (address, text) in [
            ("https://user:pw@host:8/a/b?sig=1", "https://host:8/a/b"),
            ("http://u%40x@host", "http://host/"),
            ("/a?b", "/a"),
        ] {
            assert_eq!(shown(&address.parse().unwrap()), text);
        }
    }

    #[test]
    fn without_a_subscriber_there_is_no_event() {
        let event = RequestEvent::of(&Request::get("http://host/").body(()).unwrap());
        assert!(event.0.is_none() && size_of::<RequestEvent>() == size_of::<usize>());
    }
}
