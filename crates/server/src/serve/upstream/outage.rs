//! [`Outage`]: whether the upstream was down a moment ago.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the upstream is left alone after it failed. A restart takes some seconds.
const OUTAGE_TIME: Duration = Duration::from_secs(10);

/// The end of the last outage.
#[derive(Debug, Default)]
pub(super) struct Outage(Mutex<Option<Instant>>);

impl Outage {
    /// The upstream has failed.
    pub(super) fn begin(&self, now: Instant) {
        let end = now.checked_add(OUTAGE_TIME);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    /// Whether the upstream is left alone.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        let end = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        end.is_some_and(|end| now < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_ends() {
        let (outage, now) = (Outage::default(), Instant::now());
        assert!(!outage.is_on(now));
        outage.begin(now);
        assert!(outage.is_on(now));
        assert!(!outage.is_on(now + OUTAGE_TIME));
    }
}
