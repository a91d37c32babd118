//! Checkpoints: the index on disk, and where the log goes on.
//!
//! | file | idea |
//! |---|---|
//! | `master` | the one file that says what counts; replaced as a whole |
//! | `snapshots` | runs of entries in segment files; each checkpoint writes only what changed |
//!
//! A checkpoint writes one segment with the changed entries of each shard, syncs it, and renames a
//! new master over the old one. The master lists the runs of each shard. A shard whose runs have
//! grown far beyond its entries is written as a whole.

mod master;
mod snapshots;

pub(crate) use master::{MASTER_FOLDER, Master, Run, read_master, write_master};
pub(crate) use snapshots::{
    DamagedShards, SegmentWriter, Snapshots, remove_segment, remove_unused,
};
