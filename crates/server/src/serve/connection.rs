//! One connection: HTTP/1.1 or HTTP/2 with prior knowledge, as its first bytes say.
//!
//! Requests in flight are counted. A connection without any is closed after its idle time, and
//! sooner if it never had one: a client that connects and says nothing must not keep a slot.
//!
//! The tasks of HTTP/2 streams belong to the connection and end with it.
//!
//! A client that stalls is cut (`stall`), and one that sends ahead fills a window that the memory has paid
//! (`window`).

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::access::PeerCertificate;
use super::body::ResponseBody;
use super::clients::{ClientConnection, TooManyRequests};
use super::error::ServeError;
use super::gather::{Turns, gather};
use super::observe::{Exchange, ObservedConnection};
use super::options::ServeLimits;
use super::route::Routes;
use super::stall::{ResponsePoll, until_stalled};
use super::window::{ReceiveWindow, ReceiveWindows};

/// Frames longer than HTTP/2's minimum save work for each byte.
const FRAME_BYTES_MAX: u32 = 256 << 10;
/// Bytes that a stream may have in the send buffer.
const SEND_BUFFER_BYTES: usize = 512 << 10;
/// Pings find a peer that is gone without a word.
const PING_EVERY: Duration = Duration::from_mins(1);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Frames that arrive late for streams that were answered early. Each costs a reset of 13 bytes. A
/// client that sends many blobs that are there causes some of them, and must keep its connection.
const LATE_FRAMES_MAX: usize = 100_000;

