//! The stream below a connection: TCP, a stream that a caller's [`Dial`] makes, or a tunnel through
//! a proxy.
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
use super::proxy::Proxies;
#[cfg(feature = "_http1")]
use super::proxy::Proxy;
use super::rate::{Paced, RateLimit};
use super::tcp::tcp;
use super::tunnel::{self, Tunnel};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Connecting = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

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

/// Makes connections of all kinds, directly or through a proxy.
#[derive(Clone, Debug)]
pub(super) struct Dialer {
    tcp: HttpConnector,
    dial: Option<Arc<dyn Dial>>,
    proxies: Proxies,
    forwarding: Forwarding,
    rate: Option<RateLimit>,
}

/// What a proxy does for `http` addresses. For `https` addresses it always opens a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forwarding {
    /// It forwards single requests, whose target is the whole address.
    #[cfg(feature = "_http1")]
    Requests,
    /// It opens a tunnel, because it does not speak the protocol.
    #[cfg(feature = "reapi")]
    Nothing,
}

impl Dialer {
    pub(super) fn new(options: &TransportOptions, forwarding: Forwarding) -> Self {
        Self {
            tcp: tcp(options),
            dial: options.dial.clone(),
            proxies: options.proxies.clone(),
            forwarding,
            rate: options.rate.clone(),
        }
    }

    /// Adds the `Dial` and the proxies, because they decide which server an address reaches.
    #[cfg(feature = "reapi")]
    pub(super) fn identify(&self, caller: &mut super::CallerHash) {
        if let Some(dial) = &self.dial {
            let address = Arc::as_ptr(dial).cast::<()>().addr();
            caller.add("dial", &address.to_le_bytes());
        }
        caller.add("proxies", format!("{:?}", self.proxies).as_bytes());
    }

    /// The proxy that forwards requests to `address`; `None` if the connection leads to the server
    /// itself.
    #[cfg(feature = "_http1")]
    pub(super) fn forwarder(&self, address: &Uri) -> Option<Proxy> {
        if self.is_forwarded(address) { self.proxies.proxy(address) } else { None }
    }

    fn is_forwarded(&self, address: &Uri) -> bool {
        let forwards = match self.forwarding {
            #[cfg(feature = "_http1")]
            Forwarding::Requests => true,
            #[cfg(feature = "reapi")]
            Forwarding::Nothing => false,
        };
        forwards && address.scheme() == Some(&Scheme::HTTP)
    }

    /// Connects to the host of `address`, directly or through its proxy.
    fn route(&mut self, address: Uri) -> Connecting {
        let Some(proxy) = self.proxies.proxy(&address) else { return self.connect(address) };
        let connecting = self.connect(proxy.uri.clone());
        let is_forwarded = self.is_forwarded(&address);
        Box::pin(async move {
            let stream = connecting.await.map_err(|error| proxy.unreachable(error))?;
            if is_forwarded {
                return Ok(stream);
            }
            let tunnel = tunnel::open(stream, &proxy, &address).await?;
            Ok(Stream::Tunnel(Box::new(tunnel)))
        })
    }

    /// Connects to the host of `address` itself.
    fn connect(&mut self, address: Uri) -> Connecting {
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

impl Service<Uri> for Dialer {
    type Response = Dialed;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Dialed, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let connecting = self.route(address);
        let rate = self.rate.clone();
        Box::pin(async move { Ok(Paced::new(connecting.await?, rate)) })
    }
}

/// A connection before TLS, which keeps to the limit of the options.
pub(super) type Dialed = Paced<Stream>;

/// A connection before TLS.
pub(super) enum Stream {
    Tcp(<HttpConnector as Service<Uri>>::Response),
    Dialed(TokioIo<Box<dyn DialedStream>>),
    /// Through a proxy, to a server beyond it.
    Tunnel(Box<Tunnel<Self>>),
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp(_) => "Tcp",
            Self::Dialed(_) => "Dialed",
            Self::Tunnel(_) => "Tunnel",
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
            Self::Tunnel(stream) => Pin::new(stream).poll_read(cx, target),
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
            Self::Tunnel(stream) => Pin::new(stream).poll_write(cx, source),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Dialed(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tunnel(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Dialed(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tunnel(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Dialed(stream) => stream.is_write_vectored(),
            Self::Tunnel(stream) => stream.is_write_vectored(),
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
            Self::Tunnel(stream) => Pin::new(stream).poll_write_vectored(cx, sources),
        }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match self {
            Self::Tcp(stream) => stream.connected(),
            Self::Dialed(_) => Connected::new(),
            Self::Tunnel(stream) => stream.connected(),
        }
    }
}
