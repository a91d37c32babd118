//! The real store on a simulated disk, from seeds: losses of power that keep any part of what was
//! not synced, kills, failing calls, a full disk, slow syncs, jumps of the clock.
//!
//! | file | idea |
//! |---|---|
//! | `history` | what each key may have, from what was attempted and acknowledged |
//! | `run` | one seed: random steps, and every read compared with the history |
//! | `flips` | every byte of every file flipped |
//!
//! `TIDEGATE_STORE_STEPS` sets the number of steps of each scenario. A failure prints its seed.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![expect(clippy::print_stderr, reason = "a failure says its seed")]

mod flips;
mod history;
mod run;

use self::run::{Run, Scenario};

/// The steps of a scenario in the gate: two million for all of them, in less than three minutes.
const STEPS: u64 = 340_000;
/// The steps of one seed. Many short lives find more than a long one.
const STEPS_PER_SEED: u64 = 4_000;

fn play(scenario: Scenario) {
    let steps = std::env::var("TIDEGATE_STORE_STEPS").ok().and_then(|steps| steps.parse().ok());
    let only = std::env::var("TIDEGATE_STORE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = match only {
        Some(seed) => seed..seed + 1,
        None => 0..steps.unwrap_or(STEPS).div_ceil(STEPS_PER_SEED),
    };
    let mut reads = 0;
    for seed in seeds {
        let run = std::panic::AssertUnwindSafe(|| Run::new(scenario, seed).play(STEPS_PER_SEED));
        match std::panic::catch_unwind(run) {
            Ok(count) => reads += count,
            Err(panic) => {
                eprintln!("the seed was {seed}: TIDEGATE_STORE_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(reads > 0, "no read was checked");
}

#[test]
fn power_loses_nothing_acknowledged() {
    play(Scenario { is_power: true, ..Scenario::default() });
}

#[test]
fn process_survives_kills_and_serves_nothing_wrong() {
    play(Scenario::default());
}

#[test]
fn power_survives_failing_calls() {
    play(Scenario { is_power: true, has_faults: true, ..Scenario::default() });
}

#[test]
fn process_survives_failing_calls() {
    play(Scenario { has_faults: true, ..Scenario::default() });
}

#[test]
fn a_full_store_stays_below_its_limit() {
    play(Scenario { is_full: true, ..Scenario::default() });
}

#[test]
fn a_full_store_survives_everything_at_level_power() {
    play(Scenario { is_power: true, has_faults: true, is_full: true });
}
