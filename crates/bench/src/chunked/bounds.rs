//! Lower bounds from latency alone: requests that each take 25 ± 10 ms, with a limited number in
//! flight, and no other cost. No transfer with that window can be faster; any further time is its
//! own cost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate_testkit::SplitMix64;

use crate::figures::median;

/// Random draws for a bound; the median counts.
const DRAWS: u64 = 101;

/// The time of a request in microseconds: uniform between these two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Latency {
    pub(crate) min_us: u64,
    pub(crate) max_us: u64,
}

impl Latency {
    fn draw(self, random: &mut SplitMix64) -> u64 {
        self.min_us + random.below(self.max_us.saturating_sub(self.min_us) + 1)
    }

    /// Milliseconds of one.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
    pub(crate) fn mean_ms(self) -> f64 {
        (self.min_us + self.max_us) as f64 / 2e3
    }
}

/// Milliseconds that `requests` take with `window` of them in flight, in any order: when one ends,
/// the next begins.
pub(crate) fn any_order_ms(requests: u64, window: u64, latency: Latency) -> f64 {
    median((0..DRAWS).map(|seed| {
        let mut random = SplitMix64::new(seed);
        let mut ends = BinaryHeap::new();
        let mut last = 0;
        for request in 0..requests {
            let begins = if request < window { 0 } else { ends.pop().map_or(0, |Reverse(at)| at) };
            let end = begins + latency.draw(&mut random);
            ends.push(Reverse(end));
            last = last.max(end);
        }
        ms(last)
    }))
}

/// The same with at most `window` requests between the oldest unfinished one and the next to begin:
/// a slow request delays all that follow.
pub(crate) fn in_order_ms(requests: u64, window: u64, latency: Latency) -> f64 {
    median((0..DRAWS).map(|seed| {
        let mut random = SplitMix64::new(seed);
        // Times at which each request and all before it were done.
        let mut written: Vec<u64> = Vec::new();
        for request in 0..requests {
            let blocking =
                request.checked_sub(window).and_then(|index| usize::try_from(index).ok());
            let begins = blocking.and_then(|index| written.get(index)).copied().unwrap_or(0);
            let before = written.last().copied().unwrap_or(0);
            written.push(before.max(begins + latency.draw(&mut random)));
        }
        ms(written.last().copied().unwrap_or(0))
    }))
}

#[expect(clippy::cast_precision_loss, reason = "seconds in microseconds")]
fn ms(us: u64) -> f64 {
    us as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVEN: Latency = Latency { min_us: 25_000, max_us: 25_000 };
    const UNEVEN: Latency = Latency { min_us: 15_000, max_us: 35_000 };

    #[test]
    fn without_jitter_both_are_whole_rounds() {
        for bound in [any_order_ms, in_order_ms] {
            assert!((bound(32, 16, EVEN) - 50.0).abs() < 1e-9);
            assert!((bound(33, 16, EVEN) - 75.0).abs() < 1e-9);
            assert!((bound(0, 16, EVEN)).abs() < 1e-9);
        }
    }

    /// The same values as an independent program.
    #[test]
    fn with_jitter_order_costs() {
        let near = |actual: f64, expected: f64| (actual / expected - 1.0).abs() < 0.03;
        assert!(near(any_order_ms(512, 16, UNEVEN), 816.0));
        assert!(near(any_order_ms(512, 64, UNEVEN), 219.0));
        assert!(near(in_order_ms(512, 16, UNEVEN), 979.0));
    }
}
