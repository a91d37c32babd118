//! [`Retrying`]: what follows the failure of a request, for streams, facts and calls of a store
//! alike: another request after a pause, or the reason why there is none.
//!
//! The policy decides ([`Retry`]). This adds the clock, the count of the requests, and the bound on
//! requests to an address that has never answered.

use std::time::Duration;

use tidegate_core::retry::{GiveUpReason, Retry, RetryDecision, RetryPolicy};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};

/// An address that has never answered is tried this often, however patient the policy: a wrong
/// port should not take as long to report as a server that restarts.
const FIRST_CONTACT_ATTEMPTS_MAX: u32 = 4;

/// What follows a failure.
#[derive(Debug)]
pub(crate) enum Next {
    /// Another request, after this long.
    After(Duration),
    /// The failure is the outcome: another request would fail the same way.
    Fail,
    /// No other request, although it could help.
    GiveUp(String),
}

/// The requests for one thing, from the first on.
#[derive(Debug)]
pub(crate) struct Retrying {
    retry: Retry,
    epoch: Instant,
    requests: u32,
}

impl Retrying {
    /// Before the first request; the deadline of the policy counts from here.
    pub(crate) fn new(policy: &RetryPolicy) -> Self {
        Self { retry: Retry::new(policy, Duration::ZERO), epoch: Instant::now(), requests: 0 }
    }

    /// Counts a request; says whether it is another one after the first.
    pub(crate) fn on_request(&mut self) -> bool {
        self.requests = self.requests.saturating_add(1);
        self.requests > 1
    }

    /// The request under way brought `bytes`, so that failing later is not failing at once.
    pub(crate) fn on_bytes(&mut self, bytes: u64) {
        self.retry.on_bytes(bytes);
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> u32 {
        self.requests
    }

    /// How long a part of a request may take that has this `limit`: the deadline ends it, too.
    pub(crate) fn limit(&self, limit: Duration) -> Duration {
        self.retry.remaining(self.epoch.elapsed()).map_or(limit, |left| left.min(limit))
    }

    /// The request under way failed. `is_first_contact`: there has never been an answer.
    pub(crate) fn on_failure(&mut self, error: &Error, is_first_contact: bool) -> Next {
        let is_nothing_there = is_first_contact
            && error.kind() == ErrorKind::Transport
            && self.requests >= FIRST_CONTACT_ATTEMPTS_MAX;
        match self.retry.on_interruption(*error.retry(), self.epoch.elapsed()) {
            RetryDecision::After(_) if is_nothing_there => {
                Next::GiveUp("nothing answers there".to_owned())
            }
            RetryDecision::After(delay) => Next::After(delay),
            RetryDecision::GiveUp(GiveUpReason::NotRetryable) => Next::Fail,
            RetryDecision::GiveUp(reason) => Next::GiveUp(reason.to_string()),
        }
    }
}
