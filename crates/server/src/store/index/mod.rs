//! The index: one sharded table in memory, 32 bytes an entry.
//!
//! | file | idea |
//! |---|---|
//! | `entry` | an entry as four words |
//! | `shard` | one table: open addressing, linear probing, deletion without tombstones |
//! | `sharded` | all shards, each with a lock; loaded from snapshots when first used |
//!
//! Entries are hints. A read compares the record's key and CRC, so a wrong entry is a miss.

mod entry;
mod shard;
mod sharded;

pub(crate) use entry::{Entry, Location};
pub(crate) use shard::{Change, Shard};
pub(crate) use sharded::{Index, Loader};
