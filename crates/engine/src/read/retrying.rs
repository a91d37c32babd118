//! [`Retrying`]: the decision after a failed request: a retry after a delay, or the reason why
//! there is none. Streams, lookups of facts and calls of a store all use it.
//!
//! The policy decides ([`Retry`]). This type adds the clock, the count of the requests, and the
//! limit on requests to an address that has never responded. It sends nothing and never sleeps: the
//! caller does both.

use std::time::Duration;

use tidegate_core::retry::{GiveUpReason, Retry, RetryDecision, RetryPolicy};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};

/// Most requests to an address that has never responded, for any policy. A server that restarts may
/// need many retries; a wrong port should be reported sooner.
const FIRST_CONTACT_ATTEMPTS_MAX: u32 = 4;

/// The decision after a failure.
#[derive(Debug)]
pub(crate) enum Next {
    /// Retry after this delay.
    After(Duration),
    /// Report the failure itself: a retry would fail the same way.
    Fail,
    /// No retry, although a retry could help. The text says so, and why.
    GiveUp(String),
}

/// The attempts of one operation, from the first request on.
#[derive(Debug)]
pub(crate) struct Retrying {
    retry: Retry,
    epoch: Instant,
    requests: u32,
}

impl Retrying {
    /// Call it before the first request. The deadline of the policy counts from this call.
    pub(crate) fn new(policy: &RetryPolicy) -> Self {
        Self { retry: Retry::new(policy, Duration::ZERO), epoch: Instant::now(), requests: 0 }
    }

    /// Counts a request. Returns true for every request after the first.
    pub(crate) fn on_request(&mut self) -> bool {
        self.requests = self.requests.saturating_add(1);
        self.requests > 1
    }

    /// Records that the request in flight delivered `bytes`. From the policy's `progress_bytes_min`
    /// on, the attempt made progress: its failure resets the count of failed attempts.
    pub(crate) fn on_bytes(&mut self, bytes: u64) {
        self.retry.on_bytes(bytes);
    }

    /// Number of requests so far.
    pub(crate) fn requests(&self) -> u32 {
        self.requests
    }

    /// Timeout for a step of a request: `limit`, or the time to the deadline if that is shorter.
    pub(crate) fn limit(&self, limit: Duration) -> Duration {
        self.retry.remaining(self.epoch.elapsed()).map_or(limit, |left| left.min(limit))
    }

    /// Decides after the request in flight failed. `is_first_contact`: the address has never
    /// responded.
    pub(crate) fn on_failure(&mut self, error: &Error, is_first_contact: bool) -> Next {
        let is_nothing_there = is_first_contact
            && error.kind() == ErrorKind::Transport
            && self.requests >= FIRST_CONTACT_ATTEMPTS_MAX;
        match self.retry.on_interruption(*error.retry(), self.epoch.elapsed()) {
            RetryDecision::After(_) if is_nothing_there => Next::GiveUp(self.gave_up()),
            RetryDecision::After(delay) => Next::After(delay),
            RetryDecision::GiveUp(GiveUpReason::NotRetryable) => Next::Fail,
            RetryDecision::GiveUp(GiveUpReason::AttemptsExhausted { .. }) => {
                Next::GiveUp(self.gave_up())
            }
            RetryDecision::GiveUp(reason) => Next::GiveUp(format!("gave up: {reason}")),
        }
    }

    fn gave_up(&self) -> String {
        let plural = if self.requests == 1 { "" } else { "s" };
        format!("gave up after {} attempt{plural}", self.requests)
    }
}
