//! The window in a seeded simulation, compared with every fixed window. Within two seconds it finds
//! a limit that is (nearly) as good as the best fixed one, and that uses no more memory.
//!
//! | promise | test |
//! |---|---|
//! | it finds a good window on each network within two seconds | `on_a_lan`, `at_25_ms_with_jitter`, `at_100_ms`, `on_a_link_that_loses_responses` |
//! | it narrows if the server slows down or throttles | `at_a_server_that_slows_down_under_load`, `at_a_server_that_throttles_beyond_40_requests`, `failures_shrink_the_window_to_one_request` |
//! | it does not grow without a gain or while it is not filled | `the_window_stays_small_on_a_full_link`, `a_window_that_is_not_filled_does_not_grow` |
//! | one slow request, or one burst of throttled ones, changes it at most once | `one_slow_request_changes_nothing`, `throttling_of_concurrent_requests_shrinks_the_window_once` |
//! | it stays within its bounds, and a fixed one stays fixed | `stays_within_its_bounds`, `a_fixed_window_stays` |

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod network;

use std::time::Duration;

use network::{Network, Run, Sizes, run};
use proptest::prelude::*;
use tidegate_core::window::{Outcome, Window, WindowOptions};

/// The time within which the window must be found.
const FOUND_WITHIN_MS: u64 = 2_000;

const SEEDS: std::ops::Range<u64> = 1..6;

const LAN: Network = Network { lasts_ms: 3_000, ..Network::plain("LAN", (0.5, 1.0)) };
const NEAR: Network = Network::plain("25 ± 10 ms", (15.0, 35.0));
const FAR: Network = Network { lasts_ms: 10_000, ..Network::plain("100 ms", (100.0, 105.0)) };
const LOSSY: Network = Network {
    stragglers: (0.03, 200.0),
    failures: 0.01,
    ..Network::plain("lossy, 25 ± 10 ms", (15.0, 35.0))
};
const OVERLOADED: Network =
    Network { overloaded_beyond: Some(24), ..Network::plain("slower under load", (8.0, 16.0)) };
/// Slows down below the window's initial limit.
const SOON_OVERLOADED: Network =
    Network { overloaded_beyond: Some(5), ..Network::plain("soon slower under load", (8.0, 16.0)) };

fn adaptive(network: &Network, sizes: Sizes, seed: u64) -> Run {
    run(network, sizes, seed, WindowOptions::default())
}

/// The best rate that a fixed window reaches, and that window.
fn best_fixed(network: &Network, sizes: Sizes, seed: u64, rate: Rate) -> (f64, u32) {
    let windows = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];
    let rates = windows.map(|window| {
        let fixed = run(network, sizes, seed, WindowOptions::fixed(window));
        (rate(&fixed, FOUND_WITHIN_MS), window)
    });
    rates.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

/// The rate by which a run is judged.
type Rate = fn(&Run, u64) -> f64;

fn assert_finds_the_best(network: &Network, sizes: Sizes) {
    assert_finds_the_best_by(network, sizes, Run::rate_after);
}

fn assert_finds_the_best_by(network: &Network, sizes: Sizes, rate: Rate) {
    for seed in SEEDS {
        let (best, window) = best_fixed(network, sizes, seed, rate);
        let found = adaptive(network, sizes, seed);
        let rate = rate(&found, FOUND_WITHIN_MS);
        assert!(
            rate >= 0.8 * best,
            "{} {sizes:?}, seed {seed}: {rate:.0} MiB/s, {best:.0} with a window of {window}; {:?}",
            network.name,
            found.limits,
        );
    }
}

#[test]
fn on_a_lan() {
    for sizes in [Sizes::Even, Sizes::Mixed] {
        assert_finds_the_best(&LAN, sizes);
        assert_finds_the_best(&LAN.link(1200.0), sizes);
        assert_finds_the_best(&LAN.link(110.0), sizes);
    }
    assert_finds_the_best(&LAN.link(110.0), Sizes::Shifting);
}

#[test]
fn at_25_ms_with_jitter() {
    for sizes in [Sizes::Even, Sizes::Mixed, Sizes::Shifting] {
        assert_finds_the_best(&NEAR, sizes);
        assert_finds_the_best(&NEAR.link(1200.0), sizes);
        assert_finds_the_best(&NEAR.link(100.0), sizes);
    }
}

#[test]
fn at_100_ms() {
    for sizes in [Sizes::Even, Sizes::Mixed, Sizes::Shifting] {
        assert_finds_the_best(&FAR, sizes);
        assert_finds_the_best(&FAR.link(400.0), sizes);
        assert_finds_the_best(&FAR.link(100.0), sizes);
        assert_finds_the_best(&FAR.link(25.0), sizes);
    }
}

#[test]
fn on_a_link_that_loses_responses() {
    for sizes in [Sizes::Even, Sizes::Mixed, Sizes::Shifting] {
        assert_finds_the_best(&LOSSY, sizes);
        assert_finds_the_best(&LOSSY.link(400.0), sizes);
    }
}

#[test]
fn at_a_server_that_slows_down_under_load() {
    for sizes in [Sizes::Even, Sizes::Mixed] {
        assert_finds_the_best(&OVERLOADED, sizes);
        assert_finds_the_best(&SOON_OVERLOADED, sizes);
    }
    // Counts only requests sent after `FOUND_WITHIN_MS`, when the content has changed. A window that
    // is far too large still has many large requests in flight at that time. Counting these would
    // make it the best for being late.
    assert_finds_the_best_by(&OVERLOADED, Sizes::Shifting, Run::asked_rate_after);
    assert_finds_the_best_by(&SOON_OVERLOADED, Sizes::Shifting, Run::asked_rate_after);
}

