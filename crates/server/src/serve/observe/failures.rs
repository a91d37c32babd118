//! [`Failures`]: the last requests that the server refused or could not answer.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::invocations::shortened;
use super::time::unix_seconds;

/// Failures that are kept: a page of them.
const COUNT_MAX: usize = 50;

/// A request that failed.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Failure {
    /// Seconds since 1970.
    at: u64,
    request_id: String,
    call: &'static str,
    outcome: &'static str,
    message: String,
}

/// The last failures.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<VecDeque<Failure>>);

impl Failures {
    /// Adds a failure.
    pub(super) fn add(
        &self,
        request_id: &str,
        (call, outcome): (&'static str, &'static str),
        message: &str,
    ) {
        let failure = Failure {
            at: unix_seconds(),
            request_id: shortened(request_id).to_owned(),
            call,
            outcome,
            message: shortened(message).to_owned(),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.truncate(COUNT_MAX - 1);
        all.push_front(failure);
    }

    /// All of them; the last one comes first.
    pub(super) fn all(&self) -> Vec<Failure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept() {
        let failures = Failures::default();
        for number in 0..120 {
            failures.add(&number.to_string(), ("x", "500"), &"m".repeat(5000));
        }
        let all = failures.all();
        assert_eq!(all.len(), COUNT_MAX);
        assert_eq!((all[0].request_id.as_str(), all[49].request_id.as_str()), ("119", "70"));
        assert!(all.iter().all(|one| one.message.len() < 200));
    }
}
