//! [`SpeedFloor`]: detects a transfer that delivers too few bytes in the time in which it waits for
//! them.
//!
//! A server that sends one byte a second never stalls and never finishes. So the bytes of a whole
//! transfer are compared with the time in which its readers wait for them. The time in which a
//! reader is busy with its sink, its budget or its caller does not count. With the defaults, 60 s
//! of waiting must deliver 60 KiB.
//!
//! A state machine without a clock: the caller reports bytes and waits, with the time. Waits of
//! several readers may overlap, and each moment counts once. The caller does not report a wait that
//! delivers nothing: the stall limit ends it, and [`crate::retry`] counts it as an attempt.

use std::ops::Range;
use std::time::Duration;

use crate::retry::RetryPolicy;

/// The minimum speed of one transfer, over all of its connections.
#[derive(Clone, Debug)]
pub struct SpeedFloor {
    bytes_per_s_min: u64,
    period: Duration,
    /// Waits up to this time have been counted.
    counted_until: Duration,
    // Of the current period.
    waited: Duration,
    bytes: u64,
    /// The previous period was too slow.
    was_slow: bool,
    restarts: u64,
    has_failed: bool,
}

/// The result for one connection of the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeedVerdict {
    /// Continue.
    Enough,
    /// A period was too slow: open a new connection.
    Restart,
    /// The next period was too slow as well: the transfer fails.
    GiveUp,
}

impl SpeedFloor {
    /// Call it at the start of a transfer. The check is off if the policy's speed or time is 0.
    pub fn new(policy: &RetryPolicy) -> Self {
        Self {
            bytes_per_s_min: policy.bytes_per_s_min,
            period: Duration::from_millis(policy.slow_ms_max),
            counted_until: Duration::ZERO,
            waited: Duration::ZERO,
            bytes: 0,
            was_slow: false,
            restarts: 0,
            has_failed: false,
        }
    }

    /// Whether the check is on.
    pub const fn is_on(&self) -> bool {
        self.bytes_per_s_min > 0 && !self.period.is_zero()
    }

    /// How often connections had to be recreated. A connection stores the value from its start.
    pub const fn restarts(&self) -> u64 {
        self.restarts
    }

    /// A connection delivered `bytes`. Before some of them its reader waited during `wait`, in time
    /// since an epoch that all readers share. `restarts` is the value from the connection's start.
    pub fn on_bytes(&mut self, bytes: u64, wait: Range<Duration>, restarts: u64) -> SpeedVerdict {
        if !self.is_on() {
            return SpeedVerdict::Enough;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.waited += wait.end.saturating_sub(wait.start.max(self.counted_until));
        self.counted_until = self.counted_until.max(wait.end);
        if self.waited >= self.period {
            self.end_period();
        }
        if self.has_failed {
            SpeedVerdict::GiveUp
        } else if restarts == self.restarts {
            SpeedVerdict::Enough
        } else {
            SpeedVerdict::Restart
        }
    }

    fn end_period(&mut self) {
        let is_slow = u128::from(self.bytes) * 1000
            < u128::from(self.bytes_per_s_min) * self.waited.as_millis();
        self.has_failed |= is_slow && self.was_slow;
        if is_slow && !self.was_slow {
            self.restarts = self.restarts.saturating_add(1);
        }
        self.was_slow = is_slow;
        self.waited = Duration::ZERO;
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Delivers `bytes` each second from `from` on. Returns the time of the first verdict other
    /// than `Enough`, and that verdict.
    fn drip(
        floor: &mut SpeedFloor,
        bytes: u64,
        seconds: Range<u64>,
    ) -> Option<(u64, SpeedVerdict)> {
        let restarts = floor.restarts();
        seconds.into_iter().find_map(|now| {
            let verdict = floor.on_bytes(bytes, s(now)..s(now + 1), restarts);
            (verdict != SpeedVerdict::Enough).then_some((now + 1, verdict))
        })
    }

    #[test]
    fn a_byte_a_second_is_restarted_once_and_then_fails() {
        let mut floor = SpeedFloor::new(&RetryPolicy::default());
        assert_eq!(drip(&mut floor, 1, 0..1000), Some((60, SpeedVerdict::Restart)));
        assert_eq!(drip(&mut floor, 1, 60..1000), Some((120, SpeedVerdict::GiveUp)));
        // The verdict is the same for every connection of the transfer, and final.
        assert_eq!(floor.on_bytes(1 << 20, s(120)..s(120), 1), SpeedVerdict::GiveUp);
    }

    #[test]
    fn what_reaches_the_floor_goes_on() {
        let mut floor = SpeedFloor::new(&RetryPolicy::default());
        assert_eq!(drip(&mut floor, 1024, 0..100_000), None);
    }

    #[test]
    fn only_periods_in_a_row_fail() {
        let mut floor = SpeedFloor::new(&RetryPolicy::default());
        for start in [0, 120, 240] {
            let slow = drip(&mut floor, 1, start..start + 60);
            assert_eq!(slow, Some((start + 60, SpeedVerdict::Restart)));
            assert_eq!(drip(&mut floor, 5000, start + 60..start + 120), None);
        }
        assert_eq!(floor.restarts(), 3);
    }

    #[test]
    fn time_between_waits_is_not_counted() {
        let mut floor = SpeedFloor::new(&RetryPolicy::default());
        for n in 0..59 {
            // One second of waiting per hour.
            let wait = s(n * 3600)..s(n * 3600 + 1);
            assert_eq!(floor.on_bytes(1, wait, 0), SpeedVerdict::Enough);
        }
    }

    #[test]
    fn waits_of_several_readers_count_once() {
        let mut floor = SpeedFloor::new(&RetryPolicy::default());
        for now in 0..500 {
            for _reader in 0..32 {
                assert_eq!(floor.on_bytes(64, s(now)..s(now + 1), 0), SpeedVerdict::Enough);
            }
        }
    }

    #[test]
    fn every_connection_restarts() {
        let mut floor = SpeedFloor::new(&RetryPolicy::default());
        assert_eq!(floor.on_bytes(1, s(0)..s(60), 0), SpeedVerdict::Restart);
        assert_eq!(floor.on_bytes(1, s(59)..s(60), 0), SpeedVerdict::Restart);
        assert_eq!(floor.on_bytes(1, s(60)..s(61), 1), SpeedVerdict::Enough);
    }

    #[test]
    fn zero_switches_it_off() {
        for policy in [
            RetryPolicy { bytes_per_s_min: 0, ..RetryPolicy::default() },
            RetryPolicy { slow_ms_max: 0, ..RetryPolicy::default() },
        ] {
            let mut floor = SpeedFloor::new(&policy);
            assert!(!floor.is_on());
            assert_eq!(drip(&mut floor, 1, 0..100_000), None);
        }
    }
}
