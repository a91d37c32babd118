//! The server of one scenario: it responds over streams in memory and keeps the exchanges.
//!
//! It has no sockets and no clock, so that a paused clock controls both the client and the server.
//! A connection's task ends when the client drops its side.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::draft::Ending;
use super::exchange::{Exchange, Line};
use super::manners::SECURE;
use super::scenario::{Asked, Reply, Scenario};
use crate::request::{self, Parsed, Request};
use crate::tls::Tls;

/// The unread bytes that a connection can hold: less than most bodies, so that the server is seldom
/// far ahead of its client.
const LINE_BYTES: usize = 1024;

/// With more exchanges, a client is in an endless loop: parts, restarts and a few attempts for each
/// need far fewer.
const EXCHANGES_MAX: usize = 400;

/// See the module docs. Clones share the scenario and the exchanges.
#[derive(Debug, Clone)]
pub struct HostileServer(Arc<Shared>);

struct Shared {
    scenario: Scenario,
    tls: Option<HostileTls>,
    state: Mutex<State>,
    held: Notify,
    overrun: Notify,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("scenario", &self.scenario).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    run: usize,
    number: usize,
    redirects: usize,
    /// Whether a response is to be held; it is held once.
    holds: bool,
    exchanges: Vec<Exchange>,
}

/// The certificate of all servers of a process, for `localhost`.
#[derive(Clone)]
pub struct HostileTls {
    acceptor: TlsAcceptor,
    ca_pem: String,
}

impl std::fmt::Debug for HostileTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostileTls")
    }
}

impl HostileTls {
    /// Creates a certificate.
    pub fn new() -> io::Result<Self> {
        let identity = Tls::Trusted.identity(&[b"http/1.1"], false)?;
        Ok(Self { acceptor: identity.acceptor, ca_pem: identity.ca_pem })
    }

    /// The authority that clients must trust.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }
}

impl HostileServer {
    /// A server of `scenario`. Without `tls` it takes no connections to the ports of TLS.
    pub fn new(scenario: Scenario, tls: Option<HostileTls>) -> Self {
        let state = Mutex::default();
        let (held, overrun) = (Notify::new(), Notify::new());
        Self(Arc::new(Shared { scenario, tls, state, held, overrun }))
    }

    /// Its scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.0.scenario
    }

    /// Holds one response of this run: it stops in its body or before it, and never continues.
    pub fn hold(&self) {
        self.0.lock().holds = true;
    }

    /// Waits until a response is held. Cancel-safe.
    pub async fn held(&self) {
        self.0.held.notified().await;
    }

    /// Waits until the number of the client's requests shows an endless loop. Cancel-safe.
    pub async fn overrun(&self) {
        self.0.overrun.notified().await;
    }

    /// The client restarts as another process: later responses belong to the next run and are not
    /// held.
    pub fn next_run(&self) {
        let mut state = self.0.lock();
        state.run += 1;
        state.holds = false;
    }

    /// The exchanges so far.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.0.lock().exchanges.clone()
    }

    /// A connection to a port of the server. Needs a tokio runtime.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused` if the server does not listen on the port.
    pub fn connect(&self, port: u16) -> io::Result<HostileStream> {
        let acceptor = match (&self.0.tls, port >= SECURE) {
            (_, false) => None,
            (Some(tls), true) => Some(tls.acceptor.clone()),
            (None, true) => return Err(io::ErrorKind::ConnectionRefused.into()),
        };
        let (near, far) = duplex(LINE_BYTES);
        let line = Arc::new(Line::default());
        let shared = Arc::clone(&self.0);
        let own = Arc::clone(&line);
        tokio::spawn(async move {
            // An error of a client's connection ends only that connection.
            let _ = match acceptor {
                None => serve(&shared, far, port, &own, true).await,
                Some(acceptor) => match acceptor.accept(far).await {
                    Ok(stream) => serve(&shared, stream, port, &own, false).await,
                    Err(error) => Err(error),
                },
            };
        });
        Ok(HostileStream { stream: near, line })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The response to `request`, and after how many bytes of its body it is held, if it is.
    fn answer(
        &self,
        request: Request,
        port: u16,
        line: &Arc<Line>,
        written: Option<u64>,
    ) -> (Reply, Option<usize>) {
        let mut state = self.lock();
        let (run, number, redirects) = (state.run, state.number, state.redirects);
        let asked = Asked { request, port, run, number, redirects };
        let reply = self.scenario.reply(&asked);
        if reply.is_route {
            state.redirects += 1;
        } else {
            state.number += 1;
        }
        let held = self.scenario.held(&asked).filter(|_| state.holds && !reply.is_route);
        let held = held.map(|bytes| usize::try_from(bytes).unwrap_or(0));
        let held = held.map(|bytes| bytes.min(reply.wired.body.len()));
        if held.is_some() {
            state.holds = false;
        }
        state.exchanges.push(Exchange::new(&asked, &reply, held, line, written));
        if state.exchanges.len() > EXCHANGES_MAX {
            self.overrun.notify_one();
        }
        (reply, held)
    }
}

async fn serve(
    shared: &Shared,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    port: u16,
    line: &Arc<Line>,
    is_plain: bool,
) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    let mut written = 0;
    while let Some(request) = receive(&mut stream, &mut buffer).await? {
        let (reply, held) = shared.answer(request, port, line, is_plain.then_some(written));
        stream.write_all(&reply.wired.head).await?;
        let body = &reply.wired.body[..held.unwrap_or(reply.wired.body.len())];
        stream.write_all(body).await?;
        stream.flush().await?;
        written += (reply.wired.head.len() + body.len()) as u64;
        if held.is_some() {
            shared.held.notify_one();
            return gone(&mut stream).await;
        }
        match reply.wired.ending {
            Ending::KeepAlive => {}
            Ending::Close => return stream.shutdown().await,
            Ending::Silence => return gone(&mut stream).await,
            Ending::Reset => {
                line.reset();
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The next request; `None` if there is none.
async fn receive(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> io::Result<Option<Request>> {
    loop {
        match request::parse(buffer) {
            Parsed::Request(request, used) => {
                buffer.advance(used);
                return Ok(Some(*request));
            }
            Parsed::Partial if stream.read_buf(buffer).await? == 0 => return Ok(None),
            Parsed::Partial => {}
            Parsed::Malformed => return Ok(None),
        }
    }
}

/// Waits until the client leaves.
async fn gone(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut dropped = [0; 256];
    while stream.read(&mut dropped).await? > 0 {}
    Ok(())
}

/// A client's side of a connection.
#[derive(Debug)]
pub struct HostileStream {
    stream: DuplexStream,
    line: Arc<Line>,
}

impl AsyncRead for HostileStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let count = buffer.filled().len() - before;
        self.line.count(count as u64);
        let is_end = count == 0 && buffer.remaining() > 0;
        if is_end && self.line.is_reset() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for HostileStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
