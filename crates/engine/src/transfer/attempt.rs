//! [`Calls`]: retries the calls of a store.
//!
//! A store makes one attempt for each call. This module adds what several attempts need:
//!
//! - a request permit of the budget for each attempt;
//! - a timeout for each attempt;
//! - a pause after a failure that may be temporary;
//! - an error that says how many attempts were made;
//! - a token that cancels all of it.
//!
//! Invariants:
//! - A permit is held only while an attempt is in flight. It is not held during a pause.
//! - Nothing is in flight after the token was cancelled and the future has returned.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::retry::{RetryClass, RetryPolicy};
use tokio_util::sync::CancellationToken;

use crate::budget::{Budget, RequestPermit};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::events::RESTART;
use crate::read::{Next, ReadStats, Retrying};

/// The timeout of a call that moves bytes grows by one second for this many bytes. A call of 1 MiB
/// gets 16 s more. This rate is slower than any link on which moving chunks makes sense.
const PATIENCE_BYTES_PER_S: u64 = 64 << 10;

/// How the calls of one transfer are made.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) policy: RetryPolicy,
    pub(crate) budget: Budget,
    pub(crate) cancel: CancellationToken,
    /// The operation of the transfer, and below its target: for errors.
    pub(crate) operation: Operation,
    pub(crate) target: Arc<str>,
    pub(crate) stats: Arc<ReadStats>,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls")
            .field("operation", &self.operation)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl Calls {
    /// The same calls with another cancellation token.
    pub(crate) fn ended_by(&self, cancel: CancellationToken) -> Self {
        Self { cancel, ..self.clone() }
    }

    /// The timeout of a call that moves `bytes`.
    pub(crate) fn patience(&self, bytes: u64) -> Duration {
        let base = self.policy.header_ms_max.max(self.policy.stall_ms_max);
        let more_ms = bytes.saturating_mul(1000) / PATIENCE_BYTES_PER_S;
        Duration::from_millis(base.saturating_add(more_ms))
    }

    /// Makes one call, and retries it as the policy allows. Each attempt may take `limit`. `call`
    /// receives the number of the attempt, from 0.
    ///
    /// Fails with the call's own error if a retry cannot help. Fails with `Exhausted`, caused by
    /// the last error, if no retries are left. Fails with `Cancelled` if the transfer is cancelled.
    /// Cancel-safe if the call is cancel-safe.
    pub(crate) async fn attempt<T, F, Fut>(&self, limit: Duration, call: F) -> Result<T>
    where
        F: FnMut(u32) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        Self::repeat(self.begin(), limit, call).await
    }

    /// As [`Self::attempt`], for the first call of a store. If no server responds at the address,
    /// fewer attempts are made.
    pub(crate) async fn first<T, F, Fut>(&self, limit: Duration, call: F) -> Result<T>
    where
        F: FnMut(u32) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let attempts = Attempts { is_first_contact: true, ..self.begin() };
        Self::repeat(attempts, limit, call).await
    }

    async fn repeat<T, F, Fut>(
        mut attempts: Attempts<'_>,
        limit: Duration,
        mut call: F,
    ) -> Result<T>
    where
        F: FnMut(u32) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        loop {
            let permit = attempts.permit().await?;
            let outcome = attempts.within(limit, call(attempts.retrying.requests() - 1)).await;
            drop(permit);
            match outcome {
                Ok(value) => return Ok(value),
                Err(error) => attempts.interrupted(error).await?,
            }
        }
    }

    /// Returns the attempts, for a caller that runs the steps of each attempt itself.
    pub(crate) fn begin(&self) -> Attempts<'_> {
        Attempts { calls: self, retrying: Retrying::new(&self.policy), is_first_contact: false }
    }

    /// Waits for a future that is no call of the store, unless the transfer is cancelled.
    pub(crate) async fn unless_cancelled<T>(&self, other: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(self.cancelled()),
            value = other => Ok(value),
        }
    }

    /// The error of a transfer that was cancelled.
    pub(crate) fn cancelled(&self) -> Error {
        self.error(ErrorKind::Cancelled, "it was cancelled")
    }

    /// An error of this transfer.
    pub(crate) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, self.operation, &*self.target, message)
    }
}

/// The attempts at one call.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    calls: &'a Calls,
    retrying: Retrying,
    /// No response of the store has been received yet.
    is_first_contact: bool,
}

