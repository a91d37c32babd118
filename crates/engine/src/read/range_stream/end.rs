//! The end of a body: the range's, the blob's, an early one, or one that comes too late.

use std::task::{Context, Poll, ready};

use tidegate_core::retry::RetryClass;

use super::{Phase, RangeStream};
use crate::error::{Error, ErrorKind, Result, Setting};
use crate::read::live::Arrival;

impl RangeStream {
    /// A body has ended before the range did.
    pub(super) fn body_ended(&mut self) -> Result<()> {
        let Phase::Live(live) = &mut self.phase else { return Ok(()) };
        let (position, is_endless, is_spent) =
            (live.position(), live.is_endless(), live.is_spent());
        if is_endless {
            live.brought();
            self.phase = Phase::Idle;
            return self.blob_ended(position);
        }
        let error = self
            .error(ErrorKind::Transport, "the body ended before the range did")
            .retryable(RetryClass::Now);
        // One that kept to its head may have been the last: the next answer says so. Without a
        // version that is all it can say.
        if is_spent {
            self.phase = Phase::Idle;
            self.ask_again(error)
        } else {
            self.interrupted(error)
        }
    }

    /// No answer told the length: the blob ends where this body does, unless more was delivered.
    fn blob_ended(&mut self, position: u64) -> Result<()> {
        if position < self.delivered_end {
            let message = format!(
                "the response ended at byte {position}, but {} bytes were delivered before",
                self.delivered_end
            );
            return Err(self.error(ErrorKind::Integrity, message));
        }
        self.len_bytes = Some(position);
        if position < self.next {
            let message = format!("the range begins beyond the end of the blob ({position} bytes)");
            return Err(self.error(ErrorKind::OutOfRange, message));
        }
        self.end = Some(position);
        self.done = true;
        Ok(())
    }

    /// Waits behind the last byte until its body has ended; see [`Self::poll_sound`].
    /// Cancel-safe.
    pub(crate) async fn sound(&mut self) -> Result<()> {
        std::future::poll_fn(|cx| self.poll_sound(cx)).await
    }

    /// Ready once the body that brought the last byte has ended, or is not read to its end. A body
    /// that breaks there has brought all that its head claims.
    pub(crate) fn poll_sound(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match &self.phase {
            Phase::Live(live) if live.is_spent() => {}
            Phase::Unsound => return Poll::Ready(Err(self.too_long())),
            _ => return Poll::Ready(Ok(())),
        }
        let arrival = ready!(self.poll_arrival(cx));
        if matches!(arrival, Arrival::Frame(_)) && !self.reader_verifies {
            return Poll::Ready(Err(self.too_long()));
        }
        self.phase = Phase::Idle;
        Poll::Ready(Ok(()))
    }

    /// A body that is longer than its head says contradicts its head, so none of it is used.
    pub(super) fn too_long(&mut self) -> Error {
        self.phase = Phase::Unsound;
        self.error(ErrorKind::Integrity, "the body is longer than its head says")
            .with_hint(Setting::Window)
    }

    /// Bytes of a body that contradicts its head may have been delivered, so that no end is one.
    pub(crate) fn is_unsound(&self) -> bool {
        matches!(self.phase, Phase::Unsound)
    }
}
