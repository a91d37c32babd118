//! An answer that is being read, and how long its next byte may take.
//!
//! The timer is armed once and moved only when it fires: a frame costs no more than a look at the
//! clock, and only where it had to be waited for. Time in which nobody asks for bytes is no stall.
//! What arrived is told to the transfer's [`Share`] before each wait.

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

/// What comes next of an answer.
pub(super) enum Arrival {
    Frame(Bytes),
    Failed(Error),
    End,
    /// Nothing, for so long.
    Stalled(Duration),
    /// The transfer has been too slow for a period; `last` where it was before that, too.
    TooSlow {
        last: bool,
    },
}

pub(super) struct Live {
    body: Body,
    start: u64,
    position: u64,
    // Offset in the blob of the body's end, as it is claimed. Where it is not, the blob ends where
    // the body does.
    end: Option<u64>,
    unhurried: bool,
    timer: Option<Pin<Box<Sleep>>>,
    waiting: Option<Instant>,
    share: Share,
    // Until the window has been told how the request ended.
    sent: Option<Sent>,
    span: tracing::Span,
    // Given back when the answer is dropped.
    _permit: RequestPermit,
}

impl Live {
    /// The body of this answer, which claims to end at `end`.
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

    pub(super) fn is_unhurried(&self) -> bool {
        self.unhurried
    }

    /// Nothing can take its place: it is read on where the transfer is slow, until that fails.
    pub(super) fn goes_on(&mut self) {
        self.share.renew();
    }

    /// Nothing tells where the body ends, but its end.
    pub(super) fn is_endless(&self) -> bool {
        self.end.is_none()
    }

    /// All that is claimed has arrived.
    pub(super) fn is_spent(&self) -> bool {
        self.end.is_some_and(|end| self.position >= end)
    }

    /// More has arrived than is claimed.
    pub(super) fn is_beyond(&self) -> bool {
        self.end.is_some_and(|end| self.position > end)
    }

    /// Offset in the blob of the next byte that arrives.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Counts bytes that have arrived; returns the offset in the blob of their first.
    pub(super) fn passed(&mut self, bytes: u64) -> u64 {
        let start = self.position;
        self.position += bytes;
        if self.is_spent() {
            self.brought();
        }
        start
    }

    /// Tells the window that the body brought all that it was to bring.
    pub(super) fn brought(&mut self) {
        let stop = self.end.map_or(self.position, |end| end.min(self.position));
        if let Some(sent) = self.sent.take() {
            sent.brought(stop.saturating_sub(self.start));
        }
    }

    /// Tells the window that the request failed, unless it had brought everything.
    pub(super) fn failed(&mut self, error: &Error) {
        if let Some(sent) = self.sent.take() {
            sent.failed(error);
        }
    }

    /// `limit` tells how long a byte may take from now.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        limit: impl Fn() -> Duration,
    ) -> Poll<Arrival> {
        let _entered = self.span.enter();
        let (mut arrived, mut only_empty) = (self.body.as_mut().poll_next(cx), false);
        // A frame without bytes does not end a wait: an endless row of them is silence. The budget
        // of the task bounds the row, so that the clock is looked at.
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
        // The timer does not fire in a task whose budget is used up.
        if only_empty && since + limit() <= Instant::now() {
            return Poll::Ready(Arrival::Stalled(limit()));
        }
        loop {
            let Some(timer) = &mut self.timer else {
                self.timer = Some(Box::pin(sleep_until(since + limit())));
                continue;
            };
            ready!(timer.as_mut().poll(cx));
            // It may have been armed for an earlier wait.
            let now = Instant::now();
            let allowed = limit();
            if since + allowed <= now || allowed.is_zero() {
                return Poll::Ready(Arrival::Stalled(allowed));
            }
            timer.as_mut().reset(since + allowed);
        }
    }
}
