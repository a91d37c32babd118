//! [`Retry`]: whether and when an interrupted request is retried.
//!
//! A state machine without a clock. The caller reports bytes and interruptions, with the time. The
//! machine returns how long to wait, or why to give up. Delays are exponential with full jitter
//! (Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015), so that many
//! clients that were interrupted together do not retry together.
//!
//! The machine counts attempts *without progress*. A transfer of a day may be interrupted a
//! thousand times and still continue, if each attempt makes progress. A server that sends one byte
//! per response and closes the connection makes no progress. It is retried no more often than one
//! that sends nothing.

use std::time::Duration;

use fastrand::Rng;

/// When to retry, how often, and what counts as an interruption.
///
/// The machine itself acts on attempts, delays, progress and the deadline. The caller acts on the
/// rest: `stall_ms_max`, `connect_ms_max`, `header_ms_max`, `bytes_per_s_min` and `slow_ms_max`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in a row without progress, including the first, before giving up; 0 counts as 1.
    /// Default 8: with the delays below, some 6 s on average, which is enough for a failover.
    pub attempts_max: u32,
    /// Upper bound of the first delay; doubles with each further attempt. Default 100.
    pub delay_ms_min: u64,
    /// Upper bound of any delay that the client chooses. Default 15,000.
    pub delay_ms_max: u64,
    /// Limit on the time from the start, over all attempts and delays. Default none.
    pub deadline_ms: Option<u64>,
    /// This long without a byte is an interruption. Default 30,000.
    pub stall_ms_max: u64,
    /// This long without a connection is an interruption. Default 10,000.
    pub connect_ms_max: u64,
    /// This long without a response header is an interruption. Default 30,000.
    pub header_ms_max: u64,
    /// An attempt that delivered less, and did not finish, made no progress. Default 64 KiB: much
    /// more than a server sends by accident before it fails, much less than a shard.
    pub progress_bytes_min: u64,
    /// The bytes per second that a whole transfer must deliver, over the time in which it waits for
    /// them, averaged over `slow_ms_max`; see [`crate::speed`]. Default 1024: far below any link
    /// that is worth waiting for. 0 disables the check.
    pub bytes_per_s_min: u64,
    /// A transfer that waits this long in total and stays below `bytes_per_s_min` recreates its
    /// connections. After the same time again it fails. Should not be below `stall_ms_max`. Default
    /// 60,000. 0 disables the check.
    pub slow_ms_max: u64,
    /// A server's Retry-After beyond this is an error instead of a wait. Default 120,000.
    pub retry_after_ms_max: u64,
    /// Makes the delays repeatable. Without it they differ from run to run.
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

/// Whether an error is worth a retry; decided where the error is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryClass {
    /// The same request would fail the same way.
    Never,
    /// The transport failed: retry, after a delay unless there was progress.
    Now,
    /// The server said when to retry (Retry-After).
    After(Duration),
}

/// The action after an interruption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// Retry after this long.
    After(Duration),
    /// Do not retry.
    GiveUp(GiveUpReason),
}

/// Why there is no further attempt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GiveUpReason {
    /// The error is not a temporary one.
    #[error("not retryable")]
    NotRetryable,
    /// Too many attempts in a row made no progress. The message leaves out their number, because
    /// the caller reports the number of all attempts.
    #[error("no more progress")]
    AttemptsExhausted {
        /// How many.
        attempts: u32,
    },
    /// The deadline has passed, or would pass before the server allows a retry.
    #[error(
        "the deadline of {deadline_ms} ms leaves no time for another attempt after {elapsed_ms} ms"
    )]
    DeadlinePassed {
        /// The deadline.
        deadline_ms: u64,
        /// Time since the start.
        elapsed_ms: u64,
    },
    /// The server asks for a longer wait than the policy allows.
    #[error("the server asks to wait for {retry_after_ms} ms, more than the {max_ms} ms allowed")]
    RetryAfterTooLong {
        /// The wait that the server asked for.
        retry_after_ms: u64,
        /// The longest wait that the policy allows.
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
    /// Bytes delivered by the current attempt.
    attempt_bytes: u64,
    random: Rng,
}

impl Retry {
    /// Call it at the start of the first attempt. `now` is since any epoch, and monotonic.
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

    /// The current attempt delivered `n` more bytes.
    pub fn on_bytes(&mut self, n: u64) {
        self.attempt_bytes = self.attempt_bytes.saturating_add(n);
    }

    /// The current attempt was interrupted. After [`RetryDecision::After`] the next attempt is the
    /// current one.
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
        // The deadline first: if both bounds are reached, the user set this one.
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

    /// The number of the current attempt, counted from 1 since the last one that made progress.
    pub const fn attempt(&self) -> u32 {
        self.fruitless.saturating_add(1)
    }

    /// The total number of retries of the request.
    pub const fn restarts(&self) -> u64 {
        self.restarts
    }

    /// The time until the deadline; `None` without one. At zero, the caller should interrupt the
    /// current attempt.
    pub fn remaining(&self, now: Duration) -> Option<Duration> {
        let deadline = Duration::from_millis(self.policy.deadline_ms?);
        Some(deadline.saturating_sub(now.saturating_sub(self.started)))
    }

    /// The minimum wait that the server asks for.
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

    /// Full jitter: uniform between zero and the exponential bound. No delay after progress.
    fn backoff(&mut self) -> Duration {
        let Some(doublings) = self.fruitless.checked_sub(1) else { return Duration::ZERO };
        let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
        let bound_ms =
            self.policy.delay_ms_min.saturating_mul(factor).min(self.policy.delay_ms_max);
        self.up_to(Duration::from_millis(bound_ms))
    }

    /// A random addition of up to a tenth to the server's wait, because the server asked every
    /// client for the same wait.
    fn spread(&mut self, floor: Duration) -> Duration {
        if floor.is_zero() { Duration::ZERO } else { self.up_to(floor / 10) }
    }

    /// Uniform from zero to `bound`, both included, in whole microseconds.
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
