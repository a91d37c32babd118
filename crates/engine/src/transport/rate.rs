//! [`RateLimit`]: a limit on the bytes per second that connections receive and send.
//!
//! All connections with clones of one limit share one clock of debts. A connection receives or
//! sends up to one turn's bytes, and then waits until the bytes of all turns before its own, and its
//! own, have been paid for at the limit's rate. So every connection that has work gets one turn in
//! each round: with 10 MiB/s and 32 busy connections, a turn has 160 KiB and a round takes 0.5 s.
//!
//! The limit is below TLS and HTTP: it counts their bytes too, and TCP's flow control stops the
//! server. Because a connection pays after its turn, a connection that is idle owes nothing, and
//! each new connection may exceed the rate by one turn.

use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::time::{Instant, Sleep};

/// Turns a second: enough for a smooth rate.
const TURNS_PER_S: u64 = 64;

/// Limits of the bytes of one turn. Below a kibibyte the calls would cost more than the bytes.
const TURN_BYTES: (u64, u64) = (1 << 10, 256 << 10);

/// The longest delay of a timer that later turns make up for.
const LATE_MAX: Duration = Duration::from_millis(50);

/// A limit that connections share. Clones are the same limit.
#[derive(Clone, Debug)]
pub struct RateLimit(Arc<Limit>);

#[derive(Debug)]
struct Limit {
    bytes_per_s: NonZeroU64,
    /// When all turns so far are paid for; `None` before the first.
    paid_at: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// A limit of this many bytes per second, in both directions together.
    #[must_use]
    pub fn new(bytes_per_s: NonZeroU64) -> Self {
        Self(Arc::new(Limit { bytes_per_s, paid_at: Mutex::default() }))
    }

    /// In bytes.
    #[must_use]
    pub fn bytes_per_s(&self) -> NonZeroU64 {
        self.0.bytes_per_s
    }

    fn turn_bytes(&self) -> usize {
        let (min, max) = TURN_BYTES;
        let turn = (self.0.bytes_per_s.get() / TURNS_PER_S).clamp(min, max);
        usize::try_from(turn).unwrap_or(usize::MAX)
    }

    /// Charges a turn; the time when it is paid for.
    fn charge(&self, bytes: usize) -> Instant {
        let rate = u128::from(self.0.bytes_per_s.get());
        let nanos = (bytes as u128).saturating_mul(1_000_000_000) / rate;
        let debt = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let now = Instant::now();
        let mut paid_at = self.0.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
        // Timers are late, by a millisecond or so in each turn, and that must not lower the rate. All
        // other time in which nothing was owed is lost, so that it does not become a burst.
        let earliest = now.checked_sub(LATE_MAX).unwrap_or(now);
        let begins = paid_at.map_or(now, |paid_at| paid_at.max(earliest));
        let paid = begins.checked_add(debt).unwrap_or(begins);
        *paid_at = Some(paid);
        paid
    }
}

/// A stream that keeps to a limit, if it has one.
#[derive(Debug)]
pub(super) struct Paced<S> {
    stream: S,
    pace: Option<Pace>,
}

#[derive(Debug)]
struct Pace {
    limit: RateLimit,
    /// Ends when this connection's last turn is paid for.
    debt: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    fn poll_paid(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(debt) = &mut self.debt {
            ready!(debt.as_mut().poll(cx));
            self.debt = None;
        }
        Poll::Ready(())
    }

    fn charge(&mut self, bytes: usize) {
        if bytes > 0 {
            let paid = self.limit.charge(bytes);
            self.debt = Some(Box::pin(tokio::time::sleep_until(paid)));
        }
    }
}

impl<S> Paced<S> {
    pub(super) fn new(stream: S, limit: Option<RateLimit>) -> Self {
        Self { stream, pace: limit.map(|limit| Pace { limit, debt: None }) }
    }
}

impl<S: Read + Unpin> Read for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut target: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, pace } = &mut *self;
        let Some(pace) = pace else { return Pin::new(stream).poll_read(cx, target) };
        ready!(pace.poll_paid(cx));
        // A cursor cannot be shortened without `unsafe`, so the bytes are read here first. The rate
        // is limited, so the copy does not count.
        let mut turn = vec![0; pace.limit.turn_bytes().min(target.remaining())];
        let mut read = ReadBuf::new(&mut turn);
        ready!(Pin::new(stream).poll_read(cx, read.unfilled()))?;
        target.put_slice(read.filled());
        pace.charge(read.filled().len());
        Poll::Ready(Ok(()))
    }
}

