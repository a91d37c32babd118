//! The HTTP client that every remote over HTTP shares: pooled HTTP/1.1 connections over hyper and
//! rustls, tuned for bulk.
//!
//! Why HTTP/1.1: a shard is one long response, and a connection each lets the kernel's own flow
//! control work for every shard, where HTTP/2 would put them all behind one window and one socket.
//! TLS therefore offers `http/1.1` alone.
//!
//! Why large reads: hyper starts at 8 KiB and doubles up to a limit; each read becomes one
//! [`bytes::Bytes`] that travels to the sink without another copy, so that its size decides how
//! often everything downstream runs. Only the first read of an answer is short; see `prompt`.
//!
//! The socket's receive buffer is left to the kernel by default: setting it switches Linux's
//! autotuning off and is capped by `rmem_max` (some 200 KiB), which loses on long links.
//!
//! `object_store` uses the same client through its `HttpConnector`; what its errors and results
//! hide of a response is handed up in a `Probe`.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};

use super::connect::Connector;
use super::{Added, Probe, ResponseHead, TransportOptions};
use crate::error::Result;

/// Idle connections are kept this long: below the 60 s after which common load balancers close
/// them, so that a request is not sent into a closing connection.
const IDLE_SECONDS_MAX: u64 = 55;

/// Idle connections kept per host: as many as the default budget has requests in flight.
const IDLE_CONNECTIONS_MAX: usize = 64;

/// A pooled HTTP/1.1 client; clones share the pool.
#[derive(Clone, Debug)]
pub struct Transport {
    client: Client<Connector, HttpRequestBody>,
}

impl Transport {
    /// A client with these options. Reads the certificates that they name; the system's are read
    /// when the first TLS connection is made.
    pub fn new(options: &TransportOptions) -> Result<Self> {
        let connector = Connector::new(options)?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(IDLE_SECONDS_MAX))
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .http1_max_buf_size(options.read_bytes_max.max(8 << 10))
            .build(connector);
        Ok(Self { client })
    }

    /// Sends one request; the response's body is still to be read. Redirects are not followed, so
    /// that nothing of the request goes to another host.
    pub(crate) async fn send(
        &self,
        mut request: HttpRequest,
    ) -> std::result::Result<http::Response<Incoming>, hyper_util::client::legacy::Error> {
        if let Some(added) = request.extensions().get::<Added>().cloned() {
            added.apply(request.headers_mut());
        }
        let probe = request.extensions().get::<Probe>().cloned();
        if let Some(probe) = &probe {
            probe.sent();
        }
        let start = Instant::now();
        let response = self.client.request(request).await?;
        if let Some(probe) = probe {
            probe.fill(ResponseHead {
                status: response.status(),
                headers: response.headers().clone(),
                waited: start.elapsed(),
                requests: 1,
            });
        }
        Ok(response)
    }
}

#[async_trait]
impl HttpService for Transport {
    async fn call(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let response = self.send(request).await.map_err(|error| {
            let kind =
                if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Request };
            HttpError::new(kind, error)
        })?;
        Ok(response.map(|body| {
            HttpResponseBody::new(
                body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error)),
            )
        }))
    }
}

/// Hands the shared client to `object_store`, whatever options that asks for: timeouts and
/// retries are the engine's own.
impl HttpConnector for Transport {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}
