//! Eviction of entries by the age of their last use.

use super::{Core, TICKS_PER_SECOND};
use crate::store::error::StoreResult;
use crate::store::index::Entry;
use crate::store::key::Fingerprint;
use crate::store::space::AgeHistogram;

/// Files that one group of records removes.
const FILES_MAX: usize = 256;

impl Core {
    /// Evicts the entries that were not used for longest, until `bytes` are not live any more.
    /// Returns how many bytes were evicted: less if nothing else is old enough.
    pub(super) fn evict(&self, bytes: u64) -> StoreResult<u64> {
        let cutoff = self.cutoff(bytes);
        let mut freed = 0;
        let mut files = Vec::new();
        for shard in 0..self.index.shards() {
            let selector = self.index.selector(shard);
            let mut old_files: Vec<(Fingerprint, _)> = Vec::new();
            let evicted = self.index.remove_all(shard, |entry| {
                if entry.last_use() >= cutoff || freed >= bytes {
                    return false;
                }
                freed += entry.record_bytes() + entry.file_bytes();
                self.count_eviction(entry);
                if entry.is_file() {
                    old_files.push((entry.fingerprint(selector), *entry));
                }
                !entry.is_file()
            });
            drop(evicted);
            files.extend(old_files);
            if files.len() >= FILES_MAX {
                self.remove_files(&std::mem::take(&mut files))?;
            }
            if freed >= bytes {
                break;
            }
        }
        if !files.is_empty() {
            self.remove_files(&files)?;
        }
        Ok(freed)
    }

    /// The last use before which entries have at least `bytes`, if as many are old enough to go.
    pub(super) fn cutoff(&self, bytes: u64) -> u32 {
        let now = self.now();
        let min_age = self.options.min_age.as_secs().saturating_mul(TICKS_PER_SECOND);
        let limit = match u32::try_from(min_age) {
            // An entry that is as old as now may go, too.
            Ok(0) => now.saturating_add(1),
            Ok(age) => now.saturating_sub(age),
            Err(_) => 0,
        };
        let mut oldest = now;
        self.each_entry(|last_use, _| oldest = oldest.min(last_use));
        let mut histogram = AgeHistogram::new(oldest, now);
        self.each_entry(|last_use, bytes| histogram.add(last_use, bytes));
        histogram.cutoff(bytes, limit)
    }

    /// Counts a value that is evicted.
    pub(super) fn count_eviction(&self, entry: &Entry) {
        let age = u64::from(self.now().saturating_sub(entry.last_use())) / TICKS_PER_SECOND;
        self.activity.count_eviction(age, entry.record_bytes() + entry.file_bytes());
    }

    fn each_entry(&self, mut see: impl FnMut(u32, u64)) {
        for shard in 0..self.index.shards() {
            self.index.write_numbered(shard, |shard| {
                for entry in shard.entries() {
                    see(entry.last_use(), entry.record_bytes() + entry.file_bytes());
                }
            });
        }
    }
}
