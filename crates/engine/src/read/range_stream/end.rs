//! The end of a body: the end of the range, the end of the blob, an interruption, or too many
//! bytes.
//!
//! The end decides whether delivered bytes are valid. The head of a response is checked in
//! `answer`, and retries are decided in `interruption`.

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
            live.completed();
            self.phase = Phase::Idle;
            return self.blob_ended(position);
        }
        let error = self
            .error(ErrorKind::Transport, "the body ended before the range did")
            .retryable(RetryClass::Now);
        // A body that delivered all its claimed bytes may have reached the end of the blob. The
        // next response shows whether it did. Without a version, a response that claims bytes
        // beyond this end is refused.
        if is_spent {
            self.phase = Phase::Idle;
            self.ask_again(error)
        } else {
            self.interrupted(error)
        }
    }

    /// No response gave the length, so the blob ends at the end of this body. It is an error if
    /// bytes beyond this end were already delivered.
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

    /// After the last byte, waits until its body has ended; see [`Self::poll_sound`]. Cancel-safe.
    pub(crate) async fn sound(&mut self) -> Result<()> {
        std::future::poll_fn(|cx| self.poll_sound(cx)).await
    }

    /// Ready once the body of the last byte has ended, or if that body is not read to its end. A
    /// connection error here is ignored: the body has delivered all its claimed bytes.
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

    /// The error for a body that is longer than its head claims. No byte of such a body is valid,
    /// and the stream ends.
    pub(super) fn too_long(&mut self) -> Error {
        self.phase = Phase::Unsound;
        self.error(ErrorKind::Integrity, "the body is longer than its head says")
            .with_hint(Setting::Window)
    }

    /// A body contradicted its head, and some of its bytes may have been delivered. So the stream
    /// never ends with success.
    pub(crate) fn is_unsound(&self) -> bool {
        matches!(self.phase, Phase::Unsound)
    }
}
