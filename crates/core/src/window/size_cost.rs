//! [`SizeCost`]: how much more a large request costs than a small one. It makes rounds of unequal
//! requests comparable.
//!
//! If requests only wait for a response, each costs the same at any size. If the link is full, each
//! costs its bytes. In between, the cost is `1 + slope * size`, and this module learns the slope.
//! Counting bytes alone, or requests alone, would make the window follow the blob's content instead
//! of the network.
//!
//! The slope is estimated in two places, by least squares, and the steeper one is taken:
//!
//! - Single requests, latency over size: if responses share the link evenly, a large one itself
//!   takes longer.
//! - Stretches of a few arrivals, time over bytes: if responses queue for the link, a large one
//!   itself takes hardly longer, but delays all that follow.

use super::round::{Sample, Stretch};

/// A value counts as at most this many times the mean, so that one straggler does not tilt the
/// line.
const OUTLIER: f64 = 4.0;

/// The weight of older values when newer ones are added.
const MEMORY: f64 = 0.7;

/// With fewer values, the slope is 0.
const VALUES_MIN: f64 = 6.0;

/// The minimum part of a mean request's cost that does not depend on its size. Without it, a line
/// through noise could make an empty request free.
const BASE_MIN: f64 = 0.05;

/// The cost of large and small requests.
#[derive(Clone, Debug, Default)]
pub(super) struct SizeCost {
    single: Line,
    together: Line,
}

impl SizeCost {
    /// Adds the measurements of one round.
    pub(super) fn learn(&mut self, samples: &[Sample], stretches: &[Stretch]) {
        self.single.learn(samples.iter().map(|sample| (sample.size_mib, sample.latency_s)));
        let mean = |stretch: &Stretch| (stretch.size_mib / stretch.count, stretch.elapsed_s);
        self.together.learn(stretches.iter().map(mean));
    }

    /// The cost of a request of this size. A request of no bytes costs 1.
    pub(super) fn of(&self, size_mib: f64) -> f64 {
        1.0 + self.single.slope().max(self.together.slope()) * size_mib
    }
}

/// A straight line through values that are relative to their round's mean, so that rounds under
/// different limits can be combined.
#[derive(Clone, Debug, Default)]
struct Line {
    count: f64,
    size: f64,
    size_squared: f64,
    value: f64,
    size_value: f64,
}

impl Line {
    fn learn(&mut self, values: impl Iterator<Item = (f64, f64)> + Clone) {
        let (sum, count) = values.clone().fold((0.0, 0.0), |(sum, n), (_, v)| (sum + v, n + 1.0));
        if sum <= 0.0 {
            return;
        }
        let sums = [
            &mut self.count,
            &mut self.size,
            &mut self.size_squared,
            &mut self.value,
            &mut self.size_value,
        ];
        for sum in sums {
            *sum *= MEMORY;
        }
        for (size, value) in values {
            let value = (value * count / sum).min(OUTLIER);
            self.count += 1.0;
            self.size += size;
            self.size_squared += size * size;
            self.value += value;
            self.size_value += size * value;
        }
    }

    /// The growth of the value per MiB, relative to the value at size 0.
    fn slope(&self) -> f64 {
        if self.count < VALUES_MIN {
            return 0.0;
        }
        let (size, value) = (self.size / self.count, self.value / self.count);
        let variance = self.size_squared / self.count - size * size;
        let covariance = self.size_value / self.count - size * value;
        // All sizes are equal, so there is no slope to estimate.
        if value <= 0.0 || variance <= 1e-9 * size * size {
            return 0.0;
        }
        let steepest = (1.0 - BASE_MIN) * value / size;
        let slope = (covariance / variance).clamp(0.0, steepest);
        slope / (value - slope * size)
    }
}

#[cfg(test)]
mod tests {
    use super::{Sample, SizeCost, Stretch};

    fn samples(latency: impl Fn(f64) -> f64) -> Vec<Sample> {
        let sizes = [0.1, 4.0, 0.5, 1.0, 2.0, 0.2, 3.0, 0.1];
        sizes.map(|size_mib| Sample { latency_s: latency(size_mib), size_mib }).to_vec()
    }

    fn ratio(cost: &SizeCost) -> f64 {
        cost.of(4.0) / cost.of(0.0)
    }

    #[test]
    fn where_a_large_request_takes_longer_it_costs_more() {
        let mut cost = SizeCost::default();
        cost.learn(&samples(|size| 0.025 + 0.01 * size), &[]);
        assert!((ratio(&cost) - 65.0 / 25.0).abs() < 1e-6, "{cost:?}");
    }

    #[test]
    fn where_a_large_request_holds_up_the_others_it_costs_more() {
        let mut cost = SizeCost::default();
        let stretches = samples(|size| 0.001 + 0.01 * size).into_iter().map(|sample| Stretch {
            elapsed_s: sample.latency_s,
            size_mib: 4.0 * sample.size_mib,
            count: 4.0,
        });
        cost.learn(&samples(|_| 0.1), &stretches.collect::<Vec<_>>());
        assert!(ratio(&cost) > 10.0, "{cost:?}");
    }

    #[test]
    fn sizes_that_do_not_matter_or_do_not_differ_are_left_out() {
        let mut cost = SizeCost::default();
        assert!((ratio(&cost) - 1.0).abs() < 1e-9, "nothing seen");
        cost.learn(&samples(|_| 0.025), &[]);
        assert!((ratio(&cost) - 1.0).abs() < 1e-9);
        let mut cost = SizeCost::default();
        cost.learn(
            &[0.02, 0.03, 0.04, 0.02, 0.03, 0.02]
                .map(|latency_s| Sample { latency_s, size_mib: 1.0 }),
            &[],
        );
        assert!((ratio(&cost) - 1.0).abs() < 1e-9);
        cost.learn(&samples(|_| 0.0), &[]);
        assert!((ratio(&cost) - 1.0).abs() < 1e-9, "no time taken");
    }
}
