//! One HTTP/1.1 connection. Its user drives it: first the request that waits for its response, then
//! the [`ResponseBody`](super::ResponseBody) whose bytes come over it.
//!
//! hyper's usual design is one task per connection. A request and each piece of its response then
//! pass between two tasks. Within one thread, each pass polls the system's events. Between two
//! threads, one wakes the other, and the bytes are used on another processor than they were copied
//! to. Before a first byte of 256 KiB on a warm loopback connection, such a task takes 2 us in a
//! runtime of one thread and 28 us in one of two.
//!
//! An idle connection is therefore not polled. If the server has closed it, the next request finds
//! out, provided that the runtime has received the event. The request then comes back unsent.
//!
//! Dropping a link closes its connection.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use http::uri::{Authority, Scheme};
use http::{HeaderValue, Request, Response, Uri, header};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};

use super::RequestBody;
use super::connect::Secured;
use super::proxy::Proxy;

/// The server that a connection leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    scheme: Scheme,
    authority: Authority,
}

impl Origin {
    /// The origin of an absolute address; `None` for a path alone.
    pub(super) fn of(address: &Uri) -> Option<Self> {
        let scheme = address.scheme()?.clone();
        Some(Self { scheme, authority: address.authority()?.clone() })
    }

    /// The value of `Host`: without user info, and without the scheme's default port.
    fn host(&self) -> Result<HeaderValue, header::InvalidHeaderValue> {
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
    /// The proxy at the other end, which forwards the requests.
    proxy: Option<Proxy>,
    requests: SendRequest<RequestBody>,
    // None once it has ended. Dropping it reports the end to the request or body that waits.
    connection: Option<Connection<Secured, RequestBody>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// `Host` is not a valid header value, or the HTTP handshake failed.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Link {
    /// Starts HTTP on a new connection to `origin`, or to the proxy that forwards requests to it.
    pub(super) async fn over(
        stream: Secured,
        origin: Origin,
        proxy: Option<Proxy>,
        http: &Builder,
    ) -> Result<Self, BoxError> {
        let host = origin.host()?;
        let (requests, connection) = http.handshake(stream).await?;
        Ok(Self { origin, host, proxy, requests, connection: Some(connection) })
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Gives a request to `address` its target and the fields that this connection requires. The
    /// request may have been prepared for another connection to the same origin.
    pub(super) fn prepare(&self, request: &mut Request<RequestBody>, address: &Uri) {
        let target = match &self.proxy {
            Some(_) => Some(address.clone()),
            None => address.path_and_query().cloned().map(Uri::from),
        };
        *request.uri_mut() = target.unwrap_or_default();
        let headers = request.headers_mut();
        headers.entry(header::HOST).or_insert_with(|| self.host.clone());
        if let Some(auth) = self.proxy.as_ref().and_then(|proxy| proxy.auth.as_ref()) {
            headers.insert(header::PROXY_AUTHORIZATION, auth.clone());
        }
    }

    /// Drives the connection; ready once it has ended. The request or body in progress receives its
    /// error.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(connection) = &mut self.connection {
            let _ended = ready!(Pin::new(connection).poll(cx));
            self.connection = None;
        }
        Poll::Ready(())
    }

    /// Whether the connection is idle and takes another request, as far as is known.
    pub(super) fn is_idle(&self) -> bool {
        self.connection.is_some() && self.requests.is_ready()
    }

    /// Sends a request that was [prepared](Self::prepare), and waits for the head of the response.
    /// The error holds the request if no part of it was sent.
    ///
    /// CANCEL: after this future is dropped, the link cannot be used any more.
    pub(super) async fn exchange(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<RequestBody>>> {
        let mut answer = pin!(self.requests.try_send_request(request));
        poll_fn(|cx| {
            // If the connection ends, the request also receives the error.
            let _ = self.poll(cx);
            answer.as_mut().poll(cx)
        })
        .await
    }
}
