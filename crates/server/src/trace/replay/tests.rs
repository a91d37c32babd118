//! Simulated caches against simple models, and age-LRU against exact LRU.

use proptest::prelude::*;

use super::*;
use crate::trace::{SyntheticOptions, SyntheticTrace};

fn get(time_ms: u64, fingerprint: u64, size_bytes: u64) -> TraceRequest {
    TraceRequest { time_ms, operation: TraceOperation::Get, fingerprint, size_bytes }
}

fn replay(
    policy: ReplayPolicy,
    limit_bytes: u64,
    requests: impl IntoIterator<Item = TraceRequest>,
) -> Tally {
    let mut replay = Replay::new(policy, limit_bytes, ReplayOptions::default());
    for request in requests {
        replay.request(&request);
    }
    *replay.tally()
}

proptest! {
    /// Exact LRU and FIFO against a list.
    #[test]
    fn lists_evict_the_right_blob(
        requests in prop::collection::vec(0_u64..30, 0..300),
        limit in 1_u64..200,
        is_lru in any::<bool>(),
    ) {
        let mut cache = Lru::new(limit, is_lru);
        let mut model: Vec<u64> = Vec::new();
        for fingerprint in requests {
            let size = fingerprint + 1;
            let outcome = cache.request(fingerprint, size, 0);
            let held = model.iter().position(|one| *one == fingerprint);
            let expected = if let Some(at) = held {
                if is_lru {
                    model.remove(at);
                    model.push(fingerprint);
                }
                Outcome::Hit
            } else if size > limit {
                Outcome::Refused
            } else {
                while model.iter().map(|one| one + 1).sum::<u64>() + size > limit {
                    model.remove(0);
                }
                model.push(fingerprint);
                Outcome::Stored
            };
            prop_assert_eq!(outcome, expected);
            prop_assert_eq!(cache.bytes(), model.iter().map(|one| one + 1).sum::<u64>());
        }
    }

    #[test]
    fn no_cache_exceeds_its_limit(
        requests in prop::collection::vec((0_u64..60, 0_u64..20_000), 0..300),
        limit in 1_u64..200,
        age_min_ms in 0_u64..60_000,
    ) {
        for policy in ReplayPolicy::SIZED {
            let mut replay = Replay::new(policy, limit, ReplayOptions { age_min_ms });
            let mut time_ms = 0;
            for (fingerprint, passed) in &requests {
                time_ms += passed;
                replay.request(&get(time_ms, *fingerprint, fingerprint % 7));
            }
            let tally = replay.tally();
            prop_assert!(tally.bytes_max <= limit);
            prop_assert_eq!(tally.requests, requests.len() as u64);
            prop_assert!(tally.hits <= tally.requests);
        }
    }
}

/// The working set of the main line.
fn set_bytes(options: SyntheticOptions) -> u64 {
    let first = SyntheticTrace::new(options).filter(|one| one.operation == TraceOperation::Get);
    first.take(options.actions).map(|one| one.size_bytes).sum()
}

/// What a store of this size keeps: it needs the rest for writing. 4% for new values, and as much
/// again so that packs are cheap to clean.
fn live_bytes_max(limit_bytes: u64) -> u64 {
    limit_bytes - limit_bytes / 25 * 2
}

/// Stores that are too small, about right, and large: in each, eviction by coarse age loses less
/// than half a point of hits to exact LRU over the same bytes.
#[test]
fn age_lru_is_as_good_as_exact_lru() {
    for seed in 1..=3 {
        let options = SyntheticOptions { seed, actions: 4000, builds: 100, ..Default::default() };
        let set = set_bytes(options);
        for tenths in [12, 16, 25] {
            let limit = set * tenths / 10;
            let by_age = replay(ReplayPolicy::AgeLru, limit, SyntheticTrace::new(options));
            let live = live_bytes_max(limit);
            let exact = replay(ReplayPolicy::Lru, live, SyntheticTrace::new(options));
            let unlimited = replay(ReplayPolicy::Unlimited, 0, SyntheticTrace::new(options));
            let lost = exact.hit_rate() - by_age.hit_rate();
            let shown = format!("seed {seed}, {tenths} tenths: {exact:?} {by_age:?}");
            assert!(lost < 0.005, "{lost}: {shown}");
            assert!(exact.hit_rate() > 0.5 && exact.hit_rate() <= unlimited.hit_rate(), "{shown}");
            assert!(exact.bytes_max > live * 9 / 10, "it is never full: {shown}");
            assert!(by_age.bytes_max < limit, "{shown}");
        }
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn a_use_keeps_a_blob_in_lru_and_not_in_fifo() {
    // Each is 40 of 100 MiB. The store keeps 92.
    let requests = || {
        [(0, 1), (10_000, 2), (20_000, 1), (30_000, 3), (40_000, 1)]
            .map(|(time_ms, fingerprint)| get(time_ms, fingerprint, 40 * MIB))
    };
    assert_eq!(replay(ReplayPolicy::Lru, 100 * MIB, requests()).hits, 2);
    assert_eq!(replay(ReplayPolicy::AgeLru, 125 * MIB, requests()).hits, 2);
    assert_eq!(replay(ReplayPolicy::Fifo, 100 * MIB, requests()).hits, 1);
}

#[test]
fn what_is_too_young_stays_and_new_blobs_are_refused() {
    let options = ReplayOptions { age_min_ms: 60_000 };
    let mut replay = Replay::new(ReplayPolicy::AgeLru, 100 * MIB, options);
    let requests = [(0, 1), (1000, 2), (2000, 3), (3000, 1), (70_000, 4), (70_001, 3), (70_002, 2)];
    for (time_ms, fingerprint) in requests {
        let size_bytes = if fingerprint == 4 { MIB } else { 48 * MIB };
        replay.request(&get(time_ms, fingerprint, size_bytes));
    }
    // 3 is refused as long as 1 and 2 are young. Then 4 makes the store evict both.
    assert_eq!((replay.tally().refused, replay.tally().hits), (1, 1));
}

#[test]
fn a_put_is_no_request() {
    let put = TraceRequest { operation: TraceOperation::Put, ..get(0, 1, 10) };
    let find = TraceRequest { operation: TraceOperation::Find, ..get(0, 1, 10) };
    let tally = replay(ReplayPolicy::Unlimited, 0, [put, find, get(1, 2, 5), put]);
    let expected = Tally {
        requests: 2,
        hits: 1,
        requested_bytes: 15,
        hit_bytes: 10,
        written_bytes: 15,
        bytes_max: 15,
        refused: 0,
    };
    assert_eq!(tally, expected);
}
