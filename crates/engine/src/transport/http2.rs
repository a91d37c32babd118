//! Connections that speak HTTP/2 from their first byte, for gRPC.
//!
//! They have the same TCP settings and TLS trust as those for HTTP/1.1, but no short first read:
//! many responses share one connection, so it has no first read of a response.
//!
//! TLS offers `h2` alone. The server's choice in ALPN is not checked: some servers that speak only
//! HTTP/2 do not name it, and a server that speaks another protocol fails at the first frame.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::rt::{Read, Write};
use hyper_rustls::HttpsConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tower_service::Service;

use super::connection_writes::{ConnectionWrites, Watched};
use super::dial::{Dialer, Forwarding};
use super::trust::Trust;
use super::{CallerHash, TransportOptions};
use crate::error::Result;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Unread bytes of one response: as much as a large chunk. With a round trip of 100 ms this gives
/// 20 MiB/s a stream, and there are many streams.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;

/// Large enough that streams never wait for each other; see `remote::reapi`'s `channel`.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;

/// The largest frame that a server may send. With the protocol's default of 16 KiB, a gigabyte is
/// 65,536 frames. On loopback the default halves the throughput of a stream (1.2 GiB/s instead of
/// 2.4), and both ends together use 60% more processor time outside the kernel.
const FRAME_BYTES_MAX: u32 = 256 << 10;

/// Unsent bytes of a request, for each stream.
const SEND_BYTES_MAX: usize = 512 << 10;

/// Cancelled streams that the library remembers, because frames for them may still arrive. A frame
/// for a forgotten stream counts as a server error; after a thousand of these the library closes
/// the connection. When a few hundred reads are cancelled at once, each with a window of frames on
/// its way, the server has made no error.
const GIVEN_UP_STREAMS_MAX: usize = 4_096;

/// How long a server may take to reply to a keep-alive ping.
const KEEP_ALIVE_SECONDS_MAX: u64 = 20;

/// Makes connections; clones share the TLS trust.
#[derive(Clone, Debug)]
pub(crate) struct Http2Connector {
    tcp: Dialer,
    trust: Arc<Trust>,
    made_within: Duration,
    keep_alive: Option<Duration>,
}

impl Http2Connector {
    /// Creates a connector with these options. It sends a ping on connections that are silent for
    /// `keep_alive`. Reads the certificates that the options name.
    pub(crate) fn new(options: &TransportOptions, keep_alive: Option<Duration>) -> Result<Self> {
        Ok(Self {
            tcp: Dialer::new(options, Forwarding::Nothing),
            trust: Arc::new(Trust::new(options)?),
            made_within: Duration::from_millis(options.connect_ms_max),
            keep_alive,
        })
    }

    /// Adds the client certificate and the trusted authorities.
    pub(crate) fn identify(&self, caller: &mut CallerHash) {
        self.trust.identify(caller);
        self.tcp.identify(caller);
    }

    /// Connects to scheme and authority of `origin`. A task drives the connection until the last
    /// handle and the last response are dropped. Cancel-safe.
    pub(crate) async fn connect<B>(
        &self,
        origin: &Uri,
    ) -> Result<(SendRequest<B>, Arc<ConnectionWrites>), BoxError>
    where
        B: http_body::Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let made = tokio::time::timeout(self.made_within, self.make(origin)).await;
        made.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
    }

    async fn make<B>(
        &self,
        origin: &Uri,
    ) -> Result<(SendRequest<B>, Arc<ConnectionWrites>), BoxError>
    where
        B: http_body::Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let mut tcp = self.tcp.clone();
        if origin.scheme() == Some(&Scheme::HTTP) {
            poll_fn(|cx| tcp.poll_ready(cx)).await?;
            return self.begin(tcp.call(origin.clone()).await?).await;
        }
        let mut config = (*self.trust.config().await?).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let mut tls = HttpsConnector::from((tcp, config));
        poll_fn(|cx| tls.poll_ready(cx)).await?;
        self.begin(tls.call(origin.clone()).await?).await
    }

    async fn begin<B, S>(
        &self,
        stream: S,
    ) -> Result<(SendRequest<B>, Arc<ConnectionWrites>), BoxError>
    where
        B: http_body::Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
        S: Read + Write + Send + Unpin + 'static,
    {
        let written = Arc::default();
        let stream = Watched::new(stream, &written);
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES_MAX)
            .max_send_buf_size(SEND_BYTES_MAX)
            .max_concurrent_reset_streams(GIVEN_UP_STREAMS_MAX)
            .max_local_error_reset_streams(None)
            .keep_alive_interval(self.keep_alive)
            .keep_alive_timeout(Duration::from_secs(KEEP_ALIVE_SECONDS_MAX))
            .handshake(stream)
            .await?;
        // Every request on the connection receives its error.
        tokio::spawn(async move { drop(connection.await) });
        Ok((sender, written))
    }
}
