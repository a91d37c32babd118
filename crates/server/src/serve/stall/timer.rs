//! [`StallTimer`]: the least progress of a client in a time.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Bytes that must move in each stall time. With 2 minutes this is 546 bytes a second: no link is that
/// slow, and a client that sends one byte a minute cannot keep what it holds.
pub(in crate::serve) const PROGRESS_BYTES_MIN: u64 = 64 << 10;

/// Adds up the waits for a client, and begins anew after each [`PROGRESS_BYTES_MIN`].
///
/// A transfer that never waits costs an addition. One that waits costs a reading of the clock for each
/// wait, and one timer of the runtime, which is set again only when it fires.
#[derive(Debug)]
pub(in crate::serve) struct StallTimer {
    time_max: Duration,
    waits_since: Option<Instant>,
    /// Earlier waits since the last progress.
    waited: Duration,
    moved_bytes: u64,
    /// It may fire too early for the current wait, never too late.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl StallTimer {
    pub(in crate::serve) const fn new(time_max: Duration) -> Self {
        Self { time_max, waits_since: None, waited: Duration::ZERO, moved_bytes: 0, sleep: None }
    }

    /// Allows at most this time.
    pub(in crate::serve) fn limit(&mut self, time_max: Duration) {
        self.time_max = self.time_max.min(time_max);
        self.sleep = None;
    }

    pub(in crate::serve) const fn time_max(&self) -> Duration {
        self.time_max
    }

    /// Bytes moved, so a wait has ended.
    pub(in crate::serve) fn moved(&mut self, bytes: u64) {
        self.pause();
        self.moved_bytes += bytes;
        if self.moved_bytes >= PROGRESS_BYTES_MIN {
            self.moved_bytes = 0;
            self.waited = Duration::ZERO;
        }
    }

    /// The wait for the client is over, or interrupted.
    pub(in crate::serve) fn pause(&mut self) {
        if let Some(since) = self.waits_since.take() {
            self.waited += since.elapsed();
        }
    }

    /// Waits for the client. Ready when it has stalled.
    pub(in crate::serve) fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        loop {
            let now = Instant::now();
            let waited = self.waited + now.saturating_duration_since(since);
            let Some(left) = self.time_max.checked_sub(waited).filter(|left| !left.is_zero())
            else {
                return Poll::Ready(());
            };
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(left)));
            ready!(sleep.as_mut().poll(cx));
            // It was set for an earlier wait.
            sleep.as_mut().reset(now + left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Waker;

    use super::*;

    const SHORT: Duration = Duration::from_millis(5);

    fn is_stalled(timer: &mut StallTimer) -> bool {
        timer.poll_stalled(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test]
    async fn a_wait_without_progress_stalls() {
        let mut timer = StallTimer::new(SHORT);
        poll_fn(|cx| timer.poll_stalled(cx)).await;
        assert!(is_stalled(&mut timer));
    }

    #[tokio::test]
    async fn only_enough_bytes_are_progress() {
        let mut timer = StallTimer::new(SHORT);
        poll_fn(|cx| timer.poll_stalled(cx)).await;
        timer.moved(PROGRESS_BYTES_MIN - 1);
        assert!(is_stalled(&mut timer));
        timer.time_max = Duration::from_hours(1);
        timer.moved(1);
        assert_eq!((timer.waited, timer.moved_bytes), (Duration::ZERO, 0));
        assert!(!is_stalled(&mut timer));
    }

    #[tokio::test]
    async fn time_between_waits_does_not_count() {
        let mut timer = StallTimer::new(Duration::from_hours(1));
        assert!(!is_stalled(&mut timer));
        timer.pause();
        let waited = timer.waited;
        tokio::time::sleep(SHORT).await;
        timer.pause();
        assert_eq!(timer.waited, waited);
    }
}
