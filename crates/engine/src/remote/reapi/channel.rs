//! [`Channel`]: the connections to one cache, made as they are needed and shared by all its
//! requests.
//!
//! One HTTP/2 connection is driven by one task and one socket, which is what limits it: a core's
//! worth of framing, and one congestion window. A few streams share a connection; beyond that the
//! next one is opened, up to a limit, and then streams go where there are fewest.
//!
//! A connection that the server is closing (GOAWAY) finishes what it carries, and takes nothing
//! new: a request that it refused unsent is sent over another, without counting as an attempt,
//! because the server never saw it.
//!
//! A connection on which nothing was heard for a while when a call was given up takes nothing new
//! either: whoever tries again would wait as long again where nobody answers any more, as when
//! a firewall between has forgotten it. Keep-alive finds that out, too, but later than many give up.
//!
//! Windows: a stream's holds what arrives before it is read, and the connection's is so large that
//! it never decides. Otherwise streams that nobody reads at the moment, because an ordered target
//! waits for another, could fill it and keep that other one waiting for ever.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Uri};
use hyper::client::conn::http2::SendRequest;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::body::Body;
use tower_service::Service;

use super::answer::Answer;
use super::read;
use crate::store::SendProgress;
use crate::transport::{self, Http2Connector, Written};

type BoxError = Box<dyn Error + Send + Sync>;
type Answering =
    Pin<Box<dyn Future<Output = Result<http::Response<Answer>, BoxError>> + Send + 'static>>;

/// Streams on every open connection before another is opened: small requests one after the other
/// need one connection only, and bulk is spread at once.
const STREAMS_BEFORE_ANOTHER: usize = 4;

/// Nothing heard for this long when a call is given up: more than any answer's way through a network,
/// less than anybody waits before trying again.
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

/// A place for one connection.
#[derive(Debug, Default)]
struct Slot {
    streams: AtomicUsize,
    /// Attempts to connect that came to an end.
    attempts: AtomicU64,
    /// The connection, by the attempt that made it, that takes nothing new; 0 is none.
    silent: AtomicU64,
    /// When the connection last brought something.
    heard: std::sync::Mutex<Option<Instant>>,
    // Held while connecting, so that one attempt is made for all who come meanwhile.
    place: Mutex<Place>,
}

#[derive(Debug, Default)]
struct Place {
    open: Option<Connection>,
    /// How the last attempt failed.
    failure: Option<Unconnected>,
}

/// A connection, and the attempt that made it.
#[derive(Clone, Debug)]
struct Connection {
    requests: SendRequest<Body>,
    written: Arc<Written>,
    attempt: u64,
}

/// Why there is no connection, told to all who waited for it.
#[derive(Clone, Debug)]
struct Unconnected(Arc<dyn Error + Send + Sync>);

impl fmt::Display for Unconnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no connection")
    }
}

impl Error for Unconnected {
    /// The failure itself, and not what holds it, so that it can be told from its type.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// One stream's place on a connection.
#[derive(Debug)]
pub(super) struct Lease {
    slot: Arc<Slot>,
    /// The attempt that made the connection; 0 before there is one.
    attempt: u64,
    /// When the request was sent.
    sent: Option<Instant>,
    /// The answer came to its end, or the call failed by itself.
    ended: bool,
}

impl Lease {
    fn new(slot: Arc<Slot>) -> Self {
        slot.streams.fetch_add(1, Ordering::Relaxed);
        Self { slot, attempt: 0, sent: None, ended: false }
    }

    /// The request goes over this connection.
    fn send_over(&mut self, connection: &Connection) {
        self.attempt = connection.attempt;
        self.sent = Some(Instant::now());
        self.ended = false;
    }

    /// Something came.
    pub(super) fn hear(&self) {
        *self.slot.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Nothing more is awaited.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.slot.streams.fetch_sub(1, Ordering::Relaxed);
        let Some(sent) = self.sent.filter(|_| !self.ended) else { return };
        let heard = *self.slot.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.map_or(sent, |heard| heard.max(sent)).elapsed() >= SILENCE_MIN {
            self.slot.silent.store(self.attempt, Ordering::Relaxed);
        }
    }
}

impl Channel {
    /// For the cache at `origin`; `headers` go with every request. Nothing is connected yet.
    pub(super) fn new(
        connector: Http2Connector,
        origin: Uri,
        headers: HeaderMap,
        connections_max: usize,
    ) -> Self {
        let slots = (0..connections_max.max(1)).map(|_| Arc::default()).collect();
        Self(Arc::new(Connections { connector, origin, headers, slots }))
    }

