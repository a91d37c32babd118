//! Named network conditions and the pacing that produces them.
//!
//! Deadlines keep the rate, not sleeps of a fixed length. After a late wake-up, the next write
//! catches up. The average over a response is therefore the requested rate, although timers tick in
//! milliseconds. Idle time earns almost no credit, so a kept-alive connection cannot burst.

use std::time::Duration;

use tokio::time::Instant;

/// Latency and rate of one kind of link, applied by the server to each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkProfile {
    /// Milliseconds between the arrival of a request and the first byte of its response.
    pub latency_ms: u64,
    /// At most this many milliseconds are added to the latency, by the server's seed.
    pub jitter_ms: u64,
    /// Body bytes per second of one connection; `None` sets no limit.
    pub rate_bytes_per_second: Option<u64>,
}

const MIB: u64 = 1024 * 1024;

impl NetworkProfile {
    /// No added latency and no limit.
    pub const LOOPBACK: Self = Self { latency_ms: 0, jitter_ms: 0, rate_bytes_per_second: None };
    /// A bucket seen from a machine in its region: 20 ms to the first byte, 100 MiB/s a connection.
    pub const CLOUD: Self =
        Self { latency_ms: 20, jitter_ms: 0, rate_bytes_per_second: Some(100 * MIB) };
    /// A cloud's latency without its limit of the rate.
    pub const CLOUD_UNCAPPED: Self =
        Self { latency_ms: 20, jitter_ms: 0, rate_bytes_per_second: None };
    /// Gigabit Ethernet, next rack.
    pub const LAN: Self =
        Self { latency_ms: 1, jitter_ms: 1, rate_bytes_per_second: Some(112 * MIB) };
    /// Another continent: 80 ms, 25 MiB/s a connection.
    pub const WAN: Self =
        Self { latency_ms: 80, jitter_ms: 20, rate_bytes_per_second: Some(25 * MIB) };
    /// A phone's link: 60 ms, uneven, 4 MiB/s a connection.
    pub const MOBILE: Self =
        Self { latency_ms: 60, jitter_ms: 40, rate_bytes_per_second: Some(4 * MIB) };
}

/// Bytes of one unpaced write: large enough that the cost of system calls is negligible.
const STEP_BYTES_UNPACED: u64 = 4 * MIB;
/// Bounds of one paced write.
const STEP_BYTES_MIN: u64 = 4 * 1024;
const STEP_BYTES_MAX: u64 = 256 * 1024;
/// The target number of paced writes a second: 2.5 ms each is above the timers' tick.
const STEPS_PER_SECOND: u64 = 400;
/// The longest delay behind its deadlines that a connection may make up.
const CREDIT: Duration = Duration::from_millis(10);

/// Keeps one connection at its rate.
#[derive(Debug)]
pub(crate) struct Pacer {
    rate_bytes_per_second: Option<u64>,
    due: Instant,
}

impl Pacer {
    pub(crate) fn new(rate_bytes_per_second: Option<u64>) -> Self {
        Self { rate_bytes_per_second: rate_bytes_per_second.map(|r| r.max(1)), due: Instant::now() }
    }

    /// The most bytes to write at once.
    pub(crate) fn step_bytes(&self) -> u64 {
        self.rate_bytes_per_second.map_or(STEP_BYTES_UNPACED, |rate| {
            (rate / STEPS_PER_SECOND).clamp(STEP_BYTES_MIN, STEP_BYTES_MAX)
        })
    }

    /// Waits until `bytes` more may be written.
    pub(crate) async fn admit(&mut self, bytes: u64) {
        let Some(rate) = self.rate_bytes_per_second else { return };
        let now = Instant::now();
        let floor = now.checked_sub(CREDIT).unwrap_or(now);
        self.due = self.due.max(floor) + cost(bytes, rate);
        tokio::time::sleep_until(self.due).await;
    }
}

fn cost(bytes: u64, rate_bytes_per_second: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate_bytes_per_second.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_costs_its_share_of_a_second() {
        assert_eq!(cost(MIB, 4 * MIB), Duration::from_millis(250));
        assert_eq!(cost(0, 1), Duration::ZERO);
        assert_eq!(cost(u64::MAX, 0), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn steps_stay_within_bounds() {
        assert_eq!(Pacer::new(None).step_bytes(), STEP_BYTES_UNPACED);
        assert_eq!(Pacer::new(Some(0)).step_bytes(), STEP_BYTES_MIN);
        assert_eq!(Pacer::new(Some(u64::MAX)).step_bytes(), STEP_BYTES_MAX);
        assert_eq!(Pacer::new(Some(100 * MIB)).step_bytes(), 256 * 1024);
    }
}
