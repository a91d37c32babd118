//! [`Retry`]: whether and when an interrupted request is made again.
//!
//! A state machine without a clock: it is told of bytes and of interruptions, with the time, and
//! answers how long to wait or why to give up. Delays are exponential with full jitter (Marc
//! Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015): many clients that
//! broke off together do not come back together.
//!
//! What counts is attempts *without progress*. A transfer of a day may break a thousand times and
//! go on, as long as each attempt brings it forward; but a server that gives a byte an answer and
//! hangs up brings it nowhere, and is asked no more often than one that gives nothing.

use std::time::Duration;

use fastrand::Rng;

/// When to retry, how often, and what counts as an interruption.
///
/// The machine itself acts on attempts, delays, progress and the deadline. The caller acts on the
/// rest: `stall_ms_max`, `connect_ms_max`, `header_ms_max`, `bytes_per_s_min` and `slow_ms_max`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in a row without progress, the first included, before giving up; 0 counts as 1.
    /// Default 8: with the delays below some 6 s on average, enough for a failover.
    pub attempts_max: u32,
    /// Upper bound of the first delay; doubles with each further attempt. Default 100.
    pub delay_ms_min: u64,
    /// Upper bound of any delay that we choose. Default 15,000.
    pub delay_ms_max: u64,
    /// From the start over all attempts and delays. Default none.
    pub deadline_ms: Option<u64>,
    /// No byte for so long is an interruption. Default 30,000.
    pub stall_ms_max: u64,
    /// No connection within so long is an interruption. Default 10,000.
    pub connect_ms_max: u64,
    /// No response header within so long is an interruption. Default 30,000.
    pub header_ms_max: u64,
    /// An attempt that delivered less, and did not finish, made no progress. Default 64 KiB: much
    /// more than a server sends by accident before it breaks, much less than a shard.
    pub progress_bytes_min: u64,
    /// Bytes that a whole transfer must bring for each second in which it waits for them, on the
    /// average of `slow_ms_max`; see [`crate::speed`]. Default 1024: far below any link that is
    /// worth waiting for. 0 sets no floor.
    pub bytes_per_s_min: u64,
    /// A transfer that waits for so long and stays below `bytes_per_s_min` makes its connections
    /// anew; after as long a time again it fails. Should not be below `stall_ms_max`. Default
    /// 60,000. 0 sets no floor.
    pub slow_ms_max: u64,
    /// A server's Retry-After beyond this is an error rather than a nap. Default 120,000.
    pub retry_after_ms_max: u64,
    /// Makes the delays repeatable; without it they differ from run to run.
    pub seed: Option<u64>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts_max: 8,
            delay_ms_min: 100,
            delay_ms_max: 15_000,
            deadline_ms: None,
            stall_ms_max: 30_000,
            connect_ms_max: 10_000,
            header_ms_max: 30_000,
            progress_bytes_min: 64 * 1024,
            bytes_per_s_min: 1024,
            slow_ms_max: 60_000,
            retry_after_ms_max: 120_000,
            seed: None,
        }
    }
}

/// What an error says about trying again; decided where the error is born.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryClass {
    /// The same request would fail the same way.
    Never,
    /// The transport broke: try again, after a delay unless there was progress.
    Now,
    /// The server said when (Retry-After).
    After(Duration),
}

/// What to do after an interruption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// Try again after this long.
    After(Duration),
    /// Do not try again.
    GiveUp(GiveUpReason),
}

/// Why there is no further attempt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GiveUpReason {
    /// The error is not one that passes.
    #[error("not retryable")]
    NotRetryable,
    /// Too many attempts in a row made no progress. How many is not told: whoever gives up tells all
    /// attempts that were made.
    #[error("no more progress")]
    AttemptsExhausted {
        /// How many.
        attempts: u32,
    },
    /// The time for the whole has passed, or would before the server wants to be asked again.
    #[error(
        "the deadline of {deadline_ms} ms leaves no time for another attempt after {elapsed_ms} ms"
    )]
    DeadlinePassed {
        /// The deadline.
        deadline_ms: u64,
        /// Time since the start.
        elapsed_ms: u64,
    },
    /// The server asks to wait for longer than we will.
    #[error("the server asks to wait for {retry_after_ms} ms, more than the {max_ms} ms allowed")]
    RetryAfterTooLong {
        /// What it asked for.
        retry_after_ms: u64,
        /// The most that the policy allows.
        max_ms: u64,
    },
}