    /// Scheme and authority, for the requests' addresses.
    pub(super) fn origin(&self) -> &Uri {
        &self.0.origin
    }

    async fn send(
        self,
        mut request: http::Request<Body>,
    ) -> Result<http::Response<Answer>, BoxError> {
        transport::replace(request.headers_mut(), &self.0.headers);
        let is_stream = request.uri().path() == read::PATH;
        let progress = request.extensions().get::<SendProgress>().cloned();
        let progress = progress.unwrap_or_default();
        let mut lease = self.0.lease();
        // CANCEL: dropping the future resets the stream and gives the lease back.
        let mut connection = self.0.connection(&lease.slot).await?;
        lease.send_over(&connection);
        progress.over(Arc::clone(&connection.written) as _);
        let mut refused = match connection.requests.try_send_request(request).await {
            Ok(response) => return Ok(Answer::wrap(response, lease, is_stream)?),
            Err(refused) => refused,
        };
        lease.end();
        let Some(unsent) = refused.take_message() else {
            return Err(refused.into_error().into());
        };
        self.0.forget(&lease.slot).await;
        let mut connection = self.0.connection(&lease.slot).await?;
        lease.send_over(&connection);
        progress.over(Arc::clone(&connection.written) as _);
        match connection.requests.try_send_request(unsent).await {
            Ok(response) => Ok(Answer::wrap(response, lease, is_stream)?),
            Err(refused) => {
                lease.end();
                Err(refused.into_error().into())
            }
        }
    }
}

impl Connections {
    /// Chooses the connection for one more stream.
    fn lease(&self) -> Lease {
        let streams = |slot: &&Arc<Slot>| slot.streams.load(Ordering::Relaxed);
        let roomy = self.slots.iter().find(|slot| streams(slot) < STREAMS_BEFORE_ANOTHER);
        let chosen = roomy.or_else(|| self.slots.iter().min_by_key(streams));
        // There is always at least one.
        Lease::new(chosen.map_or_else(Arc::default, Arc::clone))
    }

    /// The connection of a slot, made anew where there is none or it takes no requests any more.
    /// Who waited for an attempt that failed fails with it: one after the other would each wait as
    /// long again for a host that does not answer.
    async fn connection(&self, slot: &Slot) -> Result<Connection, BoxError> {
        let attempts = || slot.attempts.load(Ordering::Acquire);
        let before = attempts();
        let mut place = slot.place.lock().await;
        let is_silent = |open: &Connection| slot.silent.load(Ordering::Relaxed) == open.attempt;
        let usable = |open: &&Connection| !open.requests.is_closed() && !is_silent(open);
        if let Some(open) = place.open.as_ref().filter(usable) {
            return Ok(open.clone());
        }
        if let Some(failure) = place.failure.as_ref().filter(|_| attempts() != before) {
            return Err(failure.clone().into());
        }
        // CANCEL: the lock is let go with nothing changed, and the next to come connects.
        let made = self.connector.connect(&self.origin).await;
        let attempt = slot.attempts.fetch_add(1, Ordering::Release) + 1;
        match made {
            Ok((requests, written)) => {
                let made = Connection { requests, written, attempt };
                *place = Place { open: Some(made.clone()), failure: None };
                Ok(made)
            }
            Err(error) => {
                let failure = Unconnected(error.into());
                *place = Place { open: None, failure: Some(failure.clone()) };
                Err(failure.into())
            }
        }
    }

    /// Lets go of a connection that refused a request; what it still carries goes on.
    async fn forget(&self, slot: &Slot) {
        let mut place = slot.place.lock().await;
        // Another may have connected meanwhile.
        if place.open.as_ref().is_some_and(|open| open.requests.is_closed()) {
            place.open = None;
        }
    }
}

impl Service<http::Request<Body>> for Channel {
    type Response = http::Response<Answer>;
    type Error = BoxError;
    type Future = Answering;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Answering {
        Box::pin(self.clone().send(request))
    }
}
