//! `kill -9` at 500 seeded instants under mixed load: every acknowledged value is readable and
//! bit-exact, and no purged value comes back.
//!
//! The test starts itself again as the process with the store, reads its acknowledgements from a
//! pipe, and kills it after a seeded number of them. Then it opens the store and compares.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![expect(clippy::print_stdout, reason = "it says what was checked")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use tidegate_server::store::{
    Content, Core, Key, Level, Op, RealDisk, Space, Store, StoreOptions, ValueContent,
};

const KILLS: u64 = 500;
/// Acknowledgements before a kill, at most.
const ACKS_MAX: usize = 150;
const WRITERS: u64 = 3;
/// A writer purges what it put this many values before, now and then.
const PURGE_BACK: u64 = 7 * WRITERS;
const FOLDER: &str = "TIDEGATE_KILL_FOLDER";
const START: &str = "TIDEGATE_KILL_START";
const POWER: &str = "TIDEGATE_KILL_POWER";

fn options(is_power: bool) -> StoreOptions {
    let mut options = StoreOptions::new(8 << 30);
    options.level = if is_power { Level::Power } else { Level::Process };
    options.pack_bytes = Some(1 << 20);
    options
}

fn key(number: u64) -> Key {
    Key::new(Space::Value, &number.to_le_bytes()).unwrap()
}

fn content(number: u64) -> Bytes {
    let mut random = Rng::with_seed(number);
    let len = match random.u8(..) {
        0..240 => random.usize(1..6000),
        _ => random.usize(65_537..200_000),
    };
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes.into()
}

fn is_purged(number: u64) -> bool {
    number.is_multiple_of(11)
}

/// The process with the store. It does nothing when the test runner calls it.
#[test]
fn store_process() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let start: u64 = std::env::var(START).unwrap().parse().unwrap();
    let disk = RealDisk::open(folder).unwrap();
    let store = Store::open(Arc::new(disk), options(std::env::var(POWER).is_ok())).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || {
                // A writer purges only what it put itself: so the purge follows the put.
                for turn in 0.. {
                    let number = start + turn * WRITERS + writer;
                    write(store, number);
                    if number.is_multiple_of(101) {
                        store.core().checkpoint().unwrap();
                    }
                    if number.is_multiple_of(13) {
                        let _ = store.core().get(&key(number / 2)).unwrap();
                    }
                }
            });
        }
    });
}

fn write(store: &Store, number: u64) {
    let bytes = content(number);
    let size = bytes.len() as u64;
    let content = if bytes.len() > store.core().options().inline_bytes_max {
        let mut staged = store.core().stage(None).unwrap();
        staged.write(&bytes).unwrap();
        Content::File(staged)
    } else {
        Content::Bytes(bytes)
    };
    commit(store, Op::Put { key: key(number), form: 1, size, content });
    say("put", number);
    let earlier = number.saturating_sub(PURGE_BACK);
    if is_purged(earlier) {
        commit(store, Op::Purge { key: key(earlier) });
        say("purge", earlier);
    }
}

fn commit(store: &Store, op: Op) {
    store.commit_blocking(vec![op]).pop().unwrap().unwrap();
}

/// One write for each line, so that a kill leaves whole lines.
fn say(what: &str, number: u64) {
    let line = format!("@{what} {number}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

fn spawn(folder: &Path, start: u64, is_power: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "store_process", "--nocapture"]);
    command.env(FOLDER, folder).env(START, start.to_string());
    if is_power {
        command.env(POWER, "1");
    }
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The numbers that were put and purged before the kill, as far as they were acknowledged.
fn run_and_kill(folder: &Path, start: u64, is_power: bool, acks: usize) -> (Vec<u64>, Vec<u64>) {
    let mut child = spawn(folder, start, is_power);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (mut put, mut purged) = (Vec::new(), Vec::new());
    let mut seen = 0;
    let mut is_killed = false;
    while let Some(Ok(line)) = lines.next() {
        let number = |text: &str| text.parse::<u64>().unwrap();
        match line.split_once(' ') {
            Some(("@put", text)) => put.push(number(text)),
            Some(("@purge", text)) => purged.push(number(text)),
            _ => panic!("the store's process says: {line}"),
        }
        seen += 1;
        if seen >= acks && !is_killed {
            child.kill().unwrap();
            is_killed = true;
        }
    }
    child.wait().unwrap();
    (put, purged)
}

fn check(core: &Core, number: u64, is_purged_for_sure: bool) {
    let Some(value) = core.get(&key(number)).unwrap() else {
        // A purge can have happened without its acknowledgement.
        assert!(is_purged(number), "value {number} was acknowledged and is gone");
        return;
    };
    assert!(!is_purged_for_sure, "value {number} was purged and is back");
    let bytes = match value.content {
        ValueContent::Bytes(bytes) => bytes,
        ValueContent::File(file) => file.read(0, 1 << 20).unwrap(),
    };
    assert!(bytes == content(number), "value {number} has other bytes");
}

#[test]
fn what_was_acknowledged_survives_kills() {
    let kills = std::env::var("TIDEGATE_STORE_KILLS").ok().and_then(|kills| kills.parse().ok());
    let folder = tempfile::tempdir().unwrap();
    let mut random = Rng::with_seed(11);
    let (mut put, mut purged): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
    let mut start = PURGE_BACK;
    let mut slowest = Duration::ZERO;
    for round in 0..kills.unwrap_or(KILLS) {
        let is_power = random.u8(..) < 64;
        let acks = random.usize(0..ACKS_MAX);
        let (now, now_purged) = run_and_kill(folder.path(), start, is_power, acks);
        let opening = Instant::now();
        let disk = RealDisk::open(folder.path()).unwrap();
        let core = Core::open(Arc::new(disk), options(is_power), 1).unwrap();
        for number in now.iter().chain(now.first().and_then(|_| put.last())) {
            check(&core, *number, now_purged.contains(number));
        }
        slowest = slowest.max(opening.elapsed());
        for _ in 0..20.min(put.len()) {
            let number = put[random.usize(0..put.len())];
            check(&core, number, purged.binary_search(&number).is_ok());
        }
        start = now.iter().max().map_or(start, |last| last + 2 * WRITERS + 1);
        put.extend(now);
        purged.extend(now_purged);
        purged.sort_unstable();
        drop(core);
        if round % 100 == 99 {
            println!("{round}: {} values, slowest start and check {slowest:?}", put.len());
        }
    }
    let disk = RealDisk::open(folder.path()).unwrap();
    let core = Core::open(Arc::new(disk), options(false), 1).unwrap();
    for number in &put {
        check(&core, *number, purged.binary_search(number).is_ok());
    }
    println!("{} values, {} purged, slowest {slowest:?}", put.len(), purged.len());
    assert!(put.len() > 1000, "only {} values were put", put.len());
}
