//! Look-ups of batches of 1,000 digests, as for `FindMissingBlobs`.
//!
//! The bare program makes the same fingerprints and looks them up in a `HashMap` that no thread
//! changes. It notes no last use.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;

use tidegate_core::digest::Digest;
use tidegate_server::store::{Fingerprint, Level, Owner};

use crate::population::{clock_ms, digest, open, put_tiny, settle};
use crate::report::{Better, Goal, Report, Row};
use crate::timing::{as_f64, timed};
use crate::{Effort, Outcome};

const BATCH: usize = 1000;
const ENTRIES: u64 = 1_000_000;
const ENTRIES_SMALL: u64 = 2000;
/// Batches of one thread in one turn.
const BATCHES: usize = 500;

/// 1.5 times what the best peer serves, on the part of two cores that look-ups may take.
const KEYS_PER_S_MIN: f64 = 2.5;

pub(crate) fn run(effort: &Effort, report: &mut Report) -> Outcome {
    let (entries, batches) = if effort.is_full { (ENTRIES, BATCHES) } else { (ENTRIES_SMALL, 1) };
    let folder = tempfile::tempdir_in(&effort.folder)?;
    let core = open(folder.path(), 16 << 30, Level::Process)?;
    put_tiny(&core, 0..entries)?;
    settle(&core)?;
    let mut map: HashMap<Fingerprint, u64, BuildHasherDefault<Spread>> = HashMap::default();
    map.extend(
        (0..entries)
            .map(|number| (Fingerprint::of_blob(&SALT, Owner::SHARED, &digest(number)), number)),
    );
    for (threads, first, name) in
        [(1, 0, "all there"), (2, 0, "all there"), (2, entries, "none there")]
    {
        let keys = Keys { first, count: entries };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for turn in 0..effort.turns {
            core.tick(clock_ms());
            let batches_of: Vec<Vec<Vec<Digest>>> =
                (0..threads).map(|thread| keys.batches(turn * threads + thread, batches)).collect();
            let look = |look_up: &(dyn Fn(&[Digest]) -> usize + Sync)| -> Outcome<f64> {
                let time = timed(threads, |thread| {
                    let found: usize = batches_of[thread].iter().map(|batch| look_up(batch)).sum();
                    let expected = if first == 0 { batches * BATCH } else { 0 };
                    if found == expected { Ok(()) } else { Err("a look-up is wrong".into()) }
                })?;
                Ok(time.thousands_per_s(threads * batches * BATCH) / as_f64(1000))
            };
            ours.push(look(&|batch| {
                core.contains_blobs(batch).into_iter().filter(|is_there| *is_there).count()
            })?);
            theirs.push(look(&|batch| {
                let fingerprint = |digest| Fingerprint::of_blob(&SALT, Owner::SHARED, digest);
                batch
                    .iter()
                    .filter(|digest| black_box(map.get(&fingerprint(digest))).is_some())
                    .count()
            })?);
        }
        report.add(&Row {
            name: format!("{entries} entries, {name}, {threads} threads"),
            unit: "million keys/s",
            better: Better::High,
            store: ours,
            bare: theirs,
            goal: (threads == 2).then_some(Goal::AtLeast(KEYS_PER_S_MIN)),
        });
    }
    Ok(())
}

/// What keys the bare program's hash.
const SALT: [u8; 32] = [7; 32];

struct Keys {
    first: u64,
    count: u64,
}

impl Keys {
    fn batches(&self, seed: usize, count: usize) -> Vec<Vec<Digest>> {
        let mut random = fastrand::Rng::with_seed(seed as u64);
        let mut key = || digest(self.first + random.u64(..self.count));
        (0..count).map(|_| (0..BATCH).map(|_| key()).collect()).collect()
    }
}

/// A fingerprint is a hash, so its words need no further hashing.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u16(&mut self, _: u16) {}

    fn write_u64(&mut self, word: u64) {
        self.0 ^= word;
    }
}