#[test]
fn at_a_server_that_throttles_beyond_40_requests() {
    let refusing = Network { throttled_beyond: Some(40), ..NEAR };
    for seed in SEEDS {
        let found = adaptive(&refusing, Sizes::Even, seed);
        let fitting = run(&refusing, Sizes::Even, seed, WindowOptions::fixed(40));
        let (rate, best) = (found.rate_after(FOUND_WITHIN_MS), fitting.rate_after(FOUND_WITHIN_MS));
        assert!(
            rate >= 0.6 * best,
            "seed {seed}: {rate:.0} of {best:.0} MiB/s; {:?}",
            found.limits
        );
    }
}

/// More requests in flight gain nothing on a full link, and their bytes are held in memory.
#[test]
fn the_window_stays_small_on_a_full_link() {
    for (network, knee) in [(LAN.link(110.0), 1.0), (NEAR.link(200.0), 10.0)] {
        for seed in SEEDS {
            let found = adaptive(&network, Sizes::Even, seed);
            assert!(found.limit_max() <= 64, "{}: {:?}", network.name, found.limits);
            let mean = found.limit_after(FOUND_WITHIN_MS);
            let most = 2.5 * knee + 4.0;
            assert!(mean <= most, "{}, seed {seed}: {mean:.1}; {:?}", network.name, found.limits);
        }
    }
}

const MS: Duration = Duration::from_millis(1);

/// Runs `count` requests through a full window, each with the same latency.
fn run_for(window: &mut Window, now: &mut Duration, count: u32, latency: Duration) {
    let mut tickets = std::collections::VecDeque::new();
    let mut begun = 0;
    while begun < count {
        while window.has_room() {
            tickets.push_back((window.on_start(*now), *now + latency));
            begun += 1;
        }
        let (ticket, at) = tickets.pop_front().unwrap();
        *now = (*now).max(at);
        window.on_done(ticket, *now, 1 << 19, Outcome::Ok);
    }
    for (ticket, at) in tickets {
        *now = (*now).max(at);
        window.on_done(ticket, *now, 1 << 19, Outcome::Cancelled);
    }
}

#[test]
fn one_slow_request_changes_nothing() {
    let mut window = Window::new(WindowOptions::default());
    let mut now = Duration::ZERO;
    run_for(&mut window, &mut now, 5_000, 25 * MS);
    let before = window.limit();
    assert!(before >= 128, "{before}");
    let slow = window.on_start(now);
    run_for(&mut window, &mut now, 5_000, 25 * MS);
    window.on_done(slow, now, 1 << 19, Outcome::Ok);
    run_for(&mut window, &mut now, 5_000, 25 * MS);
    assert!(window.limit() >= before / 2, "{} after {before}", window.limit());
}

/// A caller with little to send does not get a larger window.
#[test]
fn a_window_that_is_not_filled_does_not_grow() {
    let mut window = Window::new(WindowOptions::default());
    let mut now = Duration::ZERO;
    for _ in 0..1000 {
        let tickets: Vec<_> = (0..4).map(|_| window.on_start(now)).collect();
        now += 25 * MS;
        for ticket in tickets {
            window.on_done(ticket, now, 1 << 19, Outcome::Ok);
        }
    }
    assert_eq!((window.limit(), window.in_flight()), (16, 0));
}

#[test]
fn throttling_of_concurrent_requests_shrinks_the_window_once() {
    let mut window = Window::new(WindowOptions::default());
    let tickets: Vec<_> = (0..16).map(|_| window.on_start(Duration::ZERO)).collect();
    for ticket in tickets {
        window.on_done(ticket, MS, 0, Outcome::Throttled);
    }
    assert_eq!(window.limit(), 11);
}

#[test]
fn failures_shrink_the_window_to_one_request() {
    let mut window = Window::new(WindowOptions::default());
    for at in 0..10_000 {
        let ticket = window.on_start(at * MS);
        window.on_done(ticket, (at + 1) * MS, 0, Outcome::Failed);
    }
    assert_eq!(window.limit(), 1);
}

#[test]
fn a_fixed_window_stays() {
    let mut window = Window::new(WindowOptions::fixed(16));
    run_for(&mut window, &mut Duration::default(), 5_000, 25 * MS);
    assert_eq!(window.limit(), 16);
    let ticket = window.on_start(MS);
    window.on_done(ticket, MS, 0, Outcome::Throttled);
    assert_eq!(window.limit(), 16);
    assert_eq!(Window::new(WindowOptions::fixed(0)).limit(), 1);
}

proptest! {
    /// Any events in any order, at any times.
    #[test]
    fn stays_within_its_bounds(
        start in any::<u32>(), min in any::<u32>(), max in any::<u32>(),
        events in proptest::collection::vec((any::<bool>(), any::<u64>(), any::<u64>(), 0..8_u8), 0..400),
    ) {
        let mut window = Window::new(WindowOptions { start, min, max });
        let (low, high) = (min.max(1), max.max(min).max(1));
        let mut tickets = Vec::new();
        for (begins, at, bytes, how) in events {
            let now = Duration::from_nanos(at);
            if begins || tickets.is_empty() {
                tickets.push(window.on_start(now));
            } else {
                let index = usize::try_from(bytes % tickets.len() as u64).unwrap();
                let outcome = match how {
                    0 => Outcome::Throttled,
                    1 => Outcome::Failed,
                    2 => Outcome::Cancelled,
                    _ => Outcome::Ok,
                };
                window.on_done(tickets.swap_remove(index), now, bytes, outcome);
            }
            prop_assert!((low..=high).contains(&window.limit()));
            prop_assert_eq!(window.in_flight() as usize, tickets.len());
        }
    }
}
