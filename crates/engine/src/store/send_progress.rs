//! [`SendProgress`]: how many bytes of a request in flight were handed to the connection, and
//! whether the request still makes progress.
//!
//! On a slow link it can take a minute to send a request, and until its response its bytes do not
//! count as transferred. This count is for display only: the request may have to be sent again. The
//! count also distinguishes a slow request from a stalled one. Two kinds of bytes are progress:
//! bytes that a connection takes, and bytes that it hands to the system while it still holds bytes
//! of this request.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Bytes that a connection may hand to the system before it reaches the bytes of one request: 16
/// requests on one connection, each with a chunk of 2 MiB in its buffer.
const AHEAD_BYTES_MAX: u64 = 32 << 20;

/// Time that a connection may take to send the bytes of a request that it holds, before the timeout
/// for the response begins: [`AHEAD_BYTES_MAX`] at the slowest allowed speed, 64 KiB/s.
const LAST_BYTES_MAX: Duration = Duration::from_secs(512);

/// A connection that reports the bytes it sends.
pub(crate) trait Outgoing: fmt::Debug + Send + Sync {
    /// Bytes handed to the system so far, and the time of the last of them.
    fn written(&self) -> (u64, Option<Instant>);
}

/// Receives from a store the number of bytes sent for one request; a store that does not know it
/// reports nothing. Clones are for the same request.
#[derive(Clone, Debug, Default)]
pub struct SendProgress {
    inner: Arc<Inner>,
}

/// See [`SendProgress::sent`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentBytes {
    /// Identifies the connection.
    pub(crate) connection: Option<usize>,
    pub(crate) bytes: u64,
}

#[derive(Debug, Default)]
struct Inner {
    /// The sum of all requests that share the counter.
    going_bytes: Arc<AtomicU64>,
    own: Mutex<Own>,
}

#[derive(Debug, Default)]
struct Own {
    reported_bytes: u64,
    /// How many bytes are not reported yet.
    left_bytes: u64,
    /// When the last byte was handed over.
    all_since: Option<Instant>,
    /// The time of the last progress.
    moved: Option<Instant>,
    outgoing: Option<Arc<dyn Outgoing>>,
    /// The connection's written bytes when it last took bytes of this request.
    written_bytes: u64,
}

impl SendProgress {
    /// Adds the bytes sent of a request of `len` bytes to `going_bytes`, until [`Self::end`].
    pub(crate) fn new(going_bytes: &Arc<AtomicU64>, len: u64) -> Self {
        let own = Own { left_bytes: len, moved: Some(Instant::now()), ..Own::default() };
        let going_bytes = Arc::clone(going_bytes);
        Self { inner: Arc::new(Inner { going_bytes, own: Mutex::new(own) }) }
    }

