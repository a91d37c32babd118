//! No hostile server causes a success with wrong bytes. The scenarios come from seeds, and cover
//! every way of reading a blob.
//!
//! The servers and the oracle are `tidegate_testkit::hostile`, whose docs say what is generated,
//! what counts as right, and what is left out. Here each seed is played once: into a file, into
//! memory, into an ordered output, through a channel, into a file by a second run after the first
//! was killed, or through a channel that another process continues. Everything runs in this
//! process, over streams in memory and on a paused clock, through the engine's own HTTP code.
//!
//! `TIDEGATE_HOSTILE_SEEDS=20000..90000 cargo test -p tidegate --all-features --test hostile` plays
//! other seeds. A failure prints its seed, which alone repeats it: `TIDEGATE_HOSTILE_SEEDS=7..8`.

mod channel;
mod choice;
mod file;
mod output;
mod play;
mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use self::play::{Played, play};
use self::stage::House;

/// Enough that each deviation occurs with each way several times.
const SEEDS: u64 = 12_000;

/// The number of processors of the machines that run this before every change.
const WORKERS: usize = 2;

/// No seed takes a second. A seed that takes this long never ends.
const HANG: Duration = Duration::from_mins(2);

/// Failures that are printed in full.
const SHOWN_MAX: usize = 3;

fn seeds() -> Option<Range<u64>> {
    let seeds = std::env::var("TIDEGATE_HOSTILE_SEEDS").ok()?;
    let (from, to) = seeds.split_once("..").unwrap();
    Some(from.parse().unwrap()..to.parse().unwrap())
}

/// The messages of the workers.
enum News {
    Begun(u64),
    Ended(u64, Played),
}

#[test]
fn a_success_is_one_version_of_the_blob() {
    let chosen = seeds();
    let range = chosen.clone().unwrap_or(0..SEEDS);
    let next = Arc::new(AtomicU64::new(range.start));
    let house = Arc::new(House::new());
    let (say, news) = mpsc::channel();
    for _ in 0..WORKERS {
        let (say, next, house) = (say.clone(), Arc::clone(&next), Arc::clone(&house));
        let end = range.end;
        std::thread::spawn(move || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end || say.send(News::Begun(seed)).is_err() {
                    return;
                }
                let played = play(&house, seed);
                let _ = say.send(News::Ended(seed, played));
            }
        });
    }
    drop(say);
    let tally = Tally::of(&news, range.end - range.start);
    tally.assert_right();
    if chosen.is_none() {
        tally.assert_telling();
    }
}

/// The outcome of all seeds.
#[derive(Default)]
struct Tally {
    ended: u64,
    /// Successes and failures of each way.
    ways: BTreeMap<&'static str, (u64, u64)>,
    wrong: BTreeMap<u64, String>,
}

impl Tally {
    fn of(news: &mpsc::Receiver<News>, count: u64) -> Self {
        let mut tally = Self::default();
        let mut running = BTreeSet::new();
        while tally.ended < count {
            match news.recv_timeout(HANG) {
                Ok(News::Begun(seed)) => {
                    running.insert(seed);
                }
                Ok(News::Ended(seed, played)) => {
                    running.remove(&seed);
                    tally.add(seed, played);
                }
                Err(error) => panic!("these seeds do not end ({error}): {running:?}"),
            }
        }
        tally
    }

    fn add(&mut self, seed: u64, played: Played) {
        self.ended += 1;
        let way = self.ways.entry(played.way).or_default();
        if played.succeeded {
            way.0 += 1;
        } else {
            way.1 += 1;
        }
        if let Some(wrong) = played.wrong {
            self.wrong.insert(seed, wrong);
        }
    }

    fn assert_right(&self) {
        if self.wrong.is_empty() {
            return;
        }
        let shown: Vec<&str> = self.wrong.values().take(SHOWN_MAX).map(String::as_str).collect();
        let seeds: Vec<String> = self.wrong.keys().map(u64::to_string).collect();
        panic!(
            "{}\n{} of {} seeds went wrong: {}",
            shown.join("\n\n"),
            seeds.len(),
            self.ended,
            seeds.join(" ")
        );
    }

    /// A client that always fails is never wrong, so that alone proves little. More than a fifth of
    /// each way must succeed, and more than a fifth must fail.
    fn assert_telling(&self) {
        assert_eq!(self.ways.len(), 6, "{:?}", self.ways);
        for (way, (succeeded, failed)) in &self.ways {
            let share = (succeeded + failed) / 5;
            assert!(*succeeded > share && *failed > share, "{way}: {:?}", self.ways);
        }
    }
}
