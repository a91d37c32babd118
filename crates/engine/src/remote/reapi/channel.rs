//! [`Channel`]: the connections to one cache. They are opened when needed, and all requests share
//! them.
//!
//! One task and one socket drive an HTTP/2 connection. Both limit it: one core for framing, and one
//! congestion window. A few streams share a connection; beyond that the channel opens the next one,
//! up to a limit. Then a stream goes to the connection with the fewest.
//!
//! A connection that the server is closing (GOAWAY) finishes its streams, and takes no new ones. A
//! request that such a connection refused unsent is sent over another. That does not count as an
//! attempt, because the server never received it.
//!
//! A connection is silent if it received nothing for a while when a call was dropped unfinished. It
//! takes no new streams either: a retry would wait as long again on a dead connection, for example
//! if a firewall dropped its state. Keep-alive also finds dead connections, but later than many
//! timeouts.
//!
//! Flow control: a stream's window holds the bytes that arrive before they are read. The
//! connection's window is so large that it is never the limit. Otherwise unread streams could fill
//! it and block another stream for ever, for example if an ordered target waits for that other
//! stream.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::body::Body;
use tower_service::Service;

use super::grpc_body::GrpcBody;
use super::read;
use crate::store::SendProgress;
use crate::transport::{self, ConnectionWrites, Http2Connector, RequestEvent};

type BoxError = Box<dyn Error + Send + Sync>;
type Answering =
    Pin<Box<dyn Future<Output = Result<http::Response<GrpcBody>, BoxError>> + Send + 'static>>;

/// Streams on every open connection before another one is opened: small sequential requests need
/// only one connection, and bulk transfers spread at once.
const STREAMS_BEFORE_ANOTHER: usize = 4;

/// Time without data after which a connection is silent when a call is dropped: longer than the
/// round trip of a response, shorter than any timeout before a retry.
const SILENCE_MIN: Duration = Duration::from_secs(1);

/// Sends requests to one cache; clones share its connections.
#[derive(Clone, Debug)]
pub(super) struct Channel(Arc<Connections>);

struct Connections {
    connector: Http2Connector,
    origin: Uri,
    headers: HeaderMap,
    slots: Vec<Arc<Slot>>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The headers may hold tokens.
        f.debug_struct("Connections").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// A slot for one connection.
#[derive(Debug, Default)]
struct Slot {
    streams: AtomicUsize,
    /// Attempts to connect that have finished.
    attempts: AtomicU64,
    /// The silent connection, by the attempt that opened it; it takes no new streams. 0 is none.
    silent: AtomicU64,
    /// When the connection last received data.
    received_at: std::sync::Mutex<Option<Instant>>,
    // Held while connecting, so that all concurrent requests share one attempt.
    place: Mutex<Place>,
}

#[derive(Debug, Default)]
struct Place {
    open: Option<Connection>,
    /// The failure of the last attempt.
    failure: Option<Unconnected>,
}

/// A connection, and the attempt that opened it.
#[derive(Clone, Debug)]
struct Connection {
    requests: SendRequest<Body>,
    written: Arc<ConnectionWrites>,
    attempt: u64,
}

/// Why there is no connection; shared by all requests that waited for it.
#[derive(Clone, Debug)]
struct Unconnected(Arc<dyn Error + Send + Sync>);

impl fmt::Display for Unconnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no connection")
    }
}

impl Error for Unconnected {
    /// The failure itself, not its `Arc`, so that its type can be examined.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// One stream's share of a connection.
#[derive(Debug)]
pub(super) struct Lease {
    slot: Arc<Slot>,
    /// The attempt that opened the connection; 0 before there is one.
    attempt: u64,
    /// When the request was sent.
    sent: Option<Instant>,
    /// The response is complete, or the call failed by itself.
    ended: bool,
}

impl Lease {
    fn new(slot: Arc<Slot>) -> Self {
        slot.streams.fetch_add(1, Ordering::Relaxed);
        Self { slot, attempt: 0, sent: None, ended: false }
    }

    /// Records that the request is sent over this connection.
    fn send_over(&mut self, connection: &Connection) {
        self.attempt = connection.attempt;
        self.sent = Some(Instant::now());
        self.ended = false;
    }

    /// Records that data arrived.
    pub(super) fn received(&self) {
        *self.slot.received_at.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Instant::now());
    }

    /// Records that no more data is expected.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.slot.streams.fetch_sub(1, Ordering::Relaxed);
        let Some(sent) = self.sent.filter(|_| !self.ended) else { return };
        let received = *self.slot.received_at.lock().unwrap_or_else(PoisonError::into_inner);
        if received.map_or(sent, |at| at.max(sent)).elapsed() >= SILENCE_MIN {
            self.slot.silent.store(self.attempt, Ordering::Relaxed);
        }
    }
}

impl Channel {
    /// A channel to the cache at `origin`; every request carries `headers`. Opens no connection
    /// yet.
    pub(super) fn new(
        connector: Http2Connector,
        origin: Uri,
        headers: HeaderMap,
        connections_max: usize,
    ) -> Self {
        let slots = (0..connections_max.max(1)).map(|_| Arc::default()).collect();
        Self(Arc::new(Connections { connector, origin, headers, slots }))
    }

