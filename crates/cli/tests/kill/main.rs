//! `kill -9` of `tidegate serve` at seeded instants, under load by gRPC and HTTP: every acknowledged
//! blob, action result and value is there after the restart, and nothing has other bytes.
//!
//! | file | idea |
//! |---|---|
//! | `life` | one process of the server, from its start to its kill |
//! | `ledger` | what was sent, and what of it was acknowledged |
//! | `client` | the calls, by both protocols |
//! | `load` | writers whose steps follow from a seed |
//! | `check` | the server's content compared with the ledger |
//!
//! The instant of a kill is a count of events: messages that were sent, and answers that arrived. So
//! it lies within a write as often as between two. Some processes are killed while they start.
//!
//! `TIDEGATE_SERVE_KILLS` sets the number of kills, `TIDEGATE_SERVE_KILL_SEED` the seed, which is
//! printed.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![expect(clippy::print_stdout, reason = "it says what was checked, and the seed")]

mod check;
mod client;
mod ledger;
mod life;
mod load;

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use self::ledger::Ledger;
use self::life::Life;

const KILLS: u64 = 100;
const SEED: u64 = 16;
const WRITERS: u64 = 4;
/// Events before a kill, at most. A debug build needs some 100 ms for them.
const EVENTS_MAX: usize = 160;
/// A start of a debug build takes some 20 ms.
const START_INSTANT_MAX_MICROS: u64 = 30_000;
/// Entries of earlier lives that each start is checked for.
const SAMPLE: usize = 20;
/// No life should take longer. One that does is stuck.
const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kills_of_the_server() {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    let kills = number("TIDEGATE_SERVE_KILLS").unwrap_or(KILLS);
    let seed = number("TIDEGATE_SERVE_KILL_SEED").unwrap_or(SEED);
    println!("seed {seed}, {kills} kills");
    let folder = tempfile::tempdir().unwrap();
    let mut random = Rng::with_seed(seed);
    let mut ledgers: Vec<Ledger> = (0..WRITERS).map(|_| Ledger::default()).collect();
    let mut in_flight = 0;
    for kill in 0..kills {
        let level = if random.u8(..) < 64 { "power" } else { "process" };
        if random.u8(..) < 32 {
            Life::end_while_it_starts(folder.path(), level, random.u64(..START_INSTANT_MAX_MICROS));
        }
        let life = Arc::new(Life::start(folder.path(), level, random.usize(1..EVENTS_MAX)).await);
        for ledger in &mut ledgers {
            in_flight += check::recent(&life, ledger, &mut random, SAMPLE).await;
        }
        let writers = ledgers.drain(..).map(|ledger| {
            let writer = load::write_until_killed(Arc::clone(&life), ledger, random.fork());
            tokio::spawn(tokio::time::timeout(PATIENCE, writer))
        });
        for writer in writers.collect::<Vec<_>>() {
            ledgers.push(writer.await.unwrap().expect("a writer hangs"));
        }
        life.wait().await;
        if kill % 20 == 19 {
            let count: usize = ledgers.iter().map(Ledger::len).sum();
            println!("{} kills, {count} names", kill + 1);
        }
    }
    let life = Life::start(folder.path(), "process", usize::MAX).await;
    let mut acknowledged = 0;
    for ledger in &mut ledgers {
        in_flight += check::recent(&life, ledger, &mut random, 0).await;
        acknowledged += check::all(&life, ledger).await;
    }
    life.kill();
    life.wait().await;
    println!("{acknowledged} acknowledged entries, {in_flight} were in flight at a kill");
    assert!(acknowledged > 10 * kills, "only {acknowledged} entries were acknowledged");
    assert!(in_flight > kills, "only {in_flight} entries were in flight");
}
