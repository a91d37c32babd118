//! [`Series`]: the last hour in steps of ten seconds: the differences of sums that are read at each step.
//! So requests cost nothing for it.

use std::collections::VecDeque;
use std::time::Duration;

/// The length of a step.
pub(super) const STEP: Duration = Duration::from_secs(10);

/// Steps that are kept: an hour.
pub(super) const STEPS_MAX: usize = 360;

/// Sums since the server began, or their differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
}

impl Sums {
    fn since(&self, before: &Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(before.requests),
            errors: self.errors.saturating_sub(before.errors),
            hits: self.hits.saturating_sub(before.hits),
            misses: self.misses.saturating_sub(before.misses),
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
        }
    }
}

/// The last hour.
#[derive(Debug, Default)]
pub(super) struct Series {
    steps: VecDeque<Sums>,
    last: Sums,
}

/// The last hour as it is shown. The last step has not ended yet.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(super) struct SeriesStatus {
    step_seconds: u64,
    requests: Vec<u64>,
    errors: Vec<u64>,
    hits: Vec<u64>,
    misses: Vec<u64>,
    received_bytes: Vec<u64>,
    sent_bytes: Vec<u64>,
}

impl Series {
    /// A step ends with these sums.
    pub(super) fn push(&mut self, now: Sums) {
        if self.steps.len() == STEPS_MAX {
            self.steps.pop_front();
        }
        self.steps.push_back(now.since(&self.last));
        self.last = now;
    }

    /// The steps, and the one that has not ended.
    pub(super) fn status(&self, now: &Sums) -> SeriesStatus {
        let current = now.since(&self.last);
        let steps: Vec<Sums> = self.steps.iter().copied().chain([current]).collect();
        let column = |of: fn(&Sums) -> u64| steps.iter().map(of).collect();
        SeriesStatus {
            step_seconds: STEP.as_secs(),
            requests: column(|step| step.requests),
            errors: column(|step| step.errors),
            hits: column(|step| step.hits),
            misses: column(|step| step.misses),
            received_bytes: column(|step| step.received_bytes),
            sent_bytes: column(|step| step.sent_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(number: u64) -> Sums {
        Sums { requests: number, hits: 2 * number, ..Sums::default() }
    }

    #[test]
    fn steps_are_differences() {
        let mut series = Series::default();
        for number in [3, 3, 10] {
            series.push(sums(number));
        }
        let status = series.status(&sums(11));
        assert_eq!(status.requests, [3, 0, 7, 1]);
        assert_eq!(status.hits, [6, 0, 14, 2]);
    }

    #[test]
    fn an_hour_is_kept() {
        let mut series = Series::default();
        for number in 0..1000 {
            series.push(sums(number * number));
        }
        let status = series.status(&sums(999 * 999));
        assert_eq!(status.requests.len(), STEPS_MAX + 1);
        assert_eq!(status.requests[STEPS_MAX - 1], 999 * 999 - 998 * 998);
        assert_eq!(status.requests[STEPS_MAX], 0);
    }
}
