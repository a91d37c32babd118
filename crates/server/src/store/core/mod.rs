//! [`Core`]: the store as synchronous steps. It has no thread and no clock of its own.
//!
//! | file | idea |
//! |---|---|
//! | `open` | a new store, or recovery |
//! | `read` | look-ups and values |
//! | `by_hash` | keys of blobs whose length is unknown |
//! | `scrub` | values as the scrub reads them |
//! | `pin` | values that stay for some minutes |
//! | `commit` | one group of operations |
//! | `append` | records into the log, and the log's next pack |
//! | `sync` | background sync, and what follows a failed one |
//! | `checkpoint` | the index on disk |
//! | `evict` | entries by age |
//! | `survey` | what is stored, by size, age and kind |
//! | `sweep` | files that no entry names, after damage |
//! | `clean` | moving live records out of a pack |
//! | `maintain` | the background steps in the right order |
//!
//! Any number of threads may read. One thread commits, one thread maintains. The log's lock orders
//! what both append.

mod append;
mod by_hash;
mod checkpoint;
mod clean;
mod commit;
mod evict;
mod maintain;
mod open;
mod pin;
mod read;
mod room;
mod scrub;
mod survey;
mod sweep;
mod sync;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::checkpoint::Checkpoints;
use super::activity::{Activity, ActivityCounts};
use super::checkpoint::DamagedShards;
use super::disk::Disk;
use super::files::{Files, ReadBuffers};
use super::index::Index;
use super::key::{Fingerprint, Key};
use super::log::Log;
use super::losses::{Loss, Losses};
use super::options::StoreOptions;
use super::pack::{PackState, PackTable};
use super::pins::Pins;
use super::space::Space;

pub use commit::{Content, Op};
pub use read::{Value, ValueContent};
pub(crate) use scrub::{NamedRecord, Scrubbed};
pub use survey::{AGE_BOUNDS_SECONDS, ValueSum};
pub(crate) use survey::{IndexSurvey, SurveyedValue};

/// Ticks of one second.
const TICKS_PER_SECOND: u64 = 8;

/// The store as synchronous steps.
#[derive(Debug)]
pub struct Core {
    disk: Arc<dyn Disk>,
    options: StoreOptions,
    salt: [u8; 32],
    pack_bytes: u64,
    space: Arc<Space>,
    packs: Arc<PackTable>,
    index: Index,
    files: Arc<Files>,
    log: Mutex<Log>,
    checkpoints: Mutex<Checkpoints>,
    clock: Mutex<StoreClock>,
    pins: Mutex<Pins>,
    now: AtomicU32,
    /// The next shard to load in the background.
    next_load: AtomicU32,
    /// A sequence up to which files became durable, to be written to the log; or 0.
    synced_seq: AtomicU64,
    /// Files that a loss of power took, to be written to the log before anything else.
    lost: Mutex<Vec<u64>>,
    damaged: Arc<DamagedShards>,
    /// Whether a damaged record may have left a file that no entry names.
    orphans: AtomicBool,
    /// What the disk took beyond what callers gave, for the published amplification.
    written: WrittenBytes,
    activity: Activity,
    losses: Losses,
    read_buffers: ReadBuffers,
}

/// Bytes written since the store opened.
#[derive(Debug, Default)]
pub(crate) struct WrittenBytes {
    pub(crate) values: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
}

/// Counters of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreCounts {
    /// Bytes on the disk.
    pub used_bytes: u64,
    /// Bytes of values that callers gave since the store opened, with their records' headers.
    pub value_bytes_written: u64,
    /// Bytes that the cleaning of packs wrote again.
    pub moved_bytes_written: u64,
    /// Bytes of checkpoints.
    pub checkpoint_bytes_written: u64,
    /// Values, of those that the index has loaded.
    pub values: u64,
    /// Whether the index has loaded all values.
    pub is_loaded: bool,
    /// Packs with values.
    pub packs_used: u64,
    /// Packs that are kept for new values.
    pub packs_free: u64,
    /// Whether a snapshot was damaged. Its values are missing; the sweep removes their files.
    pub has_damaged_snapshot: bool,
}

/// The store's own time. It never goes back, and jumps of the clock move it by little.
#[derive(Debug)]
struct StoreClock {
    clock_ms: u64,
    /// Milliseconds of the store's time.
    elapsed_ms: u64,
}

/// The most that one step of the clock counts. A machine that slept for a night aged by an hour.
const STEP_MS_MAX: u64 = 3_600_000;

impl StoreClock {
    fn step(&mut self, clock_ms: u64) -> u32 {
        let passed = clock_ms.saturating_sub(self.clock_ms).min(STEP_MS_MAX);
        self.clock_ms = clock_ms;
        self.elapsed_ms += passed;
        self.ticks()
    }

    fn ticks(&self) -> u32 {
        u32::try_from(self.elapsed_ms * TICKS_PER_SECOND / 1000).unwrap_or(u32::MAX)
    }
}

impl Core {
    /// Passes the time, in milliseconds of the clock. The store's time follows it without jumps.
    pub fn tick(&self, clock_ms: u64) {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        self.now.store(clock.step(clock_ms), Ordering::Relaxed);
    }

    /// The store's time.
    pub(crate) fn now(&self) -> u32 {
        self.now.load(Ordering::Relaxed)
    }

    /// Bytes on the disk.
    pub fn used_bytes(&self) -> u64 {
        self.space.used()
    }

    /// Counters.
    pub fn counts(&self) -> StoreCounts {
        let packs = self.packs.all();
        let packs = |state| packs.iter().filter(|(_, pack)| pack.state == state).count() as u64;
        StoreCounts {
            used_bytes: self.used_bytes(),
            value_bytes_written: self.written.values.load(Ordering::Relaxed),
            moved_bytes_written: self.written.moved.load(Ordering::Relaxed),
            checkpoint_bytes_written: self.written.checkpoints.load(Ordering::Relaxed),
            values: self.index.loaded_values(),
            is_loaded: self.index.is_loaded(),
            packs_used: packs(PackState::Used),
            packs_free: packs(PackState::Free),
            has_damaged_snapshot: self.damaged_shards() > 0,
        }
    }

    /// What the store counted of its own work since it opened.
    pub fn activity(&self) -> ActivityCounts {
        self.activity.counts()
    }

    /// Remembers that an action result lacks a blob, and goes.
    pub(crate) fn note_incomplete(&self, key: &Key) {
        self.losses.add(&self.fingerprint(key), Loss::Incomplete);
    }

    /// Why a value was dropped, once.
    pub(crate) fn take_loss(&self, key: impl Fn() -> Option<Key>) -> Option<Loss> {
        let fingerprint = || key().map_or(Fingerprint::NONE, |key| self.fingerprint(&key));
        self.losses.take(fingerprint)
    }

    /// Shards of the index whose snapshot was damaged, of those that were loaded.
    pub(crate) fn damaged_shards(&self) -> usize {
        self.damaged.all().len()
    }

    /// The length of a pack.
    pub(crate) const fn pack_bytes(&self) -> u64 {
        self.pack_bytes
    }

    /// The options.
    pub const fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// The fingerprint of a key in this store.
    pub fn fingerprint(&self, key: &Key) -> Fingerprint {
        Fingerprint::of(&self.salt, key)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
