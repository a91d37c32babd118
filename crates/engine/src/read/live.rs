//! [`Live`]: a response whose body is being read, with a timeout for its next byte.
//!
//! - The timer is created once and reset only when it fires. A frame that is ready at once does not
//!   read the clock; a frame after a wait reads it only a few times.
//! - A wait begins at the first poll that finds no bytes. Time before it, while the caller does not
//!   poll, is no stall.
//! - Before each wait, the bytes that arrived are reported to the transfer's [`Share`].
//!
//! Retries are not decided here: see `range_stream`.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::coop::poll_proceed;
use tokio::time::{Instant, Sleep, sleep_until};

use tidegate_core::speed::SpeedVerdict;

use super::flow::Share;
use super::request::Answered;
use crate::budget::RequestPermit;
use crate::error::Error;
use crate::remote::Body;
use crate::transfer::window::Sent;

/// The next event of a response body.
pub(super) enum Arrival {
    Frame(Bytes),
    Failed(Error),
    End,
    /// No byte arrived for this long.
    Stalled(Duration),
    /// The transfer was too slow for a period; `last` if the period before was too slow as well.
    TooSlow {
        last: bool,
    },
}

pub(super) struct Live {
    body: Body,
    start: u64,
    position: u64,
    // Offset in the blob of the body's end, as claimed by the head or a known length. `None`: the
    // blob ends at the end of the body.
    end: Option<u64>,
    unhurried: bool,
    timer: Option<Pin<Box<Sleep>>>,
    waiting: Option<Instant>,
    share: Share,
    // `None` after the end of the request was reported to the window.
    sent: Option<Sent>,
    span: tracing::Span,
    // Released when the response is dropped.
    _permit: RequestPermit,
}

impl Live {
    /// The body of this response. `end` is its claimed end.
    pub(super) fn new(
        answered: Answered,
        end: Option<u64>,
        share: Share,
        span: tracing::Span,
    ) -> Self {
        let Answered { opened, permit, sent } = answered;
        Self {
            body: opened.body,
            start: opened.start,
            position: opened.start,
            end,
            unhurried: opened.unhurried,
            timer: None,
            waiting: None,
            share,
            sent,
            span,
            _permit: permit,
        }
    }

    /// The producer sets the pace of the bytes, as in a pipe: no delay counts as a stall.
    pub(super) fn is_unhurried(&self) -> bool {
        self.unhurried
    }

    /// Continues with this body although the transfer is slow, because no new request can replace
    /// it. The transfer fails if the next period is too slow as well.
    pub(super) fn goes_on(&mut self) {
        self.share.renew();
    }

    /// No end is known: only the end of the body marks it.
    pub(super) fn is_endless(&self) -> bool {
        self.end.is_none()
    }

    /// All claimed bytes have arrived.
    pub(super) fn is_spent(&self) -> bool {
        self.end.is_some_and(|end| self.position >= end)
    }

    /// More bytes have arrived than claimed.
    pub(super) fn is_beyond(&self) -> bool {
        self.end.is_some_and(|end| self.position > end)
    }

    /// Offset in the blob of the next byte that arrives.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Counts bytes that have arrived. Returns the offset in the blob of the first of them.
    pub(super) fn passed(&mut self, bytes: u64) -> u64 {
        let start = self.position;
        self.position += bytes;
        if self.is_spent() {
            self.completed();
        }
        start
    }

    /// Reports to the window that the body delivered all its bytes.
    pub(super) fn completed(&mut self) {
        let stop = self.end.map_or(self.position, |end| end.min(self.position));
        if let Some(sent) = self.sent.take() {
            sent.succeeded(stop.saturating_sub(self.start));
        }
    }

    /// Reports to the window that the request failed, unless its success was already reported.
    pub(super) fn failed(&mut self, error: &Error) {
        if let Some(sent) = self.sent.take() {
            sent.failed(error);
        }
    }

    /// The next event of the body. `limit` returns the timeout for the next byte, counted from the
    /// start of the wait.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        limit: impl Fn() -> Duration,
    ) -> Poll<Arrival> {
        let _entered = self.span.enter();
        let (mut arrived, mut only_empty) = (self.body.as_mut().poll_next(cx), false);
        // An empty frame does not end a wait: an endless sequence of empty frames is a stall. The
        // task's cooperative budget (tokio) bounds the sequence, so that the clock is checked.
        while matches!(&arrived, Poll::Ready(Some(Ok(frame))) if frame.is_empty()) {
            only_empty = true;
            arrived = match poll_proceed(cx) {
                Poll::Ready(progress) => {
                    progress.made_progress();
                    self.body.as_mut().poll_next(cx)
                }
                Poll::Pending => Poll::Pending,
            };
        }
        if let Poll::Ready(arrived) = arrived {
            let since = self.waiting.take().filter(|_| !self.unhurried);
            return Poll::Ready(match arrived {
                Some(Ok(frame)) => {
                    self.share.on_bytes(frame.len() as u64, since);
                    Arrival::Frame(frame)
                }
                Some(Err(error)) => Arrival::Failed(error),
                None => Arrival::End,
            });
        }
        let since = if let Some(since) = self.waiting {
            since
        } else {
            match self.share.tell() {
                _ if self.unhurried => {}
                SpeedVerdict::Enough => {}
                verdict => {
                    let last = verdict == SpeedVerdict::GiveUp;
                    return Poll::Ready(Arrival::TooSlow { last });
                }
            }
            *self.waiting.insert(Instant::now())
        };
        // The timer does not fire in a task whose cooperative budget is used up.
        if only_empty && since + limit() <= Instant::now() {
            return Poll::Ready(Arrival::Stalled(limit()));
        }
        loop {
            let Some(timer) = &mut self.timer else {
                self.timer = Some(Box::pin(sleep_until(since + limit())));
                continue;
            };
            ready!(timer.as_mut().poll(cx));
            // The timer may have been set for an earlier wait.
            let now = Instant::now();
            let allowed = limit();
            if since + allowed <= now || allowed.is_zero() {
                return Poll::Ready(Arrival::Stalled(allowed));
            }
            timer.as_mut().reset(since + allowed);
        }
    }
}
