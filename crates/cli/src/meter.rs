//! [`Meter`]: the rate of a transfer over its last few seconds.

use std::collections::VecDeque;
use std::time::Duration;

use crate::report;

/// The displayed rate is the average of this long: a shorter window makes it jump, a longer one
/// makes it lag.
const RATE_WINDOW: Duration = Duration::from_secs(4);

/// The rate of the last few seconds.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Time, and the bytes fetched by then; oldest first.
    samples: VecDeque<(Duration, u64)>,
}

impl Meter {
    /// Bytes a second up to `now`; `None` until there are enough samples.
    pub(crate) fn sample(&mut self, now: Duration, bytes: u64) -> Option<f64> {
        self.samples.push_back((now, bytes));
        while self.samples.get(1).is_some_and(|(time, _)| now.saturating_sub(*time) >= RATE_WINDOW)
        {
            self.samples.pop_front();
        }
        let (then, before) = *self.samples.front()?;
        let seconds = now.saturating_sub(then).as_secs_f64();
        (seconds > 0.0).then(|| report::rate(bytes.saturating_sub(before), seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut meter = Meter::default();
        assert_eq!(meter.sample(Duration::ZERO, 0), None);
        assert_eq!(meter.sample(Duration::from_secs(1), 1000), Some(1000.0));
        for second in 2..=20 {
            meter.sample(Duration::from_secs(second), 1000);
        }
        assert_eq!(meter.sample(Duration::from_secs(21), 1000), Some(0.0));
    }
}
