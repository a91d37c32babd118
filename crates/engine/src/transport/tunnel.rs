//! A tunnel through a proxy: the method `CONNECT` of HTTP (RFC 9110, section 9.3.6).
//!
//! hyper speaks HTTP with the proxy and then gives the connection back, together with bytes that
//! arrived after the proxy's response: an HTTP/2 server sends its settings without being asked.

use std::error::Error as StdError;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

use super::proxy::Proxy;

type BoxError = Box<dyn StdError + Send + Sync>;

/// The proxy did not open a tunnel.
#[derive(Debug, thiserror::Error)]
#[error("the proxy {proxy} answered CONNECT with {status}")]
pub(crate) struct TunnelRefused {
    pub(crate) status: StatusCode,
    /// Host and port.
    pub(crate) proxy: String,
}

/// A connection to a server, through a proxy.
#[derive(Debug)]
pub(super) struct Tunnel<S> {
    stream: S,
    /// Bytes of the server that arrived with the proxy's response.
    early: Bytes,
}

impl<S: Read + Unpin> Read for Tunnel<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut target: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.early.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, target);
        }
        let len = self.early.len().min(target.remaining());
        target.put_slice(&self.early.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl<S: Write + Unpin> Write for Tunnel<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        source: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, source)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        sources: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, sources)
    }
}

impl<S: Connection> Connection for Tunnel<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

/// Opens a tunnel to the host and port of `address`, over a connection to `proxy`. Cancel-safe: a
/// dropped future closes the connection.
pub(super) async fn open<S>(stream: S, proxy: &Proxy, address: &Uri) -> Result<Tunnel<S>, BoxError>
where
    S: Read + Write + Send + Unpin + 'static,
{
    let (mut requests, connection) = http1::handshake(stream).await?;
    let (request, shown) = (request(proxy, address)?, proxy.authority());
    let exchange = Box::pin(async move {
        let response = requests.send_request(request).await?;
        if !response.status().is_success() {
            let (status, proxy) = (response.status(), shown);
            return Err(BoxError::from(TunnelRefused { status, proxy }));
        }
        let upgraded = hyper::upgrade::on(response).await?;
        // It is the stream of the handshake, so this does not fail.
        let parts = upgraded.downcast::<S>().ok().ok_or("the tunnel has another stream")?;
        Ok(Tunnel { stream: parts.io, early: parts.read_buf })
    });
    match select(exchange, connection.with_upgrades()).await {
        Either::Left((opened, _)) => opened,
        // The connection was handed over, or it failed; the exchange knows which.
        Either::Right((_, exchange)) => exchange.await,
    }
}

fn request(proxy: &Proxy, address: &Uri) -> Result<Request<Empty<Bytes>>, BoxError> {
    let host = address.host().unwrap_or_default();
    let usual = if address.scheme_str() == Some("http") { 80 } else { 443 };
    let target = format!("{host}:{}", address.port_u16().unwrap_or(usual));
    let mut request = Request::builder()
        .method(Method::CONNECT)
        .uri(Uri::builder().authority(target.as_str()).build()?)
        .header(header::HOST, target);
    if let Some(auth) = &proxy.auth {
        request = request.header(header::PROXY_AUTHORIZATION, auth);
    }
    Ok(request.body(Empty::new())?)
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    /// Opens a tunnel through a proxy that sends `response`. Also returns the proxy's end.
    async fn opened(
        response: &'static [u8],
    ) -> (Result<Tunnel<TokioIo<DuplexStream>>, BoxError>, DuplexStream, String) {
        let (near, mut far) = duplex(1 << 16);
        let uri = "http://proxy.example:3128".parse().unwrap();
        let proxy = Proxy { uri, auth: Some("Basic eDp5".parse().unwrap()) };
        let address = "https://host.example/path".parse().unwrap();
        let answering = async {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(far.read_u8().await.unwrap());
            }
            far.write_all(response).await.unwrap();
            String::from_utf8(request).unwrap()
        };
        let (tunnel, request) =
            futures_util::join!(open(TokioIo::new(near), &proxy, &address), answering);
        (tunnel, far, request)
    }

    #[tokio::test]
    async fn the_request_names_the_host_its_port_and_the_credentials() {
        let (tunnel, mut far, request) = opened(b"HTTP/1.1 200 OK\r\n\r\n").await;
        let mut lines = request.lines();
        assert_eq!(lines.next(), Some("CONNECT host.example:443 HTTP/1.1"));
        let fields: Vec<_> = lines.map(str::to_ascii_lowercase).collect();
        assert!(fields.contains(&"host: host.example:443".to_owned()), "{fields:?}");
        assert!(fields.contains(&"proxy-authorization: basic edp5".to_owned()), "{fields:?}");
        let mut tunnel = TokioIo::new(tunnel.unwrap());
        tunnel.write_all(b"to the server").await.unwrap();
        let mut received = [0; 13];
        far.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"to the server");
    }

    /// An HTTP/2 server speaks first, and the proxy may send its bytes together with the response.
    #[tokio::test]
    async fn bytes_that_arrive_with_the_response_are_delivered() {
        let (tunnel, mut far, _) = opened(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nearly").await;
        let mut tunnel = TokioIo::new(tunnel.unwrap());
        far.write_all(b" and late").await.unwrap();
        drop(far);
        let mut received = String::new();
        tunnel.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "early and late");
    }

    #[tokio::test]
    async fn a_refusal_names_the_proxy_and_the_status() {
        let (tunnel, ..) = opened(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").await;
        let error = tunnel.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the proxy proxy.example:3128 answered CONNECT with 403 Forbidden"
        );
        assert!(error.is::<TunnelRefused>());
        assert!(opened(b"not HTTP\r\n\r\n").await.0.is_err());
    }
}