    /// Scheme and authority of the requests' URLs.
    pub(super) fn origin(&self) -> &Uri {
        &self.0.origin
    }

    async fn send(
        self,
        mut request: http::Request<Body>,
    ) -> Result<http::Response<GrpcBody>, BoxError> {
        transport::replace(request.headers_mut(), &self.0.headers);
        let is_stream = request.uri().path() == read::PATH;
        let progress = request.extensions().get::<SendProgress>().cloned();
        let progress = progress.unwrap_or_default();
        let mut call = Call { event: RequestEvent::of(&request), lease: self.0.lease(), progress };
        if let Some(sent) = call.event.sent_bytes() {
            request = request.map(|body| counted(body, sent));
        }
        match self.exchange(request, &mut call).await {
            Ok(response) => Ok(GrpcBody::wrap(response, call.lease, is_stream, call.event)?),
            Err(error) => {
                call.event.failed(&*error);
                Err(error)
            }
        }
    }

    /// Sends the request; over a second connection, if the first one refused it unsent.
    async fn exchange(
        &self,
        request: http::Request<Body>,
        call: &mut Call,
    ) -> Result<http::Response<Incoming>, BoxError> {
        // CANCEL: dropping the future resets the stream and returns the lease.
        let mut connection = self.connection(call).await?;
        let mut refused = match connection.requests.try_send_request(request).await {
            Ok(response) => return Ok(response),
            Err(refused) => refused,
        };
        call.lease.end();
        let Some(unsent) = refused.take_message() else {
            return Err(refused.into_error().into());
        };
        self.0.forget(&call.lease.slot).await;
        let mut connection = self.connection(call).await?;
        connection.requests.try_send_request(unsent).await.map_err(|refused| {
            call.lease.end();
            refused.into_error().into()
        })
    }

    /// The connection of the call's lease, which the call uses from now on.
    async fn connection(&self, call: &mut Call) -> Result<Connection, BoxError> {
        let start = Instant::now();
        let (connection, is_new) = self.0.connection(&call.lease.slot).await?;
        if is_new {
            call.event.connected(start.elapsed());
        } else {
            call.event.reused();
        }
        call.lease.send_over(&connection);
        call.progress.over(Arc::clone(&connection.written) as _);
        Ok(connection)
    }
}

/// One call in flight.
struct Call {
    event: RequestEvent,
    lease: Lease,
    progress: SendProgress,
}

/// The body, whose bytes are added to `sent` when the connection takes them.
fn counted(body: Body, sent: Arc<AtomicU64>) -> Body {
    Body::new(body.map_frame(move |frame| {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        sent.fetch_add(bytes as u64, Ordering::Relaxed);
        frame
    }))
}

impl Connections {
    /// Chooses the connection for one more stream.
    fn lease(&self) -> Lease {
        let streams = |slot: &&Arc<Slot>| slot.streams.load(Ordering::Relaxed);
        let roomy = self.slots.iter().find(|slot| streams(slot) < STREAMS_BEFORE_ANOTHER);
        let chosen = roomy.or_else(|| self.slots.iter().min_by_key(streams));
        // There is always at least one slot.
        Lease::new(chosen.map_or_else(Arc::default, Arc::clone))
    }

    /// The connection of a slot. Opens a new one if there is none or if the open one takes no more
    /// requests. If an attempt fails, all requests that waited for it fail: otherwise each would
    /// wait for the full timeout, one after another.
    ///
    /// Returns true with a connection that this call has opened.
    async fn connection(&self, slot: &Slot) -> Result<(Connection, bool), BoxError> {
        let attempts = || slot.attempts.load(Ordering::Acquire);
        let before = attempts();
        let mut place = slot.place.lock().await;
        let is_silent = |open: &Connection| slot.silent.load(Ordering::Relaxed) == open.attempt;
        let usable = |open: &&Connection| !open.requests.is_closed() && !is_silent(open);
        if let Some(open) = place.open.as_ref().filter(usable) {
            return Ok((open.clone(), false));
        }
        if let Some(failure) = place.failure.as_ref().filter(|_| attempts() != before) {
            return Err(failure.clone().into());
        }
        // CANCEL: the lock is released without a change, and the next request connects.
        let made = self.connector.connect(&self.origin).await;
        let attempt = slot.attempts.fetch_add(1, Ordering::Release) + 1;
        match made {
            Ok((requests, written)) => {
                let made = Connection { requests, written, attempt };
                *place = Place { open: Some(made.clone()), failure: None };
                Ok((made, true))
            }
            Err(error) => {
                let failure = Unconnected(error.into());
                *place = Place { open: None, failure: Some(failure.clone()) };
                Err(failure.into())
            }
        }
    }

    /// Drops a connection that refused a request; its other streams continue.
    async fn forget(&self, slot: &Slot) {
        let mut place = slot.place.lock().await;
        // Another request may have connected in the meantime.
        if place.open.as_ref().is_some_and(|open| open.requests.is_closed()) {
            place.open = None;
        }
    }
}

impl Service<http::Request<Body>> for Channel {
    type Response = http::Response<GrpcBody>;
    type Error = BoxError;
    type Future = Answering;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Answering {
        Box::pin(self.clone().send(request))
    }
}