    /// Reports that this many more bytes were handed to the connection. Bytes beyond the request's
    /// length are ignored, so a protocol's overhead may be included.
    pub fn passed(&self, bytes: u64) {
        let mut own = self.own();
        let bytes = bytes.min(own.left_bytes);
        own.left_bytes -= bytes;
        own.reported_bytes += bytes;
        own.touch();
        if own.left_bytes == 0 {
            own.all_since = own.all_since.or(own.moved);
        }
        self.inner.going_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Reports that the last byte was handed over. The count may be lower than the length: the
    /// server has the other bytes from an earlier attempt.
    pub(crate) fn passed_all(&self) {
        let mut own = self.own();
        own.touch();
        own.all_since = own.all_since.or(own.moved);
    }

    /// Reports that the request uses this connection.
    #[cfg(feature = "reapi")]
    pub(crate) fn over(&self, outgoing: Arc<dyn Outgoing>) {
        let mut own = self.own();
        own.outgoing = Some(outgoing);
        own.touch();
    }

    /// Returns when the request has made no progress for `limit`, or, after its last byte, for
    /// `response_limit`; returns the limit that was exceeded. Cancel-safe.
    pub(crate) async fn stalled(&self, limit: Duration, response_limit: Duration) -> Duration {
        let since = Instant::now();
        loop {
            let (moved, all_since) = self.own().look();
            let limit = if all_since.is_some() { response_limit } else { limit };
            let last = all_since.map(|all_since| all_since + LAST_BYTES_MAX);
            let moved = moved.unwrap_or(since);
            let until = last.map_or(moved, |last| last.min(moved)) + limit;
            if until <= Instant::now() {
                return limit;
            }
            sleep_until(until).await;
        }
    }

    /// Bytes that have been sent so far, as long as the request has bytes to hand over. They are
    /// those of its connection, or its own if the store does not report the connection.
    pub(crate) fn sent(&self) -> Option<SentBytes> {
        let own = self.own();
        own.all_since.is_none().then(|| match &own.outgoing {
            Some(outgoing) => SentBytes {
                connection: Some(Arc::as_ptr(outgoing).addr()),
                bytes: outgoing.written().0,
            },
            None => SentBytes { connection: None, bytes: own.reported_bytes },
        })
    }

    /// Reports that the request has ended, successfully or not: none of its bytes are in flight,
    /// and later reports are ignored.
    pub(crate) fn end(&self) {
        let reported_bytes = std::mem::take(&mut *self.own()).reported_bytes;
        self.inner.going_bytes.fetch_sub(reported_bytes, Ordering::Relaxed);
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.inner.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Own {
    /// Records that the connection took bytes of the request.
    fn touch(&mut self) {
        self.moved = Some(Instant::now());
        self.written_bytes = self.outgoing.as_ref().map_or(0, |outgoing| outgoing.written().0);
    }

    /// The time of the last progress, and the time when the last byte was handed over.
    fn look(&mut self) -> (Option<Instant>, Option<Instant>) {
        let written = self.outgoing.as_ref().map(|outgoing| outgoing.written());
        if let Some((bytes, last)) = written
            && bytes.saturating_sub(self.written_bytes) <= AHEAD_BYTES_MAX
        {
            self.moved = self.moved.max(last);
        }
        (self.moved, self.all_since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_counts_until_its_request_ends() {
        let going = Arc::new(AtomicU64::new(0));
        let (one, other) = (SendProgress::new(&going, 10), SendProgress::new(&going, 5));
        one.passed(7);
        one.clone().passed(7);
        other.passed(3);
        assert_eq!(going.load(Ordering::Relaxed), 13);
        one.end();
        one.passed(1);
        one.end();
        assert_eq!(going.load(Ordering::Relaxed), 3);
        other.end();
        assert_eq!(going.load(Ordering::Relaxed), 0);
        SendProgress::default().passed(4);
    }

    const LIMIT: Duration = Duration::from_secs(1);
    const RESPONSE_LIMIT: Duration = Duration::from_secs(3);

    async fn seconds_until_stalled(progress: &SendProgress) -> u64 {
        let start = Instant::now();
        progress.stalled(LIMIT, RESPONSE_LIMIT).await;
        // Timers have a resolution of milliseconds.
        (start.elapsed() + Duration::from_millis(10)).as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_move_is_stalled_and_a_response_may_take_longer() {
        let progress = SendProgress::new(&Arc::default(), 10);
        assert_eq!(seconds_until_stalled(&progress).await, 1);
        progress.passed(4);
        assert_eq!(seconds_until_stalled(&progress).await, 1);
        progress.passed(6);
        assert_eq!(seconds_until_stalled(&progress).await, 3);
        let resumed = SendProgress::new(&Arc::default(), 10);
        resumed.passed(3);
        resumed.passed_all();
        assert_eq!(seconds_until_stalled(&resumed).await, 3);
    }

    /// A connection that writes this many bytes per second, from its beginning on.
    #[cfg(feature = "reapi")]
    #[derive(Debug)]
    struct Link(Instant, u64);

    #[cfg(feature = "reapi")]
    impl Outgoing for Link {
        fn written(&self) -> (u64, Option<Instant>) {
            let seconds = self.0.elapsed().as_secs();
            (seconds * self.1, (self.1 > 0).then(|| self.0 + Duration::from_secs(seconds)))
        }
    }

    #[cfg(feature = "reapi")]
    #[tokio::test(start_paused = true)]
    async fn the_last_bytes_of_a_request_do_not_postpone_the_response_for_ever() {
        let progress = SendProgress::new(&Arc::default(), 10);
        progress.over(Arc::new(Link(Instant::now(), 1)));
        progress.passed(10);
        assert_eq!(seconds_until_stalled(&progress).await, 512 + 3);
    }

    /// A slow connection that still sends has not stalled; one that has sent all its buffered bytes
    /// has.
    #[cfg(feature = "reapi")]
    #[tokio::test(start_paused = true)]
    async fn what_waits_in_a_connection_moves_as_long_as_that_sends() {
        for (bytes_per_s, stalled_after) in [(64 << 10, 513), (4 << 20, 9), (0, 1)] {
            let progress = SendProgress::new(&Arc::default(), 10);
            progress.over(Arc::new(Link(Instant::now(), bytes_per_s)));
            assert_eq!(seconds_until_stalled(&progress).await, stalled_after, "{bytes_per_s}");
        }
    }
}
