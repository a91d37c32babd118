//! The HTTP client that every remote over HTTP shares: pooled HTTP/1.1 connections over hyper and
//! rustls, tuned for bulk transfer.
//!
//! Why HTTP/1.1: a shard is one long response. With one connection per shard, the kernel controls
//! the flow of each shard separately. HTTP/2 would put all shards behind one window and one socket.
//! TLS therefore offers `http/1.1` alone.
//!
//! Why large reads: hyper starts at 8 KiB and doubles up to a limit. Each read becomes one
//! [`bytes::Bytes`] that reaches the sink without another copy. A large read therefore means fewer
//! calls in every later step. Only the first read of a response is short; see `prompt`.
//!
//! By default the kernel sets the socket's receive buffer. A fixed size would switch off Linux's
//! autotuning and is capped by `rmem_max` (some 200 KiB), which is too small for long links.
//!
//! `object_store` uses the same client through its `HttpConnector`. If its request carries a
//! `Probe`, the probe takes a successful response with its body, and `object_store` receives an
//! empty response.

use std::error::Error as StdError;
use std::future::poll_fn;
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::BodyExt;
use hyper::client::conn::http1::Builder;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use tower_service::Service;

use super::connect::Connector;
use super::framing::{self, CodingRefused};
use super::link::{Link, Origin};
use super::pool::Pool;
use super::{Probe, RequestBody, RequestEvent, ResponseBody, ResponseHead, TransportOptions};
use crate::error::Result;

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The request's address has no scheme or authority.
    #[error("the address {0} is not absolute")]
    Address(Uri),
    /// No connection could be made.
    #[error("connecting failed")]
    Connect(#[source] Box<dyn StdError + Send + Sync>),
    /// The connection failed.
    #[error("sending the request failed")]
    Exchange(#[source] hyper::Error),
    /// A response arrived, but its framing does not define its body.
    #[error("the response cannot be used")]
    Coding(#[source] CodingRefused),
}

/// A pooled HTTP/1.1 client; clones share the pool.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    connector: Connector,
    http: Builder,
    pool: Pool,
}

impl Transport {
    /// Creates a client with these options. Reads the certificates that they name; the system's
    /// certificates are read when the first TLS connection is made.
    pub(crate) fn new(options: &TransportOptions) -> Result<Self> {
        let connector = Connector::new(options)?;
        let mut http = Builder::new();
        http.max_buf_size(options.read_bytes_max.max(8 << 10));
        Ok(Self { connector, http, pool: Pool::default() })
    }

    /// Equal for clones.
    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    pub(crate) fn id(&self) -> usize {
        self.pool.id()
    }

    /// Sends one request and returns before the body is read. Redirects are not followed, so that
    /// no part of the request reaches another host.
    pub(crate) async fn send(
        &self,
        request: Request<impl Into<RequestBody>>,
    ) -> std::result::Result<(ResponseHead, ResponseBody), SendError> {
        let start = Instant::now();
        let request = request.map(Into::into);
        let mut event = RequestEvent::of(&request);
        event.sends(request.body().len_bytes());
        let answer = self.exchange(request, &mut event).await;
        let (head, body) = answer.inspect_err(|error| event.failed(error))?.into_parts();
        let waited = start.elapsed();
        Ok((ResponseHead { status: head.status, headers: head.headers, waited, requests: 1 }, body))
    }

    /// Uses a pooled connection if there is one, otherwise a new one. The server may have closed a
    /// pooled connection. hyper notices this before it writes and returns the request, which then
    /// goes over another connection.
    async fn exchange(
        &self,
        mut request: Request<RequestBody>,
        event: &mut RequestEvent,
    ) -> std::result::Result<Response<ResponseBody>, SendError> {
        let address = request.uri().clone();
        let Some(origin) = Origin::of(&address) else { return Err(SendError::Address(address)) };
        loop {
            let kept = self.pool.take(&origin);
            let is_new = kept.is_none();
            let mut link = if let Some(link) = kept {
                event.reused();
                link
            } else {
                let start = Instant::now();
                let link = Box::pin(self.connect(&address, &origin)).await?;
                event.connected(start.elapsed());
                link
            };
            link.prepare(&mut request, &address);
            match link.exchange(request).await {
                Ok(mut response) => {
                    event.answered(response.status());
                    // If the response is refused, this drops the link and so closes the connection.
                    let reusable =
                        framing::settle(response.headers_mut()).map_err(SendError::Coding)?;
                    let pool = reusable.then(|| self.pool.clone());
                    return Ok(response
                        .map(|body| ResponseBody::new(body, link, pool, std::mem::take(event))));
                }
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(SendError::Exchange(failed.into_error())),
                },
            }
        }
    }

    async fn connect(
        &self,
        address: &Uri,
        origin: &Origin,
    ) -> std::result::Result<Box<Link>, SendError> {
        let mut connector = self.connector.clone();
        let connect = async {
            poll_fn(|cx| connector.poll_ready(cx)).await?;
            let stream = connector.call(address.clone()).await?;
            let proxy = connector.forwarder(address);
            Link::over(stream, origin.clone(), proxy, &self.http).await
        };
        connect.await.map(Box::new).map_err(SendError::Connect)
    }
}

#[async_trait]
impl HttpService for Transport {
    async fn call(&self, mut request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let probe = request.extensions_mut().remove::<Probe>();
        if let Some(probe) = &probe {
            probe.added().apply(request.headers_mut());
            probe.sent();
        }
        let (head, body) = self.send(request).await.map_err(|error| {
            let kind = match error {
                SendError::Connect(_) => HttpErrorKind::Connect,
                SendError::Address(_) | SendError::Exchange(_) | SendError::Coding(_) => {
                    HttpErrorKind::Request
                }
            };
            HttpError::new(kind, error)
        })?;
        let status = head.status;
        let (headers, body) = match probe {
            Some(probe) if status.is_success() => {
                probe.fill(head, Some(body));
                (HeaderMap::new(), None)
            }
            Some(probe) => {
                let headers = head.headers.clone();
                probe.fill(head, None);
                (headers, Some(body))
            }
            None => (head.headers, Some(body)),
        };
        let mut response = Response::new(match body {
            Some(body) => HttpResponseBody::new(
                body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error)),
            ),
            None => HttpResponseBody::from(Bytes::new()),
        });
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

/// Gives `object_store` the shared client and ignores its client options: timeouts and retries are
/// the engine's own.
impl HttpConnector for Transport {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}
