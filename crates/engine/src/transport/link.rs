//! One HTTP/1.1 connection, driven by whoever uses it: by the request that waits for its answer,
//! then by the [`Answer`](super::Answer) whose bytes come over it.
//!
//! hyper means a connection to be a task of its own. A request, and each piece of its answer, then
//! goes from one task to another: within one thread that is a look at the system's events each
//! time, and between two threads one wakes the other, and the bytes are used on another processor
//! than they were copied to. Before a first byte of 256 KiB on a warm loopback connection, such a
//! task takes 2 us in a runtime of one thread and 28 us in one of two.
//!
//! So nobody polls a connection that nobody uses. That it was closed meanwhile is found when the
//! next request is sent, if the runtime has heard of it; that request then comes back unsent.
//!
//! Dropping a link closes its connection.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use http::uri::{Authority, Scheme};
use http::{HeaderValue, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use object_store::client::{HttpRequest, HttpRequestBody};

use super::connect::Secured;

/// Whom a connection is to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    scheme: Scheme,
    authority: Authority,
}

impl Origin {
    /// Of an address in full; `None` for a path alone.
    pub(super) fn of(address: &Uri) -> Option<Self> {
        let scheme = address.scheme()?.clone();
        Some(Self { scheme, authority: address.authority()?.clone() })
    }

    /// As `Host` says it: without user info, and without a port that goes without saying.
    fn host(&self) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
        let usual = if self.scheme == Scheme::HTTPS { 443 } else { 80 };
        let host = self.authority.host();
        match self.authority.port_u16().filter(|port| *port != usual) {
            Some(port) => HeaderValue::try_from(format!("{host}:{port}")),
            None => HeaderValue::from_str(host),
        }
    }
}

/// See the module docs.
pub(super) struct Link {
    origin: Origin,
    host: HeaderValue,
    requests: SendRequest<HttpRequestBody>,
    // None once it has ended: by its drop, whoever waits for something of it is told so.
    connection: Option<Connection<Secured, HttpRequestBody>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// What `Host` says is no header, or HTTP could not begin.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Link {
    /// Over a connection to `origin` that has just been made.
    pub(super) async fn over(
        stream: Secured,
        origin: Origin,
        http: &Builder,
    ) -> Result<Self, BoxError> {
        let host = origin.host()?;
        let (requests, connection) = http.handshake(stream).await?;
        Ok(Self { origin, host, requests, connection: Some(connection) })
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// What requests to this origin say in `Host`.
    pub(super) fn host(&self) -> &HeaderValue {
        &self.host
    }

    /// Lets the connection go on; ready once it has ended. How is told to the request or to the body
    /// that was under way.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(connection) = &mut self.connection {
            let _ended = ready!(Pin::new(connection).poll(cx));
            self.connection = None;
        }
        Poll::Ready(())
    }

    /// Whether the connection has nothing to do and takes another request, as far as is known.
    pub(super) fn is_idle(&self) -> bool {
        self.connection.is_some() && self.requests.is_ready()
    }

    /// Sends a request, in origin form and with its `Host`, and waits for the head of the answer.
    /// The error holds the request where none of it was sent.
    ///
    /// CANCEL: a link of which this was dropped is of no use any more.
    pub(super) async fn exchange(
        &mut self,
        request: HttpRequest,
    ) -> Result<Response<Incoming>, TrySendError<HttpRequest>> {
        let mut answer = pin!(self.requests.try_send_request(request));
        poll_fn(|cx| {
            // Its end is told to the request, too.
            let _ = self.poll(cx);
            answer.as_mut().poll(cx)
        })
        .await
    }
}
