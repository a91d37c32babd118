//! [`ObservedConnection`] and [`Exchange`]: a connection and a request from its head to the end of its
//! response, as the counters, the log and the spans see them.
//!
//! A request is counted when its response has ended, or was dropped. So an exchange that is dropped at
//! any place is counted once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{Method, Request, Response};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use tracing::Span;
use tracing::field::Empty;

use super::Observer;
use super::call::{CallName, CallNotes, Lookups, MissReason};
use super::counters::Ended;
use super::invocations::Invocation;
use super::metadata::{Metadata, MetadataHeader};
use super::outcome::Outcome;
use super::request_body::RequestBody;
use super::request_id::{REQUEST_ID, text};
use crate::serve::body::ResponseBody;

/// The target of the spans of requests, and of their lines in the log.
const TARGET: &str = "tidegate_server::request";

/// A connection.
#[derive(Debug)]
pub(in crate::serve) struct ObservedConnection {
    observer: Arc<Observer>,
    shard: usize,
}

impl ObservedConnection {
    pub(super) fn new(observer: Arc<Observer>) -> Arc<Self> {
        observer.connections.open.fetch_add(1, Ordering::Relaxed);
        observer.connections.accepted.fetch_add(1, Ordering::Relaxed);
        let shard = observer.counters.take_shard();
        Arc::new(Self { observer, shard })
    }

    /// A request begins. Its body fails when its client stalls for this time.
    pub(in crate::serve) fn begin(
        self: &Arc<Self>,
        request: Request<Incoming>,
        stall_time_max: Duration,
    ) -> (Request<RequestBody>, Exchange) {
        let observer = &self.observer;
        let id = observer.ids.of(request.headers().get(REQUEST_ID));
        let header = MetadataHeader::of(request.headers());
        let metadata = header.as_ref().map(MetadataHeader::metadata).unwrap_or_default();
        let invocation = observer.invocations.find(&metadata);
        let span = span(&id, &metadata);
        observer.counters.begin(self.shard);
        let received = Arc::new(AtomicU64::new(0));
        let exchange = Exchange {
            connection: Arc::clone(self),
            begun: Instant::now(),
            id,
            span,
            invocation,
            received: Arc::clone(&received),
            is_head: request.method() == Method::HEAD,
            sent: 0,
            expected: None,
            outcome: None,
            notes: CallNotes::new(CallName::Unknown),
        };
        let request = request.map(|body| RequestBody::new(body, received, stall_time_max));
        (request, exchange)
    }
}

impl Drop for ObservedConnection {
    fn drop(&mut self) {
        self.observer.connections.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The length of the body of a response, if it is known.
fn len(response: &Response<ResponseBody>) -> Option<u64> {
    let declared = response.headers().get(CONTENT_LENGTH).and_then(|len| len.to_str().ok());
    let declared = declared.and_then(|len| len.parse().ok());
    declared.or_else(|| response.body().size_hint().exact())
}

/// The span of a request. It costs next to nothing if it is not enabled.
fn span(id: &HeaderValue, metadata: &Metadata<'_>) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
        "request",
        id = text(id),
        call = Empty,
        outcome = Empty,
        tool = Empty,
        tool_version = Empty,
        invocation = Empty,
        target = Empty,
        action = Empty,
        mnemonic = Empty,
    );
    if !span.is_disabled() {
        let fields = [
            ("tool", metadata.tool),
            ("tool_version", metadata.tool_version),
            ("invocation", metadata.invocation),
            ("target", metadata.target),
            ("action", metadata.action),
            ("mnemonic", metadata.mnemonic),
        ];
        for (name, value) in fields {
            if !value.is_empty() {
                span.record(name, value);
            }
        }
    }
    span
}

/// A request in flight.
#[derive(Debug)]
pub(in crate::serve) struct Exchange {
    connection: Arc<ObservedConnection>,
    begun: Instant,
    id: HeaderValue,
    span: Span,
    invocation: Option<Arc<Invocation>>,
    received: Arc<AtomicU64>,
    /// The body of the response is not sent.
    is_head: bool,
    sent: u64,
    /// The length of the response, if its head says it.
    expected: Option<u64>,
    /// `None` until the response or its trailers say it.
    outcome: Option<Outcome>,
    notes: CallNotes,
}

impl Exchange {
    /// The span of the request.
    pub(in crate::serve) fn span(&self) -> &Span {
        &self.span
    }

