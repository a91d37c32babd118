//! [`Round`]: what is seen while the limit stays as it is.
//!
//! Only requests that *began* in the round count: one that began before ran, at least in part,
//! under another limit. Throughput is taken from Little's law, requests in flight over the time
//! that one takes, and not from bytes over an interval: a limit is doubled by sending a burst, and
//! for the next latencies bytes arrive in bursts too, so that an interval's rate depends on where
//! it is cut. It also needs only one latency, where a rate needs one to fill the pipe and one more
//! to look at it.

use std::time::Duration;

use super::size_cost::SizeCost;

/// Samples of one round, at most: more would not make it more certain, only larger.
const SAMPLES_MAX: usize = 512;

/// The slowest one in so many counts as slow as the slowest of the others. One request that takes a
/// thousand times as long as the others says nothing about how many there should be.
const SLOWEST_ONE_IN: usize = 10;

/// A straggler adds at most this much to what makes throughput doubtful.
const OUTLIER: f64 = 16.0;

/// With less than this part of the limit in flight, on average, a round says nothing about the
/// limit: the caller had nothing to send, or waited for something else.
const FILLED: f64 = 0.75;

/// One request that brought its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) latency_s: f64,
    pub(super) size_mib: f64,
}

/// Arrivals of one stretch.
const STRETCH: f64 = 4.0;

/// A few arrivals in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stretch {
    pub(super) elapsed_s: f64,
    /// Of all of them together.
    pub(super) size_mib: f64,
    pub(super) count: f64,
}

/// What is seen under one limit.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) limit: u32,
    /// Samples after which it is over.
    need: usize,
    samples: Vec<Sample>,
    stretches: Vec<Stretch>,
    /// The stretch under way, and when it began.
    stretch: Stretch,
    stretch_began: Duration,
    /// Requests that took time and brought nothing.
    failures: u32,
    /// When its first request began; before that, nothing is counted.
    opened: Option<Duration>,
    last: Duration,
    /// In flight times seconds, since it was opened.
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

    /// Time passes with so many in flight.
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

    /// A request has brought its bytes, whenever it began.
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

    /// A request that began in this round is done.
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

    /// Whether it says anything about the limit.
    pub(super) fn is_filled(&self) -> bool {
        self.in_flight() >= FILLED * f64::from(self.limit)
    }

    /// Whether most of it failed.
    pub(super) fn is_broken(&self) -> bool {
        self.failures as usize > self.samples.len()
    }

    pub(super) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    pub(super) fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// On average, since it was opened.
    fn in_flight(&self) -> f64 {
        let elapsed = self.last.saturating_sub(self.opened.unwrap_or(self.last)).as_secs_f64();
        // All at one instant: there was no time in which the limit was not reached.
        if elapsed > 0.0 { self.busy / elapsed } else { f64::from(self.limit) }
    }

    /// Throughput, in what requests of no bytes cost, a second. Of use only beside that of another
    /// round under the same `cost`.
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

    /// By how much of itself the throughput may be off: its standard error.
    pub(super) fn doubt(&self, cost: &SizeCost) -> f64 {
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

    /// Goes on for as long again. `false` where it has gone on for long enough.
    pub(super) fn extend(&mut self) -> bool {
        let need = (self.need * 2).min(SAMPLES_MAX);
        let extends = need > self.need;
        self.need = need;
        extends
    }
}

/// The sum of what is sorted, the slowest part counted as the slowest of the others.
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