impl Attempts<'_> {
    /// Waits for the permit of the next attempt, and counts the attempt. The caller must hold the
    /// permit during the attempt, and release it when the attempt ends.
    pub(crate) async fn permit(&mut self) -> Result<RequestPermit> {
        let permit = tokio::select! {
            biased;
            () = self.calls.cancel.cancelled() => return Err(self.calls.cancelled()),
            permit = self.calls.budget.request() => permit,
        };
        self.calls.stats.request();
        if self.retrying.on_request() {
            self.calls.stats.restart();
        }
        Ok(permit)
    }

    /// Waits for `step`, a part of the attempt in flight, for at most `limit`. The policy's
    /// deadline may end it earlier.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        step: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let limit = self.retrying.limit(limit);
        tokio::select! {
            biased;
            () = self.calls.cancel.cancelled() => Err(self.calls.cancelled()),
            outcome = tokio::time::timeout(limit, step) => outcome.unwrap_or_else(|_elapsed| {
                let message = format!("timed out after {} s: no answer", limit.as_secs_f64());
                Err(self.calls.error(ErrorKind::Timeout, message).retryable(RetryClass::Now))
            }),
        }
    }

    /// Reports that the attempt in flight has moved `bytes`. If it fails after enough progress, the
    /// count of failed attempts begins again.
    pub(crate) fn on_bytes(&mut self, bytes: u64) {
        self.retrying.on_bytes(bytes);
    }

    /// The error of a call that is not retried because of `reason`. `error` is the error of the
    /// last attempt.
    fn gave_up(&self, reason: impl fmt::Display, error: Error) -> Error {
        let gave_up = self.calls.error(ErrorKind::Exhausted, reason.to_string());
        gave_up.after_attempts(self.retrying.requests()).caused_by(error)
    }

    /// Handles the failure of the attempt in flight. Pauses until the next attempt, or returns the
    /// error if there is none.
    pub(crate) async fn interrupted(&mut self, error: Error) -> Result<()> {
        if self.calls.cancel.is_cancelled() {
            return Err(self.calls.cancelled());
        }
        let delay = match self.retrying.on_failure(&error, self.is_first_contact) {
            Next::After(delay) => delay,
            Next::Fail => return Err(error),
            Next::GiveUp(reason) => return Err(self.gave_up(reason, error)),
        };
        tracing::debug!(
            target: RESTART,
            target = &*self.calls.target,
            attempt = self.retrying.requests() + 1,
            delay_ms = delay.as_millis(),
            error = error.chain(),
            "restart"
        );
        tokio::select! {
            biased;
            () = self.calls.cancel.cancelled() => Err(self.calls.cancelled()),
            () = tokio::time::sleep(delay) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::budget::BudgetOptions;

    fn calls() -> Calls {
        Calls {
            policy: RetryPolicy { attempts_max: 3, seed: Some(1), ..RetryPolicy::default() },
            budget: Budget::new(BudgetOptions { requests: 1, bytes: 1 }),
            cancel: CancellationToken::new(),
            operation: Operation::Download,
            target: "store".into(),
            stats: Arc::default(),
        }
    }

    fn broken() -> Error {
        Error::new(ErrorKind::Transport, Operation::Read, "x", "it broke")
            .retryable(RetryClass::Now)
    }

    #[tokio::test(start_paused = true)]
    async fn what_passes_is_tried_again_and_counted() {
        let calls = calls();
        let seen = Cell::new(0);
        let value = calls
            .attempt(Duration::from_secs(1), |attempt| {
                seen.set(attempt);
                async move { if attempt < 2 { Err(broken()) } else { Ok(7) } }
            })
            .await;
        assert_eq!((value.unwrap(), seen.get()), (7, 2));
        assert_eq!((calls.stats.totals().requests, calls.stats.totals().restarts), (3, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_used_up_and_the_last_error_is_kept() {
        let calls = calls();
        let outcome: Result<()> =
            calls.attempt(Duration::from_secs(1), |_| async { Err(broken()) }).await;
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::Exhausted, 3));
        assert!(error.chain().contains("it broke"), "{}", error.chain());
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_pass_is_not_tried_again() {
        let calls = calls();
        let refused = || Error::new(ErrorKind::NoAccess, Operation::Read, "x", "no");
        let outcome: Result<()> =
            calls.attempt(Duration::from_secs(1), |_| async { Err(refused()) }).await;
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NoAccess);
        assert_eq!(calls.stats.totals().requests, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_without_an_answer_is_given_up_in_time() {
        let calls = calls();
        let outcome: Result<()> =
            calls.attempt(Duration::from_secs(1), |_| std::future::pending()).await;
        let error = outcome.unwrap_err();
        assert!(error.chain().contains("timed out after 1 s"), "{}", error.chain());
    }

    #[tokio::test(start_paused = true)]
    async fn no_permit_is_held_while_resting() {
        let calls = calls();
        let budget = calls.budget.clone();
        let mut other = Box::pin(async move {
            let mut attempts = calls.begin();
            let permit = attempts.permit().await;
            drop(permit);
            attempts.interrupted(broken()).await
        });
        assert!(futures_util::poll!(&mut other).is_pending());
        let mut permit = Box::pin(budget.request());
        assert!(futures_util::poll!(&mut permit).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn cancelling_ends_a_call_a_rest_and_a_wait() {
        let calls = calls();
        let held = calls.budget.request().await;
        let waiting = calls.attempt(Duration::from_secs(9), |_| async { Ok(()) });
        let stop = async { calls.cancel.cancel() };
        let (outcome, ()) = tokio::join!(waiting, stop);
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
        drop(held);
        let calls = calls.ended_by(CancellationToken::new());
        let hanging =
            calls.attempt(Duration::from_secs(9), |_| std::future::pending::<Result<()>>());
        let (outcome, ()) = tokio::join!(hanging, async { calls.cancel.cancel() });
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
