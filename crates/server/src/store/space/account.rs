//! [`Space`]: what takes space, and reservations as bytes arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::error::{StoreError, StoreResult};

/// Files take whole blocks of a file system.
pub(crate) const FILE_BLOCK_BYTES: u64 = 4096;

/// Files that are being written take at most this part of the limit. So uploads that never end evict at
/// most this part of the values.
const STAGED_SHARE: u64 = 2;

/// What takes space.
#[derive(Debug)]
pub(crate) struct Space {
    bytes_max: u64,
    packs: AtomicU64,
    /// Files that loaded index entries name.
    files: AtomicU64,
    /// Files that entries named at the last checkpoint; 0 when all shards are loaded.
    files_saved: AtomicU64,
    /// Files that are being written.
    staged: AtomicU64,
    /// Files that wait for their removal.
    loose: AtomicU64,
    checkpoints: AtomicU64,
}

impl Space {
    pub(crate) fn new(bytes_max: u64, packs: u64, files_saved: u64) -> Self {
        Self {
            bytes_max,
            packs: AtomicU64::new(packs),
            files: AtomicU64::new(0),
            files_saved: AtomicU64::new(files_saved),
            staged: AtomicU64::new(0),
            loose: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
        }
    }

    /// The limit.
    pub(crate) const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes of all files and packs.
    pub(crate) fn used(&self) -> u64 {
        let sum = [&self.packs, &self.staged, &self.loose, &self.checkpoints];
        let sum: u64 = sum.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
        sum + self.files()
    }

    /// Bytes of the files that entries name.
    pub(crate) fn files(&self) -> u64 {
        let saved = self.files_saved.load(Ordering::Relaxed);
        self.files.load(Ordering::Relaxed).max(saved)
    }

    /// Counts files that were committed after the last checkpoint.
    pub(crate) fn add_files_saved(&self, bytes: u64) {
        self.files_saved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Every shard is loaded, so the count of files is exact.
    pub(crate) fn note_loaded(&self) {
        self.files_saved.store(0, Ordering::Relaxed);
    }

    /// Takes `bytes` for a pack that exists.
    pub(crate) fn add_pack(&self, bytes: u64) {
        self.packs.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes `bytes` for a pack, unless the limit is too near.
    pub(crate) fn take_pack(&self, bytes: u64) -> StoreResult<()> {
        self.take(&self.packs, bytes)
    }

    pub(crate) fn give_pack(&self, bytes: u64) {
        subtract(&self.packs, bytes);
    }

    pub(crate) fn add_files(&self, bytes: u64) {
        self.files.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn subtract_files(&self, bytes: u64) {
        subtract(&self.files, bytes);
    }

    pub(crate) fn add_loose(&self, bytes: u64) {
        self.loose.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn subtract_loose(&self, bytes: u64) {
        subtract(&self.loose, bytes);
    }

    /// Bytes of checkpoints.
    pub(crate) fn checkpoints(&self) -> u64 {
        self.checkpoints.load(Ordering::Relaxed)
    }

    pub(crate) fn set_checkpoints(&self, bytes: u64) {
        self.checkpoints.store(bytes, Ordering::Relaxed);
    }

    /// A reservation of nothing yet.
    pub(crate) fn reservation(space: &Arc<Self>) -> Reservation {
        Reservation { space: Arc::clone(space), bytes: 0 }
    }

    /// The error of a full store.
    pub(crate) fn full(&self) -> StoreError {
        StoreError::Full { used_bytes: self.used(), bytes_max: self.bytes_max }
    }

    /// Bytes that are left for packs and files. The next checkpoint is written beside the last one,
    /// so as much as the last one takes stays free.
    pub(crate) fn room(&self) -> u64 {
        let checkpoints = self.checkpoints.load(Ordering::Relaxed);
        self.bytes_max.saturating_sub(self.used() + checkpoints)
    }

    /// Takes `bytes` more for a file that is being written and has `len` bytes then.
    fn take_staged(&self, len: u64, bytes: u64) -> StoreResult<()> {
        let bytes_max = self.bytes_max / STAGED_SHARE;
        if len > bytes_max {
            return Err(StoreError::TooLarge { bytes: len, bytes_max });
        }
        self.take(&self.staged, bytes)?;
        if self.staged.load(Ordering::Relaxed) > bytes_max {
            subtract(&self.staged, bytes);
            return Err(self.full());
        }
        Ok(())
    }

    fn take(&self, account: &AtomicU64, bytes: u64) -> StoreResult<()> {
        account.fetch_add(bytes, Ordering::Relaxed);
        if self.used() + self.checkpoints.load(Ordering::Relaxed) > self.bytes_max {
            subtract(account, bytes);
            return Err(self.full());
        }
        Ok(())
    }
}

fn subtract(account: &AtomicU64, bytes: u64) {
    let less = |sum: u64| Some(sum.saturating_sub(bytes));
    let _ = account.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

/// Space for a file that is being written. It grows as bytes arrive.
#[derive(Debug)]
pub(crate) struct Reservation {
    space: Arc<Space>,
    bytes: u64,
}

impl Reservation {
    /// Makes the reservation enough for a file of `len` bytes. Fails with `TooLarge` if that is more than a
    /// file may have, and with `Full` if the store or the files that are being written take too much.
    pub(crate) fn grow(&mut self, len: u64) -> StoreResult<()> {
        let wanted = len.next_multiple_of(FILE_BLOCK_BYTES);
        if wanted > self.bytes {
            self.space.take_staged(len, wanted - self.bytes)?;
            self.bytes = wanted;
        }
        Ok(())
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        subtract(&self.space.staged, self.bytes);
    }
}
