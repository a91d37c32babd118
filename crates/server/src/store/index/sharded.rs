//! [`Index`]: all shards. Each has a lock, and is loaded from its snapshot when it is first used.
//!
//! The changes of a replay wait in a list beside the snapshot until the shard is loaded. So a
//! replay touches no page of a snapshot.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use super::{Change, Entry, Location, Shard};
use crate::store::key::Fingerprint;
use crate::store::pack::PackTable;
use crate::store::space::Space;

/// Reads the snapshots of shards.
pub(crate) trait Loader: fmt::Debug + Send + Sync {
    /// The entries of a shard, the newer ones behind the older ones. A damaged snapshot has none.
    fn load(&self, shard: u16) -> Vec<Entry>;
}

#[derive(Debug)]
enum ShardState {
    Unloaded(Vec<Change>),
    Loaded(Shard),
}

/// All shards.
#[derive(Debug)]
pub(crate) struct Index {
    shard_bits: u32,
    shards: Vec<RwLock<ShardState>>,
    loader: Arc<dyn Loader>,
    packs: Arc<PackTable>,
    space: Arc<Space>,
    unloaded: AtomicU64,
}

impl Index {
    pub(crate) fn new(
        shard_bits: u32,
        loader: Arc<dyn Loader>,
        packs: Arc<PackTable>,
        space: Arc<Space>,
    ) -> Self {
        let count = 1_usize << shard_bits;
        let unloaded = || RwLock::new(ShardState::Unloaded(Vec::new()));
        Self {
            shard_bits,
            shards: std::iter::repeat_with(unloaded).take(count).collect(),
            loader,
            packs,
            space,
            unloaded: AtomicU64::new(count as u64),
        }
    }

    /// The number of shards.
    pub(crate) fn shards(&self) -> u16 {
        u16::try_from(self.shards.len()).unwrap_or(u16::MAX)
    }

    /// Whether every shard is in memory, so that no look-up reads the disk.
    pub(crate) fn is_loaded(&self) -> bool {
        self.unloaded.load(Ordering::Acquire) == 0
    }

    /// Entries of the shards that are loaded.
    pub(crate) fn loaded_values(&self) -> u64 {
        let len = |shard: &RwLock<ShardState>| match &*shard
            .read()
            .unwrap_or_else(PoisonError::into_inner)
        {
            ShardState::Loaded(shard) => shard.len() as u64,
            ShardState::Unloaded(_) => 0,
        };
        self.shards.iter().map(len).sum()
    }

    /// A key's entry, if its pack is current.
    pub(crate) fn find(&self, fingerprint: &Fingerprint) -> Option<Entry> {
        let found = self.read(fingerprint, |shard| shard.find(fingerprint))?;
        self.packs.is_current(found.location()).then_some(found)
    }

    /// The entries of keys with this key's hash and any length, if their packs are current.
    pub(crate) fn find_all(&self, fingerprint: &Fingerprint) -> Vec<Entry> {
        let mut found = self.read(fingerprint, |shard| shard.find_all(fingerprint.high));
        found.retain(|entry| self.packs.is_current(entry.location()));
        found
    }

    /// As [`Self::find`], and sets the last use.
    pub(crate) fn touch(&self, fingerprint: &Fingerprint, now: u32) -> Option<Entry> {
        let found = self.read(fingerprint, |shard| shard.touch(fingerprint, now))?;
        self.packs.is_current(found.location()).then_some(found)
    }

    /// Whether each key has an entry. Sets the last use of those that have.
    pub(crate) fn touch_all(&self, fingerprints: &[Fingerprint], now: u32) -> Vec<bool> {
        let is_current = self.packs.checker();
        let found = fingerprints.iter().map(|fingerprint| {
            let entry = self.read(fingerprint, |shard| shard.touch(fingerprint, now));
            entry.is_some_and(|entry| is_current(entry.location()))
        });
        found.collect()
    }

    /// Inserts an entry. Returns the key's previous one, if its pack is current.
    pub(crate) fn put(&self, fingerprint: &Fingerprint, entry: Entry) -> Option<Entry> {
        let before = self.write(fingerprint.shard, |shard| shard.put(fingerprint, entry));
        self.count(&entry);
        before.filter(|before| self.discount(before))
    }

    /// Replaces an entry whose record moved, unless the key has another entry by now. The last use
    /// stays.
    pub(crate) fn move_record(&self, fingerprint: &Fingerprint, from: Location, to: Entry) -> bool {
        let moved = self.write(fingerprint.shard, |shard| {
            let before = shard.find(fingerprint).filter(|before| before.location() == from)?;
            shard.put(fingerprint, to.with_last_use(before.last_use()))
        });
        let Some(before) = moved else { return false };
        self.count(&to);
        self.discount(&before);
        true
    }

    /// Removes a key's entry and returns it, if its pack is current.
    pub(crate) fn remove(&self, fingerprint: &Fingerprint) -> Option<Entry> {
        let before = self.write(fingerprint.shard, |shard| shard.remove(fingerprint));
        before.filter(|before| self.discount(before))
    }

    /// Removes a key's entry if its record is at `location`.
    pub(crate) fn remove_at(&self, fingerprint: &Fingerprint, location: Location) -> Option<Entry> {
        let before = self.write(fingerprint.shard, |shard| {
            shard.find(fingerprint).filter(|entry| entry.location() == location)?;
            shard.remove(fingerprint)
        });
        before.filter(|before| self.discount(before))
    }

