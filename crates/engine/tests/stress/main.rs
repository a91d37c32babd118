//! All operations that threads can do on a buffer at once, for a bounded number of rounds. For
//! `AddressSanitizer`, `ThreadSanitizer` and valgrind (see `.ci/sanitizers`), and, shorter, as a
//! test.
//!
//! | promise | test |
//! |---|---|
//! | threads that write, read, wait, freeze and recycle at once see only what was written | `concurrent_threads_see_only_written_bytes` |
//!
//! A program of its own, built without the library's features: the sanitizers rebuild everything
//! that it links, and run it some ten times slower.
//!
//! Each round fills one blob with bytes that no other round writes. Bytes from recycled memory,
//! from another writer's range or from a released page are therefore found by their content, even
//! without a sanitizer. Nothing here needs a runtime: a thread parks until it is woken. The tools
//! thus see the buffer's own synchronisation and not a scheduler's.
//!
//! `STRESS_ROUNDS` is the number of rounds of each lane. `STRESS_SEED` selects other rounds.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![expect(clippy::cast_possible_truncation, reason = "no round is so large")]

mod round;
mod thread;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use round::Round;
use tidegate::budget::{Budget, BudgetOptions};
use tidegate::buffer::{Backing, BufferPool, BufferPoolOptions};

/// The default number of rounds of a lane: about a second.
const ROUNDS: u64 = 40;

/// Two blobs at their largest, so that the lanes, the pool and the hungry thread compete for
/// memory.
const BUDGET_BYTES: u64 = 16 << 20;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn concurrent_threads_see_only_written_bytes() {
    let rounds = number("STRESS_ROUNDS", ROUNDS);
    let first_seed = number("STRESS_SEED", 1);
    let budget = Budget::new(BudgetOptions { requests: 1, bytes: BUDGET_BYTES });
    let pool = BufferPool::new(BufferPoolOptions { bytes_max: 4 << 20, idle_ms_max: 1 });
    let seeds = AtomicU64::new(first_seed << 32);
    let done = AtomicBool::new(false);
    let lane = |backing: Backing| {
        for _ in 0..rounds {
            let seed = seeds.fetch_add(1, Ordering::Relaxed);
            Round::new(seed, backing).play(&pool, &budget);
        }
    };
    std::thread::scope(|scope| {
        let reserved = cfg!(all(target_os = "linux", not(miri))).then_some(Backing::Reserved);
        let lanes: Vec<_> = (reserved.into_iter().chain([Backing::Segments, Backing::Auto]))
            .map(|backing| {
                let lane = &lane;
                scope.spawn(move || lane(backing))
            })
            .collect();
        // A thread that reserves more memory than is left, so that the pool must yield.
        let hungry = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                drop(budget.try_bytes(BUDGET_BYTES - (1 << 20)));
                pool.clear();
                std::thread::yield_now();
            }
        });
        let results: Vec<_> = lanes.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        hungry.join().unwrap();
        assert!(results.iter().all(Result::is_ok), "the seed is named above");
    });
    pool.clear();
    // The thread that looks for idle memory may be about to release the last of it.
    let since = Instant::now();
    while budget.held_bytes() > 0 && since.elapsed() < Duration::from_mins(1) {
        std::thread::yield_now();
    }
    assert_eq!((pool.kept_bytes(), budget.held_bytes()), (0, 0));
}
