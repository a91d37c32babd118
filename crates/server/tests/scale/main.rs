//! A store with many entries: start-up, look-ups, memory. It prints what it measures. The small size
//! is a test of the path; `TIDEGATE_STORE_ENTRIES` sets another one.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![expect(clippy::print_stdout, reason = "it prints what it measures")]
#![expect(clippy::cast_precision_loss, reason = "rates are shown with two digits")]

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_server::store::{Content, Core, Key, Op, RealDisk, StoreOptions};

const ENTRIES: u64 = 20_000;
const GROUP: u64 = 1000;
/// Digests of one question.
const QUESTION: usize = 1000;

fn digest(number: u64) -> Digest {
    let mut hash = [0; 32];
    fastrand::Rng::with_seed(number).fill(&mut hash);
    Digest { function: DigestFunction::Sha256, hash, len: 100 }
}

/// The resident memory of this process in MiB.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn open(folder: &std::path::Path) -> Core {
    let disk = RealDisk::open(folder).unwrap();
    Core::open(Arc::new(disk), StoreOptions::new(200 << 30), 1).unwrap()
}

fn fill(core: &Core, numbers: std::ops::Range<u64>) {
    let mut start = numbers.start;
    while start < numbers.end {
        let op = |number| {
            let content = Content::Bytes(Bytes::from(vec![7; 100]));
            Op::Put { key: Key::blob(&digest(number)), form: 0, size: 100, content }
        };
        let ops = (start..numbers.end.min(start + GROUP)).map(op).collect();
        assert!(core.commit(ops).iter().all(Result::is_ok));
        start += GROUP;
        // As the maintainer does.
        core.maintain().unwrap();
    }
}

/// The fraction of digests that are there, and keys looked up per second and thread.
fn look_up(core: &Core, entries: u64, questions: u64) -> f64 {
    let asked: Vec<Vec<Digest>> = (0..questions)
        .map(|question| {
            let mut random = fastrand::Rng::with_seed(question);
            std::iter::repeat_with(|| digest(random.u64(0..entries))).take(QUESTION).collect()
        })
        .collect();
    let started = Instant::now();
    for digests in &asked {
        assert!(core.contains_blobs(digests).into_iter().all(|is_there| is_there));
    }
    (questions * QUESTION as u64) as f64 / started.elapsed().as_secs_f64() / 1e6
}

#[test]
fn many_entries() {
    let entries = std::env::var("TIDEGATE_STORE_ENTRIES").ok();
    let entries = entries.and_then(|entries| entries.parse().ok()).unwrap_or(ENTRIES);
    let folder = tempfile::tempdir_in(
        std::env::var("TIDEGATE_STORE_FOLDER").unwrap_or_else(|_| "/tmp".into()),
    )
    .unwrap();
    let before = resident_mib();
    let core = open(folder.path());
    let started = Instant::now();
    fill(&core, 0..entries);
    println!(
        "filled in {:?}, resident {} MiB (before {before})",
        started.elapsed(),
        resident_mib()
    );
    let counts = core.counts();
    println!("{counts:?}");
    // The core is dropped as by a kill: without a checkpoint.
    drop(core);
    for attempt in 0..2 {
        let started = Instant::now();
        let core = open(folder.path());
        let opened = started.elapsed();
        look_up(&core, entries, 1);
        println!("open {opened:?}, with the first question {:?}", started.elapsed());
        while core.maintain().unwrap() {}
        println!("all loaded after {:?}, resident {} MiB", started.elapsed(), resident_mib());
        let one = look_up(&core, entries, 50);
        let both: f64 = std::thread::scope(|scope| {
            let ask = || scope.spawn(|| look_up(&core, entries, 50));
            let threads = [ask(), ask()];
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        println!("look-ups: {one:.2} M keys/s on one thread, {both:.2} on two");
        if attempt == 0 {
            core.checkpoint().unwrap();
        }
    }
}