/// The state of one restartable request: from its first attempt to its end.
#[derive(Clone, Debug)]
pub struct Retry {
    policy: RetryPolicy,
    started: Duration,
    /// Interrupted attempts since the last one that made progress.
    fruitless: u32,
    restarts: u64,
    /// Delivered by the attempt under way.
    attempt_bytes: u64,
    random: Rng,
}

impl Retry {
    /// At the start of the first attempt. `now` is since any epoch, and monotonic.
    pub fn new(policy: &RetryPolicy, now: Duration) -> Self {
        let random = policy.seed.map_or_else(Rng::new, Rng::with_seed);
        Self {
            policy: policy.clone(),
            started: now,
            fruitless: 0,
            restarts: 0,
            attempt_bytes: 0,
            random,
        }
    }

    /// The attempt under way delivered `n` more bytes.
    pub fn on_bytes(&mut self, n: u64) {
        self.attempt_bytes = self.attempt_bytes.saturating_add(n);
    }

    /// The attempt under way broke off. After [`RetryDecision::After`] the next one is under way.
    pub fn on_interruption(&mut self, class: RetryClass, now: Duration) -> RetryDecision {
        let floor = match self.wait_asked_for(class) {
            Ok(floor) => floor,
            Err(reason) => return RetryDecision::GiveUp(reason),
        };
        if std::mem::take(&mut self.attempt_bytes) >= self.policy.progress_bytes_min.max(1) {
            self.fruitless = 0;
        } else {
            self.fruitless = self.fruitless.saturating_add(1);
        }
        // The deadline first: when both have come, it is the bound that the user set.
        let remaining = self.remaining(now);
        if remaining.is_some_and(|remaining| remaining <= floor) {
            return RetryDecision::GiveUp(self.deadline_passed(now));
        }
        if self.fruitless >= self.policy.attempts_max.max(1) {
            let attempts = self.fruitless;
            return RetryDecision::GiveUp(GiveUpReason::AttemptsExhausted { attempts });
        }
        self.restarts = self.restarts.saturating_add(1);
        let delay = floor.max(self.backoff()).saturating_add(self.spread(floor));
        RetryDecision::After(remaining.map_or(delay, |remaining| delay.min(remaining)))
    }

    /// Which attempt is under way, counted from 1 since the last one that made progress.
    pub const fn attempt(&self) -> u32 {
        self.fruitless.saturating_add(1)
    }

    /// How many times the request has been made again in all.
    pub const fn restarts(&self) -> u64 {
        self.restarts
    }

    /// What is left until the deadline; `None` without one. An attempt under way should be
    /// interrupted when it is zero.
    pub fn remaining(&self, now: Duration) -> Option<Duration> {
        let deadline = Duration::from_millis(self.policy.deadline_ms?);
        Some(deadline.saturating_sub(now.saturating_sub(self.started)))
    }

    /// The least wait that the server asks for.
    fn wait_asked_for(&self, class: RetryClass) -> Result<Duration, GiveUpReason> {
        let max_ms = self.policy.retry_after_ms_max;
        match class {
            RetryClass::Never => Err(GiveUpReason::NotRetryable),
            RetryClass::Now => Ok(Duration::ZERO),
            RetryClass::After(wait) if wait > Duration::from_millis(max_ms) => {
                let retry_after_ms = whole_ms(wait);
                Err(GiveUpReason::RetryAfterTooLong { retry_after_ms, max_ms })
            }
            RetryClass::After(wait) => Ok(wait),
        }
    }

    fn deadline_passed(&self, now: Duration) -> GiveUpReason {
        GiveUpReason::DeadlinePassed {
            deadline_ms: self.policy.deadline_ms.unwrap_or(u64::MAX),
            elapsed_ms: whole_ms(now.saturating_sub(self.started)),
        }
    }

    /// Full jitter: evenly between nothing and the exponential bound. None after progress.
    fn backoff(&mut self) -> Duration {
        let Some(doublings) = self.fruitless.checked_sub(1) else { return Duration::ZERO };
        let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
        let bound_ms =
            self.policy.delay_ms_min.saturating_mul(factor).min(self.policy.delay_ms_max);
        self.up_to(Duration::from_millis(bound_ms))
    }

    /// A little on top of what the server asked for, as it asked everybody: up to a tenth.
    fn spread(&mut self, floor: Duration) -> Duration {
        if floor.is_zero() { Duration::ZERO } else { self.up_to(floor / 10) }
    }

    /// Evenly from nothing to `bound`, both included, in whole microseconds.
    fn up_to(&mut self, bound: Duration) -> Duration {
        let bound_us = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.random.u64(..=bound_us))
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
