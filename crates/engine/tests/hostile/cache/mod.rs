//! Caches of the Remote Execution API that send wrong responses, drawn from seeds, for downloads
//! and uploads.
//!
//! Down: the target holds exactly the blob, as its digest verifies. Otherwise the call fails and
//! the target's name is unchanged. The leftovers of a failure harm no later download from an honest
//! cache.
//!
//! Up: a success has an acknowledgement for every byte, by the protocol's rules, under exactly the
//! given digest. No client can detect that a cache loses acknowledged bytes. The testkit reads the
//! responses as the server sends them and derives what they acknowledge; see its `Acknowledged`.
//!
//! Both: no panic, no endless wait, and never more bytes held than the budget has. Nothing is held
//! afterwards, and a terminal can show every error's text.
//!
//! Server and client run on one thread, over loopback sockets, on a paused clock, so that an hour
//! of silence takes no real time. The clock advances when nothing is ready. Data on a loopback
//! socket is ready as soon as it is sent. If one of the engine's own threads is late, a timeout may
//! expire too early. Then there is one more attempt, and the properties still hold.
//!
//! Not tested here: ranges of a blob for their own sake, since no digest verifies them.
//!
//! | file | idea |
//! |---|---|
//! | `scenario` | the transfer, its settings, and the wrong responses: from a seed |
//! | `stage` | runs one scenario, and checks what must hold for all scenarios |
//! | `down`, `up` | the two directions, and what must hold for each |
//! | `watch` | panics in any thread |

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

/// They take half a minute on one core.
const SCENARIOS: u64 = 3_000;

/// No scenario takes a second of real time. A scenario that takes this long never ends.
const HANG: Duration = Duration::from_mins(1);

/// `TIDEGATE_HOSTILE_CACHE_SEEDS=1000..9000` selects other seeds.
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
fn a_success_with_a_hostile_cache_is_right() {
    watch::begin();
    let (sender, news) = mpsc::channel();
    let seeds = seeds();
    let playing = std::thread::spawn(move || {
        for seed in seeds {
            sender.send((seed, None)).unwrap();
            let scenario = Scenario::of(seed);
            match stage::run(&scenario) {
                Ok(outcome) => sender.send((seed, Some(outcome))).unwrap(),
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
    // The lies must fail some scenarios, and let others succeed. Otherwise they test little.
    let count = |is_success: bool| -> u64 {
        let lied = outcomes.iter().filter(|(outcome, _)| outcome.has_lies);
        lied.filter(|(outcome, _)| outcome.failure.is_none() == is_success).map(|(_, n)| n).sum()
    };
    let all: u64 = outcomes.values().sum();
    assert!(all < SCENARIOS || count(true) > all / 8 && count(false) > all / 8, "{outcomes:?}");
}

/// Shrinks a failing scenario.
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
