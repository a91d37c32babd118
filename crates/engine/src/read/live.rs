//! An answer that is being read, and how long its next byte may take.
//!
//! The timer is armed once and moved only when it fires: a frame costs no more than a look at the
//! clock, and only where it had to be waited for. Time in which nobody asks for bytes is no stall.
//! What arrived is told to the transfer's [`Share`] before each wait.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep_until};

use tidegate_core::speed::SpeedVerdict;

use super::flow::Share;
use crate::budget::RequestPermit;
use crate::error::Error;
use crate::remote::Body;

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
    position: u64,
    // Offset in the blob of the body's end, as it is claimed. Where it is not, the blob ends where
    // the body does.
    end: Option<u64>,
    unhurried: bool,
    timer: Option<Pin<Box<Sleep>>>,
    waiting: Option<Instant>,
    share: Share,
    span: tracing::Span,
    // Given back when the answer is dropped.
    _permit: RequestPermit,
}

impl Live {
    pub(super) fn new(
        body: Body,
        position: u64,
        end: Option<u64>,
        share: Share,
        permit: RequestPermit,
        span: tracing::Span,
    ) -> Self {
        let (timer, waiting) = (None, None);
        Self { body, position, end, unhurried: false, timer, waiting, share, span, _permit: permit }
    }

    /// The same, where a wait is no stall.
    pub(super) fn unhurried(self, unhurried: bool) -> Self {
        Self { unhurried, ..self }
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
        start
    }

    /// `limit` tells how long a byte may take from now.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        limit: impl Fn() -> Duration,
    ) -> Poll<Arrival> {
        let _entered = self.span.enter();
        if let Poll::Ready(arrived) = self.body.as_mut().poll_next(cx) {
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
