//! Interruptions of a range stream: the meaning of a failure, and the decision to restart or to
//! fail.
//!
//! Invariant: the stream never restarts after a failure if bytes were delivered without a version.
//! [`Retrying`](crate::read::retrying::Retrying) limits the number of requests.

use std::fmt::Display;

use tidegate_core::retry::RetryClass;

use super::{Phase, RangeStream};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::events::RESTART;
use crate::read::flow::{SLOW_HINT, floor_of};
use crate::read::retrying::Next;
use crate::remote::Version;

/// Number of `Integrity` errors that end a read. Wrong bytes are requested once more, because they
/// may have been damaged in transit. The second error is final.
pub(crate) const FLAWS_MAX: u32 = 2;

pub(super) const NO_VERSION_HINT: &str =
    "the server names no version of the blob, so a break cannot be bridged; try again";

impl RangeStream {
    /// Decides after a failure. `Ok`: the stream restarts, after a delay if there is one. `Err`:
    /// the error that ends the read.
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

    /// The delivered bytes are wrong, as `error` says: delivers the bytes from `position` on again.
    /// Fails with the error if no retry can help, and at the second `Integrity` error if the reader
    /// verifies.
    pub(crate) fn rewind(&mut self, position: u64, error: Error) -> Result<()> {
        (self.next, self.done) = (position, false);
        self.interrupted(error)
    }

    /// Sends another request after an error, if the policy allows it.
    pub(super) fn ask_again(&mut self, error: Error) -> Result<()> {
        // A pinned version counts as an earlier response, from this stream or an earlier read.
        let is_first_contact = self.info.is_none() && self.pinned.is_none();
        match self.retrying.on_failure(&error, is_first_contact) {
            Next::After(_) if !self.flow.try_request() => Err(self.never_a_byte().caused_by(error)),
            Next::After(delay) => {
                tracing::debug!(
                    target: RESTART,
                    target = self.location.display(),
                    offset = self.next,
                    attempt = self.retrying.requests() + 1,
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

    /// The transfer is slower than the policy's minimum. At the first slow period the connection is
    /// recreated; at the next (`last`) the transfer fails. A stream that cannot restart continues
    /// until then.
    pub(super) fn too_slow(&mut self, last: bool) -> Result<()> {
        let error = self
            .error(ErrorKind::Timeout, floor_of(&self.policy, "arrived"))
            .retryable(RetryClass::Now);
        if last {
            self.phase = Phase::Idle;
            return Err(self
                .gave_up("gave up: the transfer is too slow", error)
                .with_hint(SLOW_HINT));
        }
        if self.delivered_bytes > 0 && self.pinned.is_none() {
            if let Phase::Live(live) = &mut self.phase {
                live.goes_on();
            }
            return Ok(());
        }
        self.interrupted(error).map_err(|error| error.with_hint(SLOW_HINT))
    }

    /// The error if the transfer has used all its requests before the first byte.
    pub(super) fn never_a_byte(&self) -> Error {
        self.error(ErrorKind::Exhausted, "no byte of it came, whatever was asked for")
            .after_attempts(self.retrying.requests())
    }

    /// Adds the meaning of earlier responses to a failure. `NotFound` becomes `Changed`, because
    /// the blob existed. `OutOfRange` becomes `Integrity` if a length is known, because that length
    /// was wrong.
    fn in_context(&self, error: Error) -> Error {
        match (error.kind(), self.len_bytes) {
            // The content of a digest cannot change.
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

    /// The error if no further request is sent. `reason` says why; `error` is from the last
    /// request.
    fn gave_up(&self, reason: impl Display, error: Error) -> Error {
        self.error(ErrorKind::Exhausted, reason.to_string())
            .after_attempts(self.retrying.requests())
            .caused_by(error)
    }

    /// An error of this read.
    pub(super) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        self.placed(Error::new(kind, Operation::Read, self.location.display(), message))
    }

    /// Adds the remaining range to an error that has no range.
    pub(super) fn placed(&self, error: Error) -> Error {
        match self.end {
            _ if error.range().is_some() => error,
            Some(end) if self.begun => error.at(self.next..end),
            _ => error,
        }
    }
}
