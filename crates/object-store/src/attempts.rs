//! Attempts at one request that has no builder in the engine: a part, a page of a list. The engine's own retries cover everything else.
//!
//! An attempt holds a request of the budget while it lasts. It ends after a time that allows for its
//! bytes. A retry follows if the error says that one can help.

use std::future::Future;
use std::time::{Duration, Instant};

use tidegate::{Budget, Error, ErrorKind, Operation, Result, RetryClass, RetryPolicy};

/// The lowest speed of a request with bytes, in bytes a second: a part of 8 MiB may take two minutes.
const BYTES_PER_S_MIN: u64 = 64 << 10;

/// How the attempts at requests for one blob are made.
#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    budget: Budget,
    policy: RetryPolicy,
}

/// What is attempted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempted<'a> {
    pub(crate) operation: Operation,
    /// The blob, without secrets.
    pub(crate) target: &'a str,
    /// Bytes that the request carries.
    pub(crate) len_bytes: u64,
    /// The longest wait for the response, beyond that for the bytes.
    pub(crate) response_ms_max: u64,
}

impl Attempts {
    pub(crate) fn new(budget: Budget, policy: RetryPolicy) -> Self {
        Self { budget, policy }
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What is attempted, with the policy's wait for its response.
    pub(crate) fn of<'a>(
        &self,
        operation: Operation,
        target: &'a str,
        len_bytes: u64,
    ) -> Attempted<'a> {
        let response_ms_max = self.policy.connect_ms_max.saturating_add(self.policy.header_ms_max);
        Attempted { operation, target, len_bytes, response_ms_max }
    }

    /// Makes attempts until one succeeds or a retry cannot help.
    pub(crate) async fn make<T, F, Fut>(&self, what: Attempted<'_>, mut call: F) -> Result<T>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let began = Instant::now();
        let mut made = 0;
        loop {
            let permit = self.budget.request().await;
            let outcome = tokio::time::timeout(what.limit(), call()).await;
            drop(permit);
            let error = match outcome {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) => error,
                Err(_) => what.timed_out(),
            };
            made += 1;
            tokio::time::sleep(self.delay(&what, error, made, began)?).await;
        }
    }

    /// How long to wait after the attempt number `made` failed so; its error if there is no retry.
    fn delay(
        &self,
        what: &Attempted<'_>,
        error: Error,
        made: u32,
        began: Instant,
    ) -> Result<Duration> {
        let policy = &self.policy;
        let delay_ms = match error.retry() {
            RetryClass::Never => return Err(error),
            RetryClass::After(wait) if wait.as_millis() > u128::from(policy.retry_after_ms_max) => {
                return Err(error);
            }
            RetryClass::After(wait) => u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            RetryClass::Now => {
                let doublings = made.saturating_sub(1).min(32);
                let longest = policy.delay_ms_min.saturating_mul(1 << doublings);
                fastrand::u64(0..=longest.min(policy.delay_ms_max))
            }
        };
        let delay = Duration::from_millis(delay_ms);
        let is_late = policy
            .deadline_ms
            .is_some_and(|deadline| began.elapsed() + delay > Duration::from_millis(deadline));
        if made >= policy.attempts_max.max(1) || is_late {
            let message = format!("gave up after {made} attempts");
            return Err(Error::new(ErrorKind::Exhausted, what.operation, what.target, message)
                .caused_by(error)
                .after_attempts(made));
        }
        Ok(delay)
    }
}

impl Attempted<'_> {
    fn limit(&self) -> Duration {
        let sending_ms = self.len_bytes.saturating_mul(1000) / BYTES_PER_S_MIN;
        Duration::from_millis(self.response_ms_max.saturating_add(sending_ms))
    }

    fn timed_out(&self) -> Error {
        let message = format!("no response in {} s", self.limit().as_secs());
        Error::new(ErrorKind::Timeout, self.operation, self.target, message)
            .retryable(RetryClass::Now)
    }
}
