//! What a failure means where it happens, and whether reading goes on after it.

use tidegate_core::retry::{GiveUpReason, RetryClass, RetryDecision};

use super::{Phase, RangeStream};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::flow::{SLOW_HINT, floor_of};

/// An address that has never answered is tried this often, however patient the policy: a wrong
/// port should not take as long to report as a server that restarts. Asking for facts keeps to it,
/// too.
pub(crate) const FIRST_CONTACT_ATTEMPTS_MAX: u32 = 4;

pub(super) const NO_VERSION_HINT: &str =
    "the server names no version of the blob, so a break cannot be bridged; try again";

impl RangeStream {
    /// Decides what to do about a failure: to ask again, after a rest where there is one, or the
    /// error that ends the read.
    pub(super) fn interrupted(&mut self, error: Error) -> Result<()> {
        self.phase = Phase::Idle;
        let error = self.in_context(error);
        if self.delivered_bytes > 0 && self.pinned.is_none() {
            return Err(error.with_hint(NO_VERSION_HINT));
        }
        self.ask_again(error)
    }

    /// Asks again after an error, as long as the policy has it.
    pub(super) fn ask_again(&mut self, error: Error) -> Result<()> {
        // Who names a version has had an answer, here or in an earlier read.
        let first_contact =
            self.info.is_none() && self.pinned.is_none() && error.kind() == ErrorKind::Transport;
        let class = *error.retry();
        match self.retry.on_interruption(class, self.epoch.elapsed()) {
            RetryDecision::After(_)
                if first_contact && self.requests >= FIRST_CONTACT_ATTEMPTS_MAX =>
            {
                Err(self.exhausted(error))
            }
            RetryDecision::After(_) if !self.flow.try_request() => {
                Err(self.exhausted(self.never_a_byte().caused_by(error)))
            }
            RetryDecision::After(delay) => {
                tracing::debug!(
                    target = self.location.display(),
                    offset = self.next,
                    delay_ms = delay.as_millis(),
                    error = error.chain(),
                    "restart"
                );
                if !delay.is_zero() {
                    self.phase = Phase::Resting(Box::pin(tokio::time::sleep(delay)));
                }
                Ok(())
            }
            RetryDecision::GiveUp(GiveUpReason::NotRetryable) => Err(error),
            RetryDecision::GiveUp(_) => Err(self.exhausted(error)),
        }
    }

    /// The transfer is below the floor of the policy: the connection is made anew, and the last time
    /// the transfer fails. What cannot be restarted goes on until then.
    pub(super) fn too_slow(&mut self, last: bool) -> Result<()> {
        let error = self
            .error(ErrorKind::Timeout, floor_of(&self.policy, "arrived"))
            .retryable(RetryClass::Now);
        if last {
            self.phase = Phase::Idle;
            return Err(self.exhausted(error).with_hint(SLOW_HINT));
        }
        if self.delivered_bytes > 0 && self.pinned.is_none() {
            if let Phase::Live(live) = &mut self.phase {
                live.goes_on();
            }
            return Ok(());
        }
        self.interrupted(error).map_err(|error| error.with_hint(SLOW_HINT))
    }

    /// All requests that the transfer may spend before its first byte are spent.
    pub(super) fn never_a_byte(&self) -> Error {
        self.error(ErrorKind::Exhausted, "no byte of it came, whatever was asked for")
            .after_attempts(self.requests)
    }

    /// A failure means more once an answer has been had: what was there and is gone has changed.
    fn in_context(&self, error: Error) -> Error {
        match (error.kind(), self.len_bytes) {
            (ErrorKind::NotFound, _) if self.info.is_some() || self.pinned.is_some() => {
                error.into_kind(ErrorKind::Changed)
            }
            (ErrorKind::OutOfRange, Some(said)) => self
                .error(
                    ErrorKind::Integrity,
                    format!("the remote said {said} bytes, but there are fewer"),
                )
                .caused_by(error),
            _ => error,
        }
    }

    fn exhausted(&self, error: Error) -> Error {
        self.error(ErrorKind::Exhausted, "gave up").after_attempts(self.requests).caused_by(error)
    }

    pub(super) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        self.placed(Error::new(kind, Operation::Read, self.location.display(), message))
    }

    /// An error that is about what is left to read, unless it says otherwise.
    pub(super) fn placed(&self, error: Error) -> Error {
        match self.end {
            _ if error.range().is_some() => error,
            Some(end) if self.begun => error.at(self.next..end),
            _ => error,
        }
    }
}