/// Serves one connection until it ends, with TLS if the server has it.
pub(super) async fn serve(
    socket: TcpStream,
    client: ClientConnection,
    windows: ReceiveWindows,
    routes: Arc<Routes>,
    observed: Arc<ObservedConnection>,
    limits: ServeLimits,
    stop: CancellationToken,
) {
    let (socket, turns) = gather(socket, limits.stall_time_max);
    let Some(tls) = routes.door().tls() else {
        let peer = Peer { client, certificate: None, turns, window: windows.open() };
        return serve_requests(socket, peer, routes, observed, limits, stop).await;
    };
    // A client that begins no handshake must not keep a slot.
    let handshake = tls.acceptor().accept(socket);
    let accepted = tokio::select! {
        accepted = tokio::time::timeout(limits.header_time_max, handshake) => accepted,
        () = stop.cancelled() => return,
    };
    match accepted {
        Ok(Ok(socket)) => {
            let certificate = PeerCertificate::of_connection(socket.get_ref().1);
            let peer = Peer { client, certificate, turns, window: windows.open() };
            serve_requests(socket, peer, routes, observed, limits, stop).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

/// Who has connected.
struct Peer {
    client: ClientConnection,
    certificate: Option<PeerCertificate>,
    turns: Turns,
    window: ReceiveWindow,
}

async fn serve_requests(
    socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    peer: Peer,
    routes: Arc<Routes>,
    observed: Arc<ObservedConnection>,
    limits: ServeLimits,
    stop: CancellationToken,
) {
    let certificate = peer.certificate.map(Arc::new);
    let tasks = StreamTasks::new(limits.stall_time_max);
    let activity = Arc::new(Activity::new(peer.client));
    {
        let _end = tasks.end.clone().drop_guard();
        let builder = builder(tasks.clone(), &limits, &peer.window);
        let (routes, activity, observed) = (&routes, &activity, &observed);
        // It belongs to the service, which ends with the connection.
        let window = RefCell::new(peer.window);
        let service = service_fn(move |request: Request<Incoming>| {
            window.borrow_mut().note_version(request.version());
            let (routes, (busy, admitted)) = (Arc::clone(routes), Busy::new(activity));
            let certificate = certificate.clone();
            let (request, exchange) = observed.begin(request, limits.stall_time_max);
            // hyper and tokio move the future several times. It is long, so it moves as a pointer.
            Box::pin(async move {
                let certificate = certificate.as_deref();
                let answered = async {
                    match admitted {
                        Ok(()) => routes.answer(request, certificate).await,
                        Err(error) => routes.refuse(request, certificate, error).await,
                    }
                };
                Ok::<_, Infallible>(answer(answered, busy, exchange).await)
            })
        });
        let mut connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
        let mut is_closing = false;
        loop {
            tokio::select! {
                ended = poll_fn(|cx| peer.turns.poll(connection.as_mut(), cx)) => {
                    match ended {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => tracing::debug!(error, "a connection broke"),
                        Err(error) => tracing::debug!(%error, "a connection broke"),
                    }
                    break;
                }
                () = stop.cancelled(), if !is_closing => {
                    connection.as_mut().graceful_shutdown();
                    is_closing = true;
                }
                () = activity.idle(&limits), if !is_closing => {
                    connection.as_mut().graceful_shutdown();
                    is_closing = true;
                }
                // All requests have ended, and the client does not take the rest of their responses.
                () = activity.quiet(limits.stall_time_max), if is_closing => break,
            }
        }
    }
    tasks.tracker.close();
    tasks.tracker.wait().await;
}

fn builder(
    tasks: StreamTasks,
    limits: &ServeLimits,
    window: &ReceiveWindow,
) -> auto::Builder<StreamTasks> {
    let mut builder = auto::Builder::new(tasks);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time_max)
        .max_buf_size(usize::try_from(limits.header_bytes_max).unwrap_or(usize::MAX).max(8192))
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(window.stream_bytes)
        .initial_connection_window_size(window.connection_bytes)
        .max_frame_size(FRAME_BYTES_MAX)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(limits.header_bytes_max)
        .max_concurrent_streams(limits.streams_max.min(window.streams_max))
        .max_local_error_reset_streams(LATE_FRAMES_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// The response. The connection is busy until its body has ended.
async fn answer(
    answered: impl Future<Output = Response<ResponseBody>>,
    busy: Busy,
    mut exchange: Exchange,
) -> Response<ResponseBody> {
    let span = exchange.span().clone();
    let mut response = answered.instrument(span).await;
    exchange.answer(&mut response);
    response.map(|body| busy.until_end_of(body, exchange))
}

/// Spawns the tasks of HTTP/2 streams.
#[derive(Clone, Debug)]
struct StreamTasks {
    tracker: TaskTracker,
    end: CancellationToken,
    stall_time_max: Duration,
}

impl StreamTasks {
    fn new(stall_time_max: Duration) -> Self {
        Self { tracker: TaskTracker::new(), end: CancellationToken::new(), stall_time_max }
    }
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for StreamTasks {
    fn execute(&self, task: F) {
        let (end, stall_time_max) = (self.end.clone(), self.stall_time_max);
        self.tracker.spawn(async move {
            tokio::select! {
                biased;
                has_ended = until_stalled(task, stall_time_max) => {
                    if !has_ended {
                        tracing::debug!("a client stalled, and the rest of its response is cut");
                    }
                }
                () = end.cancelled_owned() => {}
            }
        });
    }
}

/// The requests of a connection.
#[derive(Debug)]
struct Activity {
    client: ClientConnection,
    in_flight: AtomicUsize,
    /// Requests that have begun.
    begun: AtomicU64,
}

impl Activity {
    fn new(client: ClientConnection) -> Self {
        Self { client, in_flight: AtomicUsize::new(0), begun: AtomicU64::new(0) }
    }

    /// Waits until the connection had no request for its idle time; at most twice that.
    async fn idle(&self, limits: &ServeLimits) {
        if self.begun.load(Ordering::Acquire) == 0 {
            tokio::time::sleep(limits.header_time_max).await;
            if self.begun.load(Ordering::Acquire) == 0 {
                return;
            }
        }
        self.quiet(limits.idle_time_max).await;
    }

    /// Waits until the connection had no request for this time.
    async fn quiet(&self, time: Duration) {
        loop {
            let begun = self.begun.load(Ordering::Acquire);
            tokio::time::sleep(time).await;
            let is_quiet = self.begun.load(Ordering::Acquire) == begun;
            if is_quiet && self.in_flight.load(Ordering::Acquire) == 0 {
                return;
            }
        }
    }
}

/// One request in flight.
#[derive(Debug)]
struct Busy(Arc<Activity>);

impl Busy {
    /// Counts the request, and says whether it is within the limit of its client.
    fn new(activity: &Arc<Activity>) -> (Self, Result<(), TooManyRequests>) {
        activity.in_flight.fetch_add(1, Ordering::AcqRel);
        activity.begun.fetch_add(1, Ordering::AcqRel);
        let admitted = activity.client.begin_request();
        (Self(Arc::clone(activity)), admitted)
    }

    fn until_end_of(self, body: ResponseBody, exchange: Exchange) -> ResponseBody {
        BusyBody { body, exchange, _busy: self }.boxed_unsync()
    }
}

/// A body whose request is in flight until the body is dropped.
struct BusyBody {
    body: ResponseBody,
    exchange: Exchange,
    _busy: Busy,
}

impl Body for BusyBody {
    type Data = Bytes;
    type Error = ServeError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ServeError>>> {
        let this = &mut *self;
        let _entered = this.exchange.span().clone().entered();
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        let mut handed_out = None;
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                this.exchange.note_frame(frame);
                handed_out = frame.data_ref().map(|data| data.len() as u64);
            }
            Poll::Ready(Some(Err(_))) => this.exchange.note_failure(),
            Poll::Ready(None) | Poll::Pending => {}
        }
        ResponsePoll::note(handed_out);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.client.end_request();
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}
