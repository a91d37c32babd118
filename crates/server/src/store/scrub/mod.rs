//! The scrub: reads every value and compares its checksums, to find rot before a client does.
//!
//! | file | idea |
//! |---|---|
//! | `check` | [`StoreCheck`]: the whole store once, while it is not in use |
//!
//! A step reads a bounded number of bytes, and continues where the last one stopped, also within a
//! file. So the background can scrub slowly, and a check as fast as the disk.

mod check;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

pub use self::check::{StoreCheck, StoreCheckReport};

use super::core::{Core, Scrubbed};
use super::error::{StoreError, StoreResult};
use super::files::StoredFile;
use super::index::Entry;
use super::key::Fingerprint;

/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;

/// The least that an entry counts, so that a step of small records ends, too.
const ENTRY_BYTES_MIN: u64 = 512;

/// What a scrub has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubCounts {
    /// Values that were read.
    pub values: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Values that are damaged.
    pub damaged: u64,
    /// Damaged parts of the index. Their values are missing, and their number is unknown.
    pub damaged_shards: u64,
}

/// What the scrub does with damaged values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    /// They are dropped: a miss, so that a client puts them again.
    Drop,
    /// They are counted.
    Nothing,
}

/// Reads all values of a store, in steps.
#[derive(Debug)]
pub(crate) struct Scrubber {
    core: Arc<Core>,
    repair: Repair,
    next_shard: u16,
    entries: VecDeque<(Fingerprint, Entry)>,
    file: Option<OpenFile>,
    counts: ScrubCounts,
}

/// A file that is being read.
#[derive(Debug)]
struct OpenFile {
    fingerprint: Fingerprint,
    entry: Entry,
    file: StoredFile,
    offset: u64,
}

impl Scrubber {
    pub(crate) fn new(core: &Arc<Core>, repair: Repair) -> Self {
        Self {
            core: Arc::clone(core),
            repair,
            next_shard: 0,
            entries: VecDeque::new(),
            file: None,
            counts: ScrubCounts::default(),
        }
    }

    /// The sums since the start.
    pub(crate) fn counts(&self) -> ScrubCounts {
        ScrubCounts { damaged_shards: self.core.damaged_shards() as u64, ..self.counts }
    }

    /// Reads about `bytes_max` bytes. Returns whether all values were read.
    pub(crate) fn step(&mut self, bytes_max: u64) -> StoreResult<bool> {
        let mut read = 0;
        while read < bytes_max {
            if let Some(open) = self.file.take() {
                read += self.read(open)?;
                continue;
            }
            let Some((fingerprint, entry)) = self.entries.pop_front() else {
                if self.next_shard == self.core.shards() {
                    return Ok(true);
                }
                self.entries = self.core.entries(self.next_shard).into();
                self.next_shard += 1;
                // An empty shard costs something, too.
                read += ENTRY_BYTES_MIN;
                continue;
            };
            read += entry.record_bytes().max(ENTRY_BYTES_MIN);
            match self.core.scrub(&fingerprint, &entry)? {
                Scrubbed::Record(bytes) => self.count(bytes),
                Scrubbed::File(file) => {
                    self.file = Some(OpenFile { fingerprint, entry, file, offset: 0 });
                }
                Scrubbed::Damaged => self.damaged(&fingerprint, &entry),
                Scrubbed::Gone => {}
            }
        }
        Ok(false)
    }

    /// Reads the next bytes of a file. Returns how many.
    fn read(&mut self, mut open: OpenFile) -> StoreResult<u64> {
        match open.file.read(open.offset, READ_BYTES) {
            Ok(bytes) if bytes.is_empty() => {
                self.count(open.offset);
                Ok(0)
            }
            Ok(bytes) => {
                open.offset += bytes.len() as u64;
                let read = bytes.len() as u64;
                self.file = Some(open);
                Ok(read)
            }
            Err(StoreError::Damaged) => {
                if self.core.is_at_place(&open.fingerprint, &open.entry) {
                    self.damaged(&open.fingerprint, &open.entry);
                }
                Ok(READ_BYTES as u64)
            }
            Err(error) => Err(error),
        }
    }

    fn count(&mut self, bytes: u64) {
        self.counts.values += 1;
        self.counts.bytes += bytes;
        self.core.count_scrubbed(bytes);
    }

    fn damaged(&mut self, fingerprint: &Fingerprint, entry: &Entry) {
        self.count(entry.record_bytes() + entry.file_bytes());
        self.counts.damaged += 1;
        if self.repair == Repair::Drop {
            self.core.drop_damaged(fingerprint, entry);
        }
    }
}
