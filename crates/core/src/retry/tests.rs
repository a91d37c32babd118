//! The retry machine in simulated time, against servers with known behaviour.

use proptest::prelude::*;

use super::*;

fn seeded() -> RetryPolicy {
    RetryPolicy { seed: Some(7), ..RetryPolicy::default() }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Runs a blob of `len` bytes against a server that delivers `bytes_per_response` and then
/// disconnects. Returns the number of requests, the simulated time, and the result.
fn run(
    policy: &RetryPolicy,
    len: u64,
    bytes_per_response: u64,
    class: RetryClass,
) -> (u32, Duration, Option<GiveUpReason>) {
    let start = ms(1_000_000);
    let mut now = start;
    let mut retry = Retry::new(policy, now);
    let (mut requests, mut delivered) = (0, 0);
    loop {
        requests += 1;
        assert!(requests < 10_000, "never given up");
        now += ms(1);
        let n = bytes_per_response.min(len - delivered);
        retry.on_bytes(n);
        delivered += n;
        if delivered == len {
            return (requests, now.saturating_sub(start), None);
        }
        match retry.on_interruption(class, now) {
            RetryDecision::After(delay) => now += delay,
            RetryDecision::GiveUp(reason) => {
                return (requests, now.saturating_sub(start), Some(reason));
            }
        }
    }
}

#[test]
fn a_server_that_gives_a_byte_a_response_is_given_up_like_a_dead_one() {
    for bytes_per_response in [0, 1, 64 * 1024 - 1] {
        let (requests, _, end) = run(&seeded(), 1 << 40, bytes_per_response, RetryClass::Now);
        assert_eq!(requests, 8);
        assert_eq!(end, Some(GiveUpReason::AttemptsExhausted { attempts: 8 }));
    }
}

#[test]
fn a_server_that_brings_it_forward_is_never_given_up_nor_waited_for() {
    let (requests, elapsed, end) = run(&seeded(), 64 * 1024 * 1000, 64 * 1024, RetryClass::Now);
    assert_eq!((requests, end), (1000, None));
    assert_eq!(elapsed, ms(1000), "only the requests themselves take time");
}

#[test]
fn progress_starts_the_count_again() {
    let mut retry = Retry::new(&seeded(), ms(0));
    for attempt in 1..=7 {
        assert_eq!(retry.attempt(), attempt);
        assert!(matches!(retry.on_interruption(RetryClass::Now, ms(0)), RetryDecision::After(_)));
    }
    // The small pieces together are enough progress, but only within one attempt.
    (0..64).for_each(|_| retry.on_bytes(1024));
    assert_eq!(retry.on_interruption(RetryClass::Now, ms(0)), RetryDecision::After(Duration::ZERO));
    assert_eq!((retry.attempt(), retry.restarts()), (1, 8));
    retry.on_bytes(32 * 1024);
    let _ = retry.on_interruption(RetryClass::Now, ms(0));
    retry.on_bytes(32 * 1024);
    let _ = retry.on_interruption(RetryClass::Now, ms(0));
    assert_eq!(retry.attempt(), 3);
}

#[test]
fn nothing_at_all_is_never_progress() {
    let policy = RetryPolicy { progress_bytes_min: 0, ..seeded() };
    let (requests, _, end) = run(&policy, 1 << 40, 0, RetryClass::Now);
    assert_eq!((requests, end), (8, Some(GiveUpReason::AttemptsExhausted { attempts: 8 })));
}

#[test]
fn clients_with_the_same_retry_after_do_not_come_back_together() {
    let delays: std::collections::HashSet<Duration> = (0..20)
        .map(|seed| {
            let policy = RetryPolicy { seed: Some(seed), ..RetryPolicy::default() };
            let mut retry = Retry::new(&policy, ms(0));
            match retry.on_interruption(RetryClass::After(ms(5000)), ms(0)) {
                RetryDecision::After(delay) => delay,
                RetryDecision::GiveUp(reason) => panic!("gave up: {reason}"),
            }
        })
        .collect();
    assert!(delays.len() > 15, "{delays:?}");
}

#[test]
fn what_never_passes_is_given_up_at_once() {
    let mut retry = Retry::new(&seeded(), ms(0));
    retry.on_bytes(1 << 30);
    assert_eq!(
        retry.on_interruption(RetryClass::Never, ms(1)),
        RetryDecision::GiveUp(GiveUpReason::NotRetryable)
    );
}

#[test]
fn the_servers_wait_is_a_lower_bound_up_to_a_limit() {
    let mut retry = Retry::new(&seeded(), ms(0));
    let RetryDecision::After(delay) = retry.on_interruption(RetryClass::After(ms(5000)), ms(0))
    else {
        panic!("gave up")
    };
    assert!(delay >= ms(5000) && delay <= ms(5500), "{delay:?}");
    assert_eq!(
        retry.on_interruption(RetryClass::After(ms(120_001)), ms(0)),
        RetryDecision::GiveUp(GiveUpReason::RetryAfterTooLong {
            retry_after_ms: 120_001,
            max_ms: 120_000
        })
    );
    // A server that always says "at once" must not make the client send requests without a pause.
    let (requests, elapsed, end) = run(&seeded(), 1 << 40, 1, RetryClass::After(Duration::ZERO));
    assert_eq!((requests, end), (8, Some(GiveUpReason::AttemptsExhausted { attempts: 8 })));
    assert!(elapsed > ms(100), "{elapsed:?}");
}

#[test]
fn the_deadline_bounds_the_whole() {
    let policy = RetryPolicy { deadline_ms: Some(2000), attempts_max: u32::MAX, ..seeded() };
    let (_, elapsed, end) = run(&policy, 1 << 40, 1, RetryClass::Now);
    assert!(matches!(end, Some(GiveUpReason::DeadlinePassed { deadline_ms: 2000, .. })), "{end:?}");
    assert!(elapsed <= ms(2001), "{elapsed:?}");

    // The wait that the server asks for would end after the deadline, so the machine gives up at
    // once.
    let mut retry = Retry::new(&policy, ms(50));
    assert_eq!(
        retry.on_interruption(RetryClass::After(ms(3000)), ms(60)),
        RetryDecision::GiveUp(GiveUpReason::DeadlinePassed { deadline_ms: 2000, elapsed_ms: 10 })
    );
    assert_eq!(retry.remaining(ms(1050)), Some(ms(1000)));
    assert_eq!(retry.remaining(ms(9999)), Some(Duration::ZERO));
}

#[test]
fn a_seed_repeats_and_no_seed_does_not() {
    let delays = |policy: &RetryPolicy| {
        let mut retry = Retry::new(policy, ms(0));
        (0..7).map(|_| retry.on_interruption(RetryClass::Now, ms(0))).collect::<Vec<_>>()
    };
    assert_eq!(delays(&seeded()), delays(&seeded()));
    assert_ne!(delays(&seeded()), delays(&RetryPolicy { seed: Some(8), ..seeded() }));
    assert_ne!(delays(&RetryPolicy::default()), delays(&RetryPolicy::default()));
}

proptest! {
    /// Jitter is full: within the exponential bound, and over many draws close to both ends.
    #[test]
    fn delays_stay_within_their_bounds(seed in any::<u64>(), extreme in any::<u64>()) {
        let policy = RetryPolicy { seed: Some(seed), attempts_max: 80, ..RetryPolicy::default() };
        let mut retry = Retry::new(&policy, ms(extreme));
        for attempt in 0..79_u32 {
            let bound = ms(100_u64.saturating_mul(1_u64.checked_shl(attempt).unwrap_or(u64::MAX)).min(15_000));
            match retry.on_interruption(RetryClass::Now, ms(extreme)) {
                RetryDecision::After(delay) => prop_assert!(delay <= bound, "{delay:?} > {bound:?}"),
                RetryDecision::GiveUp(reason) => prop_assert!(false, "gave up: {reason}"),
            }
        }
    }

    /// Every sequence of inputs gets a decision.
    #[test]
    fn no_numbers_make_it_panic(
        numbers in any::<[u64; 6]>(), attempts_max in any::<u32>(),
        events in proptest::collection::vec((any::<u64>(), 0..3_u8, any::<u64>(), any::<u64>()), 0..20),
    ) {
        let [delay_ms_min, delay_ms_max, deadline, progress_bytes_min, retry_after_ms_max, start] = numbers;
        let policy = RetryPolicy {
            attempts_max, delay_ms_min, delay_ms_max, deadline_ms: Some(deadline),
            progress_bytes_min, retry_after_ms_max, ..RetryPolicy::default()
        };
        let mut retry = Retry::new(&policy, ms(start));
        for (bytes, class, wait, now) in events {
            retry.on_bytes(bytes);
            let class = match class {
                0 => RetryClass::Never,
                1 => RetryClass::Now,
                _ => RetryClass::After(Duration::new(wait, 0)),
            };
            let _ = (retry.on_interruption(class, ms(now)), retry.attempt(), retry.remaining(ms(now)));
        }
    }
}