impl<S: Write + Unpin> Write for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        source: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, pace } = &mut *self;
        let Some(pace) = pace else { return Pin::new(stream).poll_write(cx, source) };
        ready!(pace.poll_paid(cx));
        let turn = source.get(..pace.limit.turn_bytes()).unwrap_or(source);
        let written = ready!(Pin::new(stream).poll_write(cx, turn))?;
        pace.charge(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    /// With a limit, the first buffer of several is written as one turn.
    fn is_write_vectored(&self) -> bool {
        self.pace.is_none() && self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        sources: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.pace.is_none() {
            return Pin::new(&mut self.stream).poll_write_vectored(cx, sources);
        }
        let first = sources.iter().find(|source| !source.is_empty());
        let first = first.map_or(&[][..], |source| &**source);
        self.poll_write(cx, first)
    }
}

impl<S: Connection> Connection for Paced<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    fn limit(bytes_per_s: u64) -> RateLimit {
        RateLimit::new(NonZeroU64::new(bytes_per_s).unwrap())
    }

    /// A stream with the limit, and its other end.
    fn paced(limit: &RateLimit) -> (TokioIo<Paced<TokioIo<DuplexStream>>>, DuplexStream) {
        let (near, far) = duplex(1 << 20);
        (TokioIo::new(Paced::new(TokioIo::new(near), Some(limit.clone()))), far)
    }

    /// Reads everything that the other end sends; returns the seconds that it took.
    async fn read(limit: &RateLimit, bytes: usize) -> f64 {
        let (mut stream, mut far) = paced(limit);
        let began = Instant::now();
        let sending = async move { far.write_all(&vec![7; bytes]).await.unwrap() };
        let receiving = async {
            let mut received = Vec::new();
            stream.read_to_end(&mut received).await.unwrap();
            assert!(received.len() == bytes && received.iter().all(|byte| *byte == 7));
        };
        futures_util::join!(sending, receiving);
        began.elapsed().as_secs_f64()
    }

    // On the paused clock, time passes only while everything waits.

    #[tokio::test(start_paused = true)]
    async fn bytes_arrive_at_the_rate() {
        let seconds = read(&limit(100 << 10), 500 << 10).await;
        assert!((4.9..5.1).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn connections_share_the_rate_fairly() {
        let limit = limit(100 << 10);
        let (short, long) = futures_util::join!(read(&limit, 100 << 10), read(&limit, 300 << 10));
        // Each gets half the rate until the short one ends.
        assert!((1.9..2.1).contains(&short), "{short}");
        assert!((3.9..4.1).contains(&long), "{long}");
    }

    #[tokio::test(start_paused = true)]
    async fn time_without_work_is_not_saved_up() {
        let limit = limit(100 << 10);
        read(&limit, 1).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        let seconds = read(&limit, 200 << 10).await;
        assert!((1.9..2.1).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn writes_keep_to_the_rate() {
        let (mut stream, mut far) = paced(&limit(100 << 10));
        let began = Instant::now();
        let sent: Vec<u8> = (0..300 << 10).map(|n: usize| n.to_le_bytes()[0]).collect();
        let sending = async {
            let (one, two) = sent.split_at(1000);
            let sources = [IoSlice::new(&[]), IoSlice::new(one)];
            assert_eq!(stream.write_vectored(&sources).await.unwrap(), 1000);
            stream.write_all(two).await.unwrap();
            stream.shutdown().await.unwrap();
        };
        let mut received = Vec::new();
        let receiving = async { far.read_to_end(&mut received).await.unwrap() };
        futures_util::join!(sending, receiving);
        assert!(received == sent);
        let seconds = began.elapsed().as_secs_f64();
        assert!((2.9..3.1).contains(&seconds), "{seconds}");
    }

    #[tokio::test]
    async fn a_stream_without_a_limit_is_untouched() {
        let (near, mut far) = duplex(1 << 20);
        let mut stream = TokioIo::new(Paced::new(TokioIo::new(near), None));
        far.write_all(&vec![1; 900_000]).await.unwrap();
        let mut received = vec![0; 1 << 20];
        assert_eq!(stream.read(&mut received).await.unwrap(), 900_000, "in one call");
    }
}
