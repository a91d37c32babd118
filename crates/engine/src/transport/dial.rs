//! The stream below a connection: TCP, or a stream that a caller's [`Dial`] makes.
//!
//! `Dial` is for tests. A test can run a server in the same process, behind the real HTTP and TLS
//! code but without sockets, so that a paused clock governs both sides. It is hidden from the
//! documentation and may change with any release.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tower_service::Service;

use super::TransportOptions;
use super::tcp::tcp;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A bidirectional stream of bytes.
#[doc(hidden)]
pub trait DialedStream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> DialedStream for S {}

/// Makes connections in place of TCP.
#[doc(hidden)]
pub trait Dial: fmt::Debug + Send + Sync {
    /// Connects to this port of this host. For `https` addresses, TLS runs above it.
    fn dial(&self, host: &str, port: u16) -> io::Result<Box<dyn DialedStream>>;
}

/// Makes connections of both kinds.
#[derive(Clone, Debug)]
pub(super) struct Dialer {
    tcp: HttpConnector,
    dial: Option<Arc<dyn Dial>>,
}

impl Dialer {
    pub(super) fn new(options: &TransportOptions) -> Self {
        Self { tcp: tcp(options), dial: options.dial.clone() }
    }

    /// Adds the `Dial`, because it decides which server an address reaches.
    #[cfg(feature = "reapi")]
    pub(super) fn identify(&self, caller: &mut super::CallerHash) {
        if let Some(dial) = &self.dial {
            let address = Arc::as_ptr(dial).cast::<()>().addr();
            caller.add("dial", &address.to_le_bytes());
        }
    }
}

impl Service<Uri> for Dialer {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let Some(dial) = self.dial.clone() else {
            let connecting = self.tcp.call(address);
            return Box::pin(async move { Ok(Stream::Tcp(connecting.await?)) });
        };
        let usual = if address.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
        let port = address.port_u16().unwrap_or(usual);
        let dialed = dial.dial(address.host().unwrap_or_default(), port);
        Box::pin(async move { Ok(Stream::Dialed(TokioIo::new(dialed?))) })
    }
}

/// A connection before TLS.
pub(super) enum Stream {
    Tcp(<HttpConnector as Service<Uri>>::Response),
    Dialed(TokioIo<Box<dyn DialedStream>>),
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp(_) => "Tcp",
            Self::Dialed(_) => "Dialed",
        })
    }
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        target: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, target),
            Self::Dialed(stream) => Pin::new(stream).poll_read(cx, target),
        }
    }
}

impl Write for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        source: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, source),
            Self::Dialed(stream) => Pin::new(stream).poll_write(cx, source),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Dialed(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Dialed(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Dialed(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        sources: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, sources),
            Self::Dialed(stream) => Pin::new(stream).poll_write_vectored(cx, sources),
        }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match self {
            Self::Tcp(stream) => stream.connected(),
            Self::Dialed(_) => Connected::new(),
        }
    }
}