    /// The response begins: takes its notes, and adds the identifier of the request.
    pub(in crate::serve) fn answer(&mut self, response: &mut Response<ResponseBody>) {
        if let Some(notes) = response.extensions_mut().remove::<CallNotes>() {
            self.notes = notes;
        }
        let is_grpc = self.notes.name.protocol() == "grpc";
        self.outcome = Outcome::of_head(response, is_grpc);
        if !self.is_head {
            self.expected = len(response);
        }
        response.headers_mut().insert(REQUEST_ID, self.id.clone());
    }

    /// A frame of the response.
    pub(in crate::serve) fn note_frame(&mut self, frame: &Frame<Bytes>) {
        if let Some(data) = frame.data_ref() {
            self.sent += data.len() as u64;
        } else if let Some(trailers) = frame.trailers_ref() {
            self.outcome = Outcome::of_trailers(trailers).or(self.outcome);
            if self.outcome == Some(Outcome::NOT_FOUND) && self.notes.name.reads_one() {
                // Its first bytes were sound and the next ones were not.
                self.notes.lookups = Lookups::miss(MissReason::Damaged);
            }
        }
    }

    /// Whether the whole response was handed to the connection. The end of a body of known length is not
    /// asked for.
    fn is_whole(&self) -> bool {
        self.expected.is_none_or(|expected| self.sent >= expected)
    }

    /// The body of the response has failed.
    pub(in crate::serve) fn note_failure(&mut self) {
        self.outcome = Some(Outcome::CUT);
        self.notes.lookups = Lookups::default();
    }

    fn log(&self, ended: &Ended) {
        let (call, outcome) = (ended.name.name(), Outcome::name(ended.outcome.index()));
        self.span.record("call", call).record("outcome", outcome);
        let invocation = self.invocation.as_ref();
        // Not within the span: the line has all of its fields that matter.
        tracing::debug!(
            target: TARGET,
            parent: None,
            id = text(&self.id),
            call,
            outcome,
            ms = ended.latency.as_secs_f64() * 1000.0,
            received_bytes = ended.received_bytes,
            sent_bytes = ended.sent_bytes,
            tool = invocation.map_or("", |one| one.tool()),
            invocation = invocation.map_or("", |one| one.id()),
            "a request ended"
        );
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let outcome = self.outcome.filter(|_| self.is_whole()).unwrap_or(Outcome::CUT);
        let ended = Ended {
            name: self.notes.name,
            outcome,
            lookups: self.notes.lookups,
            refusal: self.notes.refusal,
            latency: self.begun.elapsed(),
            received_bytes: self.received.load(Ordering::Relaxed),
            sent_bytes: self.sent,
        };
        let observer = &self.connection.observer;
        observer.counters.end(self.connection.shard, &ended);
        if let Some(invocation) = &self.invocation {
            invocation.count(&ended);
        }
        if outcome.is_error(ended.name) {
            let names = (ended.name.name(), Outcome::name(outcome.index()));
            let message = self.notes.message.as_deref().unwrap_or_default();
            observer.failures.add(text(&self.id), names, message);
        }
        self.log(&ended);
        if outcome.is_failure() {
            tracing::warn!(
                target: TARGET,
                parent: None,
                id = text(&self.id),
                call = ended.name.name(),
                outcome = Outcome::name(outcome.index()),
                reason = self.notes.message.as_deref().unwrap_or_default(),
                "the server failed to answer a request"
            );
        }
    }
}
