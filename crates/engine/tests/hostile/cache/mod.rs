//! Caches of the Remote Execution API that answer with lies, drawn from seeds, both ways.
//!
//! Down: a target holds exactly the blob, whose digest says which it is, or the call fails and the
//! target's name is as it was. What is left of a failure harms no later download from an honest
//! cache.
//!
//! Up: a success has an acknowledgement for every byte, by the protocol's rules, under exactly the
//! digest that was given. An acknowledgement of bytes that the cache then loses is a lie that no
//! client can see. The testkit reads the responses as
//! they leave and says what they acknowledge; see its `Acknowledged`.
//!
//! Both: no panic, no wait without end, no more held than the budget has, nothing held afterwards,
//! and errors whose text can be shown on a terminal.
//!
//! Server and client run on one thread, over loopback sockets, on a paused clock, so that an hour of
//! silence costs nothing. The clock moves on when nothing is ready: data on a loopback socket is
//! ready as soon as it is sent. Where one of the engine's own threads is late, a limit may pass too
//! early; then there is one more attempt, and the properties hold all the same.
//!
//! Not here: ranges of a blob as an end in themselves, since nothing says whether they are right.
//!
//! | file | idea |
//! |---|---|
//! | `scenario` | what is transferred, how, and which lies are told: from a seed |
//! | `stage` | one scenario from its server to what must hold of all |
//! | `down`, `up` | the two directions, and what must hold of each |
//! | `watch` | panics, wherever they are |

#![expect(clippy::print_stdout, reason = "shown where a test fails, and on request")]

mod down;
mod scenario;
mod stage;
mod up;
mod watch;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::mpsc;
use std::time::Duration;

use self::scenario::Scenario;
use self::stage::Outcome;

/// Half a minute of them on one core.
const SCENARIOS: u64 = 3_000;

/// No scenario takes a second of real time: one that is not done after this long never ends.
const HANG: Duration = Duration::from_mins(1);

/// `TIDEGATE_HOSTILE_CACHE_SEEDS=1000..9000` plays others.
fn seeds() -> Range<u64> {
    match std::env::var("TIDEGATE_HOSTILE_CACHE_SEEDS") {
        Ok(seeds) => {
            let (from, to) = seeds.split_once("..").unwrap();
            from.parse().unwrap()..to.parse().unwrap()
        }
        Err(_) => 0..SCENARIOS,
    }
}

#[test]
fn whatever_a_cache_answers_a_success_is_right() {
    watch::begin();
    let (told, news) = mpsc::channel();
    let seeds = seeds();
    let playing = std::thread::spawn(move || {
        for seed in seeds {
            told.send((seed, None)).unwrap();
            let scenario = Scenario::of(seed);
            match stage::run(&scenario) {
                Ok(outcome) => told.send((seed, Some(outcome))).unwrap(),
                Err(wrong) => {
                    let (small, wrong_then) = shrink(&scenario, wrong.clone());
                    panic!("seed {seed}: {wrong}\nsmaller: {wrong_then}\n{small:#?}");
                }
            }
        }
    });
    let mut last = None;
    let mut outcomes: BTreeMap<Outcome, u64> = BTreeMap::new();
    loop {
        match news.recv_timeout(HANG) {
            Ok((seed, None)) => last = Some(seed),
            Ok((_, Some(outcome))) => *outcomes.entry(outcome).or_default() += 1,
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let scenario = last.map(Scenario::of);
                panic!("it never ends: seed {last:?}\n{scenario:#?}");
            }
        }
    }
    if let Err(panic) = playing.join() {
        std::panic::resume_unwind(panic);
    }
    println!("{outcomes:#?}");
    // Lies that nothing survives, or that nothing fails of, would test little.
    let count = |is_success: bool| -> u64 {
        let lied = outcomes.iter().filter(|(outcome, _)| outcome.has_lies);
        lied.filter(|(outcome, _)| outcome.failure.is_none() == is_success).map(|(_, n)| n).sum()
    };
    let all: u64 = outcomes.values().sum();
    assert!(all < SCENARIOS || count(true) > all / 8 && count(false) > all / 8, "{outcomes:?}");
}

/// Leaves out what is not needed for a failure.
fn shrink(scenario: &Scenario, wrong: String) -> (Scenario, String) {
    let mut best = (scenario.clone(), wrong);
    'again: loop {
        for smaller in best.0.smaller() {
            if let Err(wrong) = stage::run(&smaller) {
                best = (smaller, wrong);
                continue 'again;
            }
        }
        return best;
    }
}
