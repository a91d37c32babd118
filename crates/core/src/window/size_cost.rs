//! [`SizeCost`]: how long a request of so many bytes takes here, so that requests of unequal sizes
//! can be compared.
//!
//! Latency as a straight line over size, `base + bytes / rate`, fitted by least squares to what was
//! seen lately. Without it a round of large chunks would look slower than one of small ones, and
//! the window would follow the blob's content instead of the network. It only has to be right about
//! the *proportion* of small to large: whatever both rounds of a comparison share cancels out.

use super::round::Sample;

/// Latency counts at most this many times the mean, so that one straggler does not tilt the line.
const OUTLIER: f64 = 4.0;

/// How much older samples count when newer ones are added.
const MEMORY: f64 = 0.5;

/// The part of a mean request's time that does not depend on its size, at least: a line through
/// noise may not say that a request of no bytes takes no time.
const BASE_MIN: f64 = 0.1;

/// Sums over samples, in seconds and MiB.
#[derive(Clone, Debug, Default)]
pub(super) struct SizeCost {
    count: f64,
    latency: f64,
    size: f64,
    size_squared: f64,
    size_latency: f64,
}

impl SizeCost {
    /// Takes in what one round saw.
    pub(super) fn learn(&mut self, samples: &[Sample]) {
        let Some(mean) = mean(samples.iter().map(|sample| sample.latency_s)) else { return };
        for sum in [
            &mut self.count,
            &mut self.latency,
            &mut self.size,
            &mut self.size_squared,
            &mut self.size_latency,
        ] {
            *sum *= MEMORY;
        }
        for sample in samples {
            let latency = sample.latency_s.min(OUTLIER * mean);
            self.count += 1.0;
            self.latency += latency;
            self.size += sample.size_mib;
            self.size_squared += sample.size_mib * sample.size_mib;
            self.size_latency += sample.size_mib * latency;
        }
    }

    /// What a request of this size takes, in seconds; above 0.
    pub(super) fn seconds(&self, size_mib: f64) -> f64 {
        let (base, slope) = self.line();
        (base + slope * size_mib).max(f64::MIN_POSITIVE)
    }

    /// Seconds of no bytes, and seconds per MiB.
    fn line(&self) -> (f64, f64) {
        if self.count <= 0.0 {
            return (1.0, 0.0);
        }
        let (latency, size) = (self.latency / self.count, self.size / self.count);
        let variance = self.size_squared / self.count - size * size;
        let covariance = self.size_latency / self.count - size * latency;
        // All of one size: there is nothing to tell apart.
        if size <= 0.0 || variance <= 1e-9 * size * size {
            return (latency, 0.0);
        }
        let steepest = (1.0 - BASE_MIN) * latency / size;
        let slope = (covariance / variance).clamp(0.0, steepest);
        (latency - slope * size, slope)
    }
}

/// `None` of nothing.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

#[cfg(test)]
mod tests {
    use super::{Sample, SizeCost};

    fn sample(latency_s: f64, size_mib: f64) -> Sample {
        Sample { latency_s, size_mib }
    }

    #[test]
    fn a_line_is_found_again() {
        let mut cost = SizeCost::default();
        let sizes = [0.1, 0.5, 1.0, 2.0, 4.0];
        cost.learn(&sizes.map(|size| sample(0.025 + 0.01 * size, size)));
        assert!((cost.seconds(0.0) - 0.025).abs() < 1e-9);
        assert!((cost.seconds(10.0) - 0.125).abs() < 1e-9);
    }

    #[test]
    fn sizes_that_do_not_matter_or_do_not_differ_are_left_out() {
        let mut latency_alone = SizeCost::default();
        latency_alone.learn(&[sample(0.03, 0.1), sample(0.02, 2.0), sample(0.03, 0.2)]);
        assert!((latency_alone.seconds(0.1) - latency_alone.seconds(2.0)).abs() < 1e-9);
        let mut one_size = SizeCost::default();
        one_size.learn(&[sample(0.02, 1.0), sample(0.04, 1.0)]);
        assert!((one_size.seconds(5.0) - 0.03).abs() < 1e-9);
    }

    #[test]
    fn nothing_seen_and_no_time_taken_give_a_time() {
        let mut cost = SizeCost::default();
        assert!(cost.seconds(1.0) > 0.0);
        cost.learn(&[sample(0.0, 0.0), sample(0.0, 1.0)]);
        assert!(cost.seconds(1.0) > 0.0);
    }
}
