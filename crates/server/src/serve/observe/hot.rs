//! [`HotBlobs`]: the blobs that are read most, in a table of a fixed size.
//!
//! The table is that of the space-saving algorithm (Metwally and others, 2005): a blob that is not in
//! the full table takes the place of the one that was read least, and its count. A count is therefore
//! too high by at most the smallest count in the table. Each hour all counts are halved, so blobs of
//! yesterday's builds go.
//!
//! A read that finds the table locked is not counted. That costs the same part of all blobs.

use std::sync::{Mutex, PoisonError};

use tidegate_core::digest::Digest;

use super::largest::ShownBlob;

/// Blobs in the table: with 256, a blob that has 1% of the reads is certainly there.
const COUNT_MAX: usize = 256;

/// Blobs that are shown.
const SHOWN_MAX: usize = 20;

#[derive(Debug, Default)]
struct Table {
    /// The first bytes of each hash: a search compares these, several at a time.
    keys: Vec<u64>,
    blobs: Vec<(Digest, u64)>,
}

/// The blobs that are read most.
#[derive(Debug, Default)]
pub(super) struct HotBlobs(Mutex<Table>);

impl HotBlobs {
    /// A blob is read.
    pub(super) fn add(&self, digest: &Digest) {
        let Ok(mut table) = self.0.try_lock() else { return };
        let Table { keys, blobs } = &mut *table;
        let key = key(digest);
        match keys.iter().position(|one| *one == key) {
            Some(at) => blobs[at].1 += 1,
            None if keys.len() < COUNT_MAX => {
                keys.push(key);
                blobs.push((*digest, 1));
            }
            None => {
                let least = (0..blobs.len()).min_by_key(|at| blobs[*at].1).unwrap_or(0);
                keys[least] = key;
                blobs[least] = (*digest, blobs[least].1 + 1);
            }
        }
    }

    /// Halves all counts.
    pub(super) fn age(&self) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.blobs.iter_mut().for_each(|(_, count)| *count /= 2);
    }

    /// The first ones, with their counts.
    pub(super) fn status(&self) -> Vec<ShownBlob> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = table.blobs.iter().filter(|(_, count)| *count > 0).collect();
        all.sort_unstable_by_key(|(digest, count)| std::cmp::Reverse((*count, digest.len)));
        all.truncate(SHOWN_MAX);
        all.into_iter().map(|(digest, count)| ShownBlob::hot(digest, *count)).collect()
    }
}

fn key(digest: &Digest) -> u64 {
    digest.hash.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

#[cfg(test)]
mod tests {
    use tidegate_core::digest::DigestFunction;

    use super::*;

    fn digest(number: u64) -> Digest {
        Digest::of(DigestFunction::Sha256, &number.to_le_bytes())
    }

    /// Ten blobs with 2% of the reads each, among 50,000 blobs that are read once.
    #[test]
    fn the_hottest_ones_are_found() {
        let hot = HotBlobs::default();
        let mut random = fastrand::Rng::with_seed(1);
        for number in 0..50_000 {
            if random.u32(..5) == 0 {
                hot.add(&digest(random.u64(..10)));
            } else {
                hot.add(&digest(1000 + number));
            }
        }
        let shown = hot.status();
        assert_eq!(shown.len(), SHOWN_MAX);
        for number in 0..10 {
            let name = digest(number).checksum().hex();
            assert!(shown[..10].iter().any(|blob| blob.hash() == name), "{number}");
        }
    }

    #[test]
    fn counts_are_halved() {
        let hot = HotBlobs::default();
        for _ in 0..3 {
            hot.add(&digest(1));
        }
        hot.add(&digest(2));
        assert_eq!(hot.status().len(), 2);
        hot.age();
        assert_eq!(hot.status().len(), 1);
    }
}
