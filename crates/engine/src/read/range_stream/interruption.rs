//! What a failure means where it happens, and whether reading goes on after it.

use std::fmt::Display;

use tidegate_core::retry::RetryClass;

use super::{Phase, RangeStream};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::flow::{SLOW_HINT, floor_of};
use crate::read::retrying::Next;
use crate::remote::Version;

/// Wrong bytes are asked for once more, in case they were damaged on the way, and then are an
/// error.
pub(crate) const FLAWS_MAX: u32 = 2;

pub(super) const NO_VERSION_HINT: &str =
    "the server names no version of the blob, so a break cannot be bridged; try again";

impl RangeStream {
    /// Decides what to do about a failure: to ask again, after a rest where there is one, or the
    /// error that ends the read.
    pub(super) fn interrupted(&mut self, error: Error) -> Result<()> {
        if let Phase::Live(live) = &mut self.phase {
            live.failed(&error);
        }
        self.phase = Phase::Idle;
        let error = self.in_context(error);
        if self.reader_verifies && error.kind() == ErrorKind::Integrity {
            self.flaws += 1;
            if self.flaws >= FLAWS_MAX {
                return Err(error.retryable(RetryClass::Never));
            }
        }
        if self.delivered_bytes > 0 && self.pinned.is_none() {
            return Err(error.with_hint(NO_VERSION_HINT));
        }
        self.ask_again(error)
    }

    /// What was delivered is wrong, as `error` says: delivers again from `position` on. Fails with the
    /// error where no further attempt can help, and the second time.
    pub(crate) fn rewind(&mut self, position: u64, error: Error) -> Result<()> {
        (self.next, self.done) = (position, false);
        self.interrupted(error)
    }

    /// Asks again after an error, as long as the policy has it.
    pub(super) fn ask_again(&mut self, error: Error) -> Result<()> {
        // Who names a version has had an answer, here or in an earlier read.
        let is_first_contact = self.info.is_none() && self.pinned.is_none();
        match self.retrying.on_failure(&error, is_first_contact) {
            Next::After(_) if !self.flow.try_request() => Err(self.never_a_byte().caused_by(error)),
            Next::After(delay) => {
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
            Next::Fail => Err(error),
            Next::GiveUp(reason) => Err(self.gave_up(reason, error)),
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
            return Err(self.gave_up("the transfer is too slow", error).with_hint(SLOW_HINT));
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
            .after_attempts(self.retrying.requests())
    }

    /// A failure means more once an answer has been had: what was there and is gone has changed.
    fn in_context(&self, error: Error) -> Error {
        match (error.kind(), self.len_bytes) {
            // What a digest names cannot change.
            (ErrorKind::NotFound, _) if matches!(self.pinned, Some(Version::Digest(_))) => error,
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

    /// There is no further request because of `reason`; `error` is the last one's.
    fn gave_up(&self, reason: impl Display, error: Error) -> Error {
        self.error(ErrorKind::Exhausted, format!("gave up: {reason}"))
            .after_attempts(self.retrying.requests())
            .caused_by(error)
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
