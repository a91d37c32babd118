//! The store of the cache server: an own log that loses nothing and scans nothing.
//!
//! Small values are records of an append-only log in recycled packs. Each larger value is a file
//! under an internal number, and a record of the log names it. One index in memory finds a record
//! by its key. A record is the only commit point: the data precede it, the answer follows it.
//!
//! | folder or file | idea |
//! |---|---|
//! | `disk` | the calls that the store makes of a disk; a real one, and a simulated one for tests |
//! | `pack` | the format of a record; the pack files and their generations |
//! | `log` | group commit: gather, write, sync, index, answer |
//! | `index` | the sharded table in memory, 32 bytes an entry |
//! | `files` | one file for each large value |
//! | `checkpoint` | the index on disk: only what changed, and the position of the log |
//! | `recovery` | from a checkpoint and the rest of the log to an index |
//! | `space` | the limit in bytes: eviction by age, cleaning of packs, one remover |
//! | `core` | the store as synchronous steps; no thread and no clock of its own |
//! | `threads` | the core with its two threads, and a bounded queue for callers |
//! | `activity`, `losses` | what the store counts of its own work, and what it had to drop |
//! | `key`, `options`, `error` | what callers name, choose and get |
//!
//! # The internal interface of the core
//!
//! ```text
//! Core::open(disk, options, clock_ms) -> Core          no scan; Core::tick(clock_ms) passes the time
//! core.contains(&Key), core.contains_blobs(&[Digest])  touches what it finds
//! core.get(&Key) -> Result<Option<Value>>              the record's key is compared, CRCs are checked
//! core.stage(Option<Digest>) -> StagedFile             a file under a number that nothing names yet
//! core.commit(Vec<Op>) -> Vec<Result<()>>              one group: Op::Put { key, form, size, content }, Op::Purge
//! core.sync(), core.maintain(), core.checkpoint()      background steps
//! ```
//!
//! `Store::open(disk, options)` runs a core with its threads; `store.commit(ops).await` hands a group
//! over, and `store.core()` is for look-ups and reads.
//!
//! A `Key` is a space (blobs, action results, opaque values) and bytes. A value has a `form`,
//! which the core stores and does not interpret: plain, zstd, a manifest. Whether a value is a
//! record or a file is the core's own decision.
//!
//! # On top of the core
//!
//! | folder | idea |
//! |---|---|
//! | `blobs` | blobs whole, compressed, as chunks, and as slices of another blob |
//! | `manifests` | blobs as chunks: splice and split |
//! | `actions` | action results: complete, or a miss |
//! | `local` | [`LocalStore`]: the engine's traits, and the background thread |
//! | `scrub` | finds rot, in the background and off-line |
//! | [`closure`] | the blobs that an action result needs, found in the result and its trees |
//! | `pins` | last uses in the future, for values that a client is about to read |

mod activity;
mod checkpoint;
mod core;
mod disk;
mod error;
mod files;
mod index;
mod key;
mod log;
mod losses;
mod options;
mod pack;
mod recovery;
pub(crate) mod space;
mod threads;

pub use self::activity::{
    ActivityCounts, COMMIT_OPERATIONS_BOUNDS, EVICTION_AGE_BOUNDS_SECONDS, HistogramCounts,
};
pub use self::core::{
    AGE_BOUNDS_SECONDS, Content, Core, Op, StoreCounts, Value, ValueContent, ValueSum,
};
pub use self::disk::{Disk, DiskFile, Faults, OpenMode, RealDisk, SimulatedDisk};
pub use self::error::{StoreError, StoreResult};
pub use self::files::{StagedFile, StoredFile};
pub use self::key::{Fingerprint, KEY_BYTES_MAX, Key, Owner, Space};
pub use self::losses::Loss;
pub use self::options::{Level, StoreOptions};
pub use self::threads::Store;

mod actions;
mod blobs;
pub mod closure;
mod local;
mod manifests;
mod pins;
mod purge;
mod scrub;

pub use actions::{ActionName, ActionPut, CachedPut};
pub use blobs::BlobHash;
pub(crate) use blobs::{BatchEntry, StagedReader};
pub(crate) use local::{BlobWriter, ReadEntry, UnnamedWriter};
pub use local::{HashWriter, LargeValue, LocalStore, StoreSurvey, StoredKind, ValueWriter};
pub use purge::{PurgeFilter, PurgeReport, PurgedValue};
pub use scrub::{ScrubCounts, StoreCheck, StoreCheckReport};
