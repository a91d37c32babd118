//! Any sequence of bytes and interruptions: the decision never panics, never waits longer than the
//! policy allows, and gives up after the attempts that it allows without progress.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tidegate_core::retry::{Retry, RetryClass, RetryDecision, RetryPolicy};

fuzz_target!(|input: (u64, u8, Vec<(u32, u8, u16)>)| {
    let (seed, attempts_max, events) = input;
    let policy = RetryPolicy {
        attempts_max: u32::from(attempts_max),
        seed: Some(seed),
        ..RetryPolicy::default()
    };
    let longest = Duration::from_millis(2 * (policy.delay_ms_max + policy.retry_after_ms_max));
    let mut retry = Retry::new(&policy, Duration::ZERO);
    let mut now = Duration::ZERO;
    let mut without_progress = 0_u32;
    for (bytes, class, millis) in events {
        now += Duration::from_millis(u64::from(millis));
        retry.on_bytes(u64::from(bytes));
        let progress = u64::from(bytes) >= policy.progress_bytes_min;
        without_progress = if progress { 0 } else { without_progress + 1 };
        let class = match class % 3 {
            0 => RetryClass::Never,
            1 => RetryClass::Now,
            _ => RetryClass::After(Duration::from_millis(u64::from(millis))),
        };
        match retry.on_interruption(class, now) {
            RetryDecision::After(delay) => {
                assert!(delay <= longest);
                assert!(without_progress <= policy.attempts_max.max(1));
                now += delay;
            }
            RetryDecision::GiveUp(_) => return,
        }
    }
});
