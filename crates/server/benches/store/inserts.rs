//! 4 KiB blobs from several threads at once: hashed, committed, acknowledged.
//!
//! The store runs with its own threads: the committer gathers, the maintainer evicts and syncs. It
//! has been full before, so its packs are recycled. The bare program writes the same bytes over a file that was written before,
//! hashes them with the same function, and syncs where the level asks for it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_server::store::{
    Content, Key, Level, Op, RealDisk, Store, StoreError, StoreOptions, StoreResult,
};

use crate::bare::BareLog;
use crate::report::{Better, Report, Row};
use crate::timing::{Timed, timed};
use crate::{Effort, Outcome};

const BLOB_BYTES: usize = 4096;

/// Blobs of one turn. The store's reserve of free packs takes them without a wait for eviction.
const BLOBS: usize = 12_800;
/// For commits of one blob: the disk takes some ten thousand of them a second.
const BLOBS_ALONE: usize = 6400;

/// Packs of 32 MiB. Three of them are always free.
const STORE_BYTES: u64 = 2 << 30;
/// Blobs of one commit while the store is filled.
const FILL_BLOBS: usize = 1000;
/// The maintainer makes a round each 50 ms.
const RETRY_AFTER: Duration = Duration::from_millis(5);
const STORE_BYTES_SMALL: u64 = 64 << 20;

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
    let mut options = StoreOptions::new(store_bytes);
    (options.level, options.min_age) = (level, Duration::ZERO);
    let store = Store::open(Arc::new(RealDisk::open(folder.join("store"))?), options)?;
    let mut noise = Noise(0);
    fill(&store, store_bytes, &mut noise)?;
    let bare = BareLog::create(&folder.join("bare"), bare_bytes, level)?;
    for case in &CASES {
        let batch = if effort.is_full { case.batch } else { case.batch.min(10) };
        let case = &Case { batch, ..*case };
        let count = if effort.is_full { case.blobs } else { case.threads * batch };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..effort.turns {
            let blobs = noise.blobs(count);
            // Files of the store that wait for the disk would delay the bare program, too.
            sync_all(folder)?;
            ours.push(turn(case, &blobs, |hashed| Ok(commit(&store, &hashed)?))?);
            sync_all(folder)?;
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
    report.add(&Row {
        name: name.to_owned(),
        unit: "thousand blobs/s",
        better: Better::High,
        store: rates(ours),
        bare: rates(theirs),
        goal: None,
    });
    report.add(&Row {
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

/// Commits blobs. A caller that is refused because eviction is behind comes again, as a client does.
fn commit(store: &Store, blobs: &[(Digest, Bytes)]) -> StoreResult<()> {
    let op = |(digest, bytes): &(Digest, Bytes)| {
        let (key, content) = (Key::blob(digest), Content::Bytes(bytes.clone()));
        Op::Put { key, form: 0, size: digest.len, content }
    };
    loop {
        let results = store.commit_blocking(blobs.iter().map(op).collect());
        match results.into_iter().collect() {
            Err(StoreError::Full { .. }) => thread::sleep(RETRY_AFTER),
            outcome => return outcome,
        }
    }
}

/// Writes more than the store holds, so that every pack is a recycled one.
fn fill(store: &Store, store_bytes: u64, noise: &mut Noise) -> Outcome {
    let mut left = store_bytes / 8 * 9;
    while left > 0 {
        let blobs = noise.blobs(FILL_BLOBS).into_iter();
        let hashed = blobs.map(|bytes| (Digest::of(DigestFunction::Blake3, &bytes), bytes));
        commit(store, &hashed.collect::<Vec<_>>())?;
        left = left.saturating_sub((FILL_BLOBS * BLOB_BYTES) as u64);
    }
    Ok(())
}

/// Waits until the disk has everything of the file system.
fn sync_all(folder: &Path) -> Outcome {
    Ok(rustix::fs::syncfs(File::open(folder)?)?)
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
