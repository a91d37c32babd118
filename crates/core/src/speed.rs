//! [`SpeedFloor`]: whether a transfer brings too little, over the time in which it waits for bytes.
//!
//! A server that sends one byte a second never stalls, and never ends. So the bytes of a whole
//! transfer are compared with the time in which its readers wait for them. Time in which the reader
//! is kept busy by its sink, its budget or its caller is no such time, and is not counted. With the
//! defaults, 60 s of waiting must have brought 60 KiB.
//!
//! A state machine without a clock: it is told of bytes and of waits, with the time. Waits of
//! several readers overlap, and each moment counts once. A wait that brings nothing is not told: the
//! stall limit ends it, and [`crate::retry`] counts it as an attempt.

use std::ops::Range;
use std::time::Duration;

use crate::retry::RetryPolicy;

/// The floor under the speed of one transfer, over all of its connections.
#[derive(Clone, Debug)]
pub struct SpeedFloor {
    bytes_per_s_min: u64,
    period: Duration,
    /// Waits up to this time have been counted.
    counted_until: Duration,
    // Of the period under way.
    waited: Duration,
    bytes: u64,
    /// The period before was too slow.
    was_slow: bool,
    restarts: u64,
    has_failed: bool,
}

/// What [`SpeedFloor`] says to one connection of the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeedVerdict {
    /// Go on.
    Enough,
    /// A period was too slow: make a new connection.
    Restart,
    /// The period after that was too slow, too: the transfer fails.
    GiveUp,
}

impl SpeedFloor {
    /// At the start of a transfer. No floor where the policy's speed or time is 0.
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

    /// Whether there is a floor at all.
    pub const fn is_on(&self) -> bool {
        self.bytes_per_s_min > 0 && !self.period.is_zero()
    }

    /// How many times connections were to be made anew; a connection remembers it from its start.
    pub const fn restarts(&self) -> u64 {
        self.restarts
    }

    /// A connection brought `bytes`, and before some of them its reader waited for `wait`, which is
    /// since any epoch, the same for all readers. `restarts` is from the connection's start.
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

    /// Brings `bytes` each second from `from` on; gives the time of the first verdict other than
    /// `Enough`, and that verdict.
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
        // For every connection of the transfer, and for good.
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
            // A second of waiting an hour.
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
