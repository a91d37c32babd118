//! 4 KiB blobs from several threads at once: hashed, committed, acknowledged.
//!
//! The store has been full before, so its packs are recycled, and the background thread of the
//! product runs beside. The bare program writes the same bytes over a file that was written before,
//! hashes them with the same function, and syncs where the level asks for it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_server::store::{Content, Core, Key, Level, Op, StoreResult};

use crate::bare::BareLog;
use crate::population::{clock_ms, open, settle};
use crate::report::{Better, Report, Row};
use crate::timing::{Timed, timed};
use crate::{Effort, Outcome};

const BLOB_BYTES: usize = 4096;

/// Blobs of one turn. The store's reserve of free packs takes them without a wait for eviction.
const BLOBS: usize = 25_600;
/// For commits of one blob, of which the disk takes some ten thousand a second.
const BLOBS_ALONE: usize = 6400;

/// Packs of 64 MiB, of which three are always free.
const STORE_BYTES: u64 = 4 << 30;
const STORE_BYTES_SMALL: u64 = 64 << 20;

/// Between the steps of the background thread, as in the product.
const STEP: Duration = Duration::from_millis(500);

struct Case {
    threads: usize,
    /// Blobs that a thread commits at a time.
    batch: usize,
    blobs: usize,
}

const CASES: [Case; 3] = [
    Case { threads: 8, batch: 100, blobs: BLOBS },
    Case { threads: 8, batch: 1, blobs: BLOBS_ALONE },
    Case { threads: 64, batch: 1, blobs: BLOBS_ALONE },
];

pub(crate) fn run(effort: &Effort, report: &mut Report) -> Outcome {
    for level in [Level::Power, Level::Process] {
        let folder = tempfile::tempdir_in(&effort.folder)?;
        run_level(effort, level, folder.path(), report)?;
    }
    Ok(())
}

fn run_level(effort: &Effort, level: Level, folder: &Path, report: &mut Report) -> Outcome {
    let (store_bytes, bare_bytes) =
        if effort.is_full { (STORE_BYTES, 256 << 20) } else { (STORE_BYTES_SMALL, 4 << 20) };
    let core = open(&folder.join("store"), store_bytes, level)?;
    let mut noise = Noise(0);
    fill(&core, store_bytes, &mut noise)?;
    let bare = BareLog::create(&folder.join("bare"), bare_bytes, level)?;
    for case in &CASES {
        let count = if effort.is_full { case.blobs } else { case.threads * case.batch };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..effort.turns {
            let blobs = noise.blobs(count);
            settle(&core)?;
            ours.push(beside_maintenance(&core, || {
                turn(case, &blobs, |hashed| Ok(commit(&core, hashed)?))
            })?);
            theirs.push(turn(case, &blobs, |hashed| {
                bare.write(hashed.into_iter().map(|(_, bytes)| bytes).collect())
            })?);
        }
        let name = format!("{level:?}, {} x {}", case.threads, case.batch).to_lowercase();
        add_rows(&name, count, &ours, &theirs, report);
    }
    Ok(())
}

fn add_rows(name: &str, count: usize, ours: &[Timed], theirs: &[Timed], report: &mut Report) {
    let rates = |times: &[Timed]| times.iter().map(|time| time.thousands_per_s(count)).collect();
    let costs = |times: &[Timed]| times.iter().map(|time| time.cpu_us(count)).collect();
    report.add(Row {
        name: name.to_owned(),
        unit: "thousand blobs/s",
        better: Better::High,
        store: rates(ours),
        bare: rates(theirs),
        goal: None,
    });
    report.add(Row {
        name: format!("{name}, CPU"),
        unit: "µs a blob",
        better: Better::Low,
        store: costs(ours),
        bare: costs(theirs),
        goal: None,
    });
}

/// Times one turn: each thread hashes and commits its part of the blobs, batch by batch.
fn turn(
    case: &Case,
    blobs: &[Bytes],
    commit: impl Fn(Vec<(Digest, Bytes)>) -> Outcome + Sync,
) -> Outcome<Timed> {
    let part = blobs.len() / case.threads;
    timed(case.threads, |thread| {
        for batch in blobs[thread * part..(thread + 1) * part].chunks(case.batch) {
            let hash = |bytes: &Bytes| (Digest::of(DigestFunction::Sha256, bytes), bytes.clone());
            commit(batch.iter().map(hash).collect())?;
        }
        Ok(())
    })
}

fn commit(core: &Core, blobs: Vec<(Digest, Bytes)>) -> StoreResult<()> {
    let op = |(digest, bytes): (Digest, Bytes)| {
        let (key, content) = (Key::blob(&digest), Content::Bytes(bytes));
        Op::Put { key, form: 0, size: digest.len, content }
    };
    core.commit(blobs.into_iter().map(op).collect()).into_iter().collect()
}

/// Writes more than the store holds, so that every pack is a recycled one.
fn fill(core: &Core, store_bytes: u64, noise: &mut Noise) -> Outcome {
    let mut left = store_bytes / 4 * 5;
    let share = usize::try_from(store_bytes / 64)? / BLOB_BYTES;
    while left > 0 {
        let blobs = noise.blobs(share).into_iter();
        let hashed = blobs.map(|bytes| (Digest::of(DigestFunction::Blake3, &bytes), bytes));
        commit(core, hashed.collect())?;
        settle(core)?;
        left = left.saturating_sub((share * BLOB_BYTES) as u64);
    }
    Ok(())
}

/// Runs `work` while a thread does what the product does in the background.
fn beside_maintenance<T>(core: &Core, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let maintenance = scope.spawn(|| -> StoreResult<()> {
            while !is_done.load(Ordering::Acquire) {
                thread::park_timeout(STEP);
                core.tick(clock_ms());
                core.sync()?;
                core.maintain()?;
            }
            Ok(())
        });
        let outcome = work();
        is_done.store(true, Ordering::Release);
        maintenance.thread().unpark();
        maintenance.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        outcome
    })
}

/// Blobs that all differ.
struct Noise(u64);

impl Noise {
    fn blobs(&mut self, count: usize) -> Vec<Bytes> {
        let mut random = fastrand::Rng::with_seed(self.0);
        self.0 += 1;
        let blob = |_| {
            let mut bytes = vec![0; BLOB_BYTES];
            random.fill(&mut bytes);
            Bytes::from(bytes)
        };
        (0..count).map(blob).collect()
    }
}
