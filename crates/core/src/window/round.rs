//! [`Round`]: the measurements under one limit.
//!
//! Only requests that *began* in the round count. A request that began before ran partly under
//! another limit. Throughput comes from Little's law, requests in flight divided by their latency,
//! and not from bytes per interval. The reason: a limit is doubled by sending a burst, and for the
//! next latencies bytes arrive in bursts too. The rate of an interval would then depend on where
//! the interval is cut. Little's law also needs only one latency, where a rate needs one latency to
//! fill the pipe and another to measure it.

use std::time::Duration;

use super::size_cost::SizeCost;

/// The maximum of samples in one round. More would cost memory and add no certainty.
const SAMPLES_MAX: usize = 512;

/// The slowest tenth of the samples counts as slow as the slowest of the others. A single request
/// that takes a thousand times as long as the others says nothing about the right limit.
const SLOWEST_ONE_IN: usize = 10;

/// A straggler adds at most this much to the squared error of the throughput.
const OUTLIER: f64 = 16.0;

/// A round with less than this fraction of the limit in flight, on average, says nothing about the
/// limit: the caller had nothing to send, or waited for something else.
const FILLED: f64 = 0.75;

/// One request that delivered its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) latency_s: f64,
    pub(super) size_mib: f64,
}

/// The number of arrivals in a stretch.
const STRETCH: f64 = 4.0;

/// A few consecutive arrivals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stretch {
    pub(super) elapsed_s: f64,
    /// The sum over the stretch.
    pub(super) size_mib: f64,
    pub(super) count: f64,
}

/// The measurements under one limit.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) limit: u32,
    /// The round is over after this many samples.
    need: usize,
    samples: Vec<Sample>,
    stretches: Vec<Stretch>,
    /// The current stretch, and when it began.
    stretch: Stretch,
    stretch_began: Duration,
    /// Requests that took time and delivered nothing.
    failures: u32,
    /// When its first request began. Nothing is counted before that.
    opened: Option<Duration>,
    last: Duration,
    /// The integral of requests in flight over time, in seconds, since the round was opened.
    busy: f64,
}

impl Round {
    pub(super) fn new(limit: u32, need: usize) -> Self {
        let need = need.clamp(1, SAMPLES_MAX);
        Self {
            limit,
            need,
            samples: Vec::new(),
            stretches: Vec::new(),
            stretch: Stretch::default(),
            stretch_began: Duration::ZERO,
            failures: 0,
            opened: None,
            last: Duration::ZERO,
            busy: 0.0,
        }
    }

    /// Adds the time since the last event, with `in_flight` requests.
    pub(super) fn pass(&mut self, now: Duration, in_flight: u32) {
        if self.opened.is_some() {
            self.busy += f64::from(in_flight) * now.saturating_sub(self.last).as_secs_f64();
            self.last = self.last.max(now);
        }
    }

    /// A request begins.
    pub(super) fn open(&mut self, now: Duration) {
        if self.opened.is_none() {
            self.opened = Some(now);
            self.last = now;
            self.stretch_began = now;
        }
    }

    /// A request has delivered its bytes. It may have begun in an earlier round.
    pub(super) fn arrive(&mut self, now: Duration, size_mib: f64) {
        if self.opened.is_none() || self.stretches.len() >= SAMPLES_MAX {
            return;
        }
        self.stretch.size_mib += size_mib;
        self.stretch.count += 1.0;
        if self.stretch.count >= STRETCH {
            let elapsed_s = now.saturating_sub(self.stretch_began).as_secs_f64();
            self.stretches.push(Stretch { elapsed_s, ..self.stretch });
            self.stretch = Stretch::default();
            self.stretch_began = now;
        }
    }

    /// A request that began in this round has succeeded.
    pub(super) fn push(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    /// A request that began in this round has failed.
    pub(super) fn fail(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    pub(super) fn is_over(&self) -> bool {
        self.samples.len().saturating_add(self.failures as usize) >= self.need
    }

    /// Whether the round says anything about the limit.
    pub(super) fn is_filled(&self) -> bool {
        self.in_flight() >= FILLED * f64::from(self.limit)
    }

    /// Whether most requests of the round failed.
    pub(super) fn is_broken(&self) -> bool {
        self.failures as usize > self.samples.len()
    }

    pub(super) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    pub(super) fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// The mean number of requests in flight since the round was opened.
    fn in_flight(&self) -> f64 {
        let elapsed = self.last.saturating_sub(self.opened.unwrap_or(self.last)).as_secs_f64();
        // All events were at one instant: there was no time in which the window was not full.
        if elapsed > 0.0 { self.busy / elapsed } else { f64::from(self.limit) }
    }

    /// Throughput per second, in units of the cost of an empty request. Compare it only with that
    /// of another round under the same `cost`.
    pub(super) fn throughput(&self, cost: &SizeCost) -> f64 {
        let work: f64 = self.samples.iter().map(|sample| cost.of(sample.size_mib)).sum();
        let mut latencies: Vec<f64> = self.samples.iter().map(|sample| sample.latency_s).collect();
        latencies.sort_by(f64::total_cmp);
        let spent = winsorised_sum(&latencies);
        let done = count(self.samples.len());
        let tried = done + f64::from(self.failures);
        if spent > 0.0 && tried > 0.0 {
            self.in_flight() * (done / tried) * work / spent
        } else {
            0.0
        }
    }

    /// The relative standard error of the throughput.
    pub(super) fn relative_error(&self, cost: &SizeCost) -> f64 {
        let done = count(self.samples.len());
        let work: f64 = self.samples.iter().map(|sample| cost.of(sample.size_mib)).sum();
        let spent: f64 = self.samples.iter().map(|sample| sample.latency_s).sum();
        if done < 2.0 || spent <= 0.0 {
            return 0.0;
        }
        let off =
            |sample: &Sample| (cost.of(sample.size_mib) / work - sample.latency_s / spent) * done;
        let squares: f64 = self.samples.iter().map(|sample| off(sample).powi(2).min(OUTLIER)).sum();
        (squares / (done - 1.0) / done).sqrt()
    }

    /// Doubles the round. `false` if it has reached its maximum.
    pub(super) fn extend(&mut self) -> bool {
        let need = (self.need * 2).min(SAMPLES_MAX);
        let extends = need > self.need;
        self.need = need;
        extends
    }
}

/// The sum of sorted values, with the slowest part counted as the slowest of the others.
fn winsorised_sum(sorted: &[f64]) -> f64 {
    let others = sorted.len() - sorted.len().div_ceil(SLOWEST_ONE_IN);
    let Some(bound) = sorted.get(others.saturating_sub(1)) else { return 0.0 };
    sorted.iter().map(|value| value.min(*bound)).sum()
}

/// Counts are bounded by [`SAMPLES_MAX`].
fn count(len: usize) -> f64 {
    u32::try_from(len).map_or(f64::from(u32::MAX), f64::from)
}

#[cfg(test)]
mod tests {
    use super::winsorised_sum;

    #[test]
    fn one_straggler_counts_as_the_second_slowest() {
        let ordinary = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1000.0];
        assert!((winsorised_sum(&ordinary) - 12.0).abs() < 1e-9);
        assert!((winsorised_sum(&[3.0]) - 3.0).abs() < 1e-9);
        assert!((winsorised_sum(&[3.0, 1000.0]) - 6.0).abs() < 1e-9);
        assert!(winsorised_sum(&[]).abs() < 1e-9);
    }
}