    /// Removes the entries of a shard for which `is_removed` holds, and returns them.
    pub(crate) fn remove_all(
        &self,
        number: u16,
        is_removed: impl FnMut(&Entry) -> bool,
    ) -> Vec<Entry> {
        let removed = {
            let selector = self.selector(number);
            self.write_numbered(number, |shard| shard.remove_all(selector, is_removed))
        };
        for entry in &removed {
            self.discount(entry);
        }
        removed
    }

    /// Makes a change of a replay, now or when the shard is loaded.
    pub(crate) fn replay(&self, fingerprint: &Fingerprint, change: Change) {
        let mut state = self.lock(self.number(fingerprint.shard));
        match &mut *state {
            ShardState::Unloaded(changes) => changes.push(change),
            ShardState::Loaded(shard) => {
                for (entry, is_added) in apply(shard, change) {
                    if is_added {
                        self.count(&entry);
                    } else {
                        let _ = self.discount(&entry);
                    }
                }
            }
        }
    }

    /// Loads a shard, if it is not loaded.
    pub(crate) fn load(&self, number: u16) {
        let state = self.shards[usize::from(number)].read().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, ShardState::Unloaded(_)) {
            drop(state);
            self.write_numbered(number, |_| ());
        }
    }

    /// Whether a shard differs from its snapshot.
    pub(crate) fn is_changed(&self, number: u16) -> bool {
        match &*self.shards[usize::from(number)].read().unwrap_or_else(PoisonError::into_inner) {
            ShardState::Unloaded(changes) => !changes.is_empty(),
            ShardState::Loaded(shard) => shard.is_changed(),
        }
    }

    /// Works on a shard under its exclusive lock.
    pub(crate) fn write_numbered<T>(&self, number: u16, work: impl FnOnce(&mut Shard) -> T) -> T {
        let mut state = self.lock(usize::from(number));
        loop {
            match &mut *state {
                ShardState::Loaded(shard) => return work(shard),
                ShardState::Unloaded(changes) => {
                    let changes = std::mem::take(changes);
                    *state = ShardState::Loaded(self.build(number, &changes));
                    self.unloaded.fetch_sub(1, Ordering::AcqRel);
                }
            }
        }
    }

    /// The selecting bits of a shard's fingerprints.
    pub(crate) fn selector(&self, number: u16) -> u16 {
        u16::try_from(u32::from(number) << (16 - self.shard_bits)).unwrap_or_default()
    }

    fn build(&self, number: u16, changes: &[Change]) -> Shard {
        let entries = self.loader.load(number);
        let mut shard = Shard::with_capacity(entries.len() + changes.len());
        let selector = self.selector(number);
        for entry in entries {
            let fingerprint = entry.fingerprint(selector);
            if entry.is_gone() {
                shard.remove(&fingerprint);
            } else {
                shard.put(&fingerprint, entry);
            }
        }
        // The snapshot has all of this.
        shard.take_changes(false);
        for change in changes {
            apply(&mut shard, *change);
        }
        let is_current = self.packs.checker();
        shard.remove_all(selector, |entry| !is_current(entry.location()));
        for entry in shard.entries() {
            self.count(&entry);
        }
        shard
    }

    fn read<T>(&self, fingerprint: &Fingerprint, work: impl Fn(&Shard) -> T) -> T {
        let number = self.number(fingerprint.shard);
        let state = self.shards[number].read().unwrap_or_else(PoisonError::into_inner);
        if let ShardState::Loaded(shard) = &*state {
            return work(shard);
        }
        drop(state);
        self.write(fingerprint.shard, |shard| work(shard))
    }

    fn write<T>(&self, selector: u16, work: impl FnOnce(&mut Shard) -> T) -> T {
        let number = u16::try_from(self.number(selector)).unwrap_or_default();
        self.write_numbered(number, work)
    }

    fn lock(&self, number: usize) -> RwLockWriteGuard<'_, ShardState> {
        self.shards[number].write().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self, selector: u16) -> usize {
        usize::from(selector) >> (16 - self.shard_bits)
    }

    fn count(&self, entry: &Entry) {
        self.packs.add_live(entry.location().slot(), entry.record_bytes());
        self.space.add_files(entry.file_bytes());
    }

    /// Subtracts an entry. Returns whether its pack is current.
    fn discount(&self, entry: &Entry) -> bool {
        self.space.subtract_files(entry.file_bytes());
        let is_current = self.packs.is_current(entry.location());
        if is_current {
            self.packs.subtract_live(entry.location().slot(), entry.record_bytes());
        }
        is_current
    }
}

/// Makes a change. Returns the entries that came and went.
fn apply(shard: &mut Shard, change: Change) -> Vec<(Entry, bool)> {
    let (added, removed) = match change {
        Change::Put(entry, fingerprint) => (Some(entry), shard.put(&fingerprint, entry)),
        Change::Remove(fingerprint) => (None, shard.remove(&fingerprint)),
        Change::RemoveAt(fingerprint, location) => {
            let found = shard.find(&fingerprint).filter(|entry| entry.location() == location);
            (None, found.and_then(|_| shard.remove(&fingerprint)))
        }
    };
    let added = added.map(|entry| (entry, true));
    added.into_iter().chain(removed.map(|entry| (entry, false))).collect()
}
