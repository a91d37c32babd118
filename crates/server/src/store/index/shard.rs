//! [`Shard`]: one table of entries.
//!
//! Open addressing with linear probing. A removal moves later entries back, so there are no
//! tombstones. The capacity is any number and grows by a quarter, so that the load stays between
//! 0.68 and 0.85: 38 to 47 bytes an entry.
//!
//! The words are atomic so that a look-up can write the last use under a shared lock. All other
//! writes have the exclusive lock, so relaxed order is enough.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Entry, Location};
use crate::store::key::Fingerprint;

/// The load is at most 17 / 20.
const LOAD_MAX: (usize, usize) = (17, 20);
const CAPACITY_MIN: usize = 8;
/// Uses that are closer together than this are one. It saves writes to memory, and to the next
/// checkpoint. 8 ticks are a second.
const USE_TICKS_MIN: u32 = 8;

type Slot = [AtomicU64; 4];

/// A change that a record of the log makes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// The key has this entry now.
    Put(Entry, Fingerprint),
    /// The key has no value.
    Remove(Fingerprint),
    /// The key has no value if its record is at this location.
    RemoveAt(Fingerprint, Location),
}

/// One table of entries.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    slots: Vec<Slot>,
    len: usize,
    /// Removals since the last snapshot. Some of these keys may have an entry again.
    gone: Vec<Fingerprint>,
    /// Whether an entry differs from the last snapshot.
    is_changed: std::sync::atomic::AtomicBool,
}

impl Shard {
    pub(crate) fn with_capacity(entries: usize) -> Self {
        let mut shard = Self::default();
        if entries > 0 {
            shard.resize((entries * LOAD_MAX.1).div_ceil(LOAD_MAX.0) + 1);
        }
        shard
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn find(&self, fingerprint: &Fingerprint) -> Option<Entry> {
        self.position(fingerprint).map(|at| self.load(at))
    }

    /// The entries whose fingerprints begin with `high`. Keys with one hash and different lengths
    /// have these.
    pub(crate) fn find_all(&self, high: u64) -> Vec<Entry> {
        let mut found = Vec::new();
        if self.slots.is_empty() {
            return found;
        }
        let mut at = self.home(high);
        while self.slots[at][2].load(Ordering::Relaxed) != 0 {
            if self.slots[at][0].load(Ordering::Relaxed) == high {
                found.push(self.load(at));
            }
            at = (at + 1) % self.slots.len();
        }
        found
    }

    /// Sets the last use.
    pub(crate) fn touch(&self, fingerprint: &Fingerprint, now: u32) -> Option<Entry> {
        let at = self.position(fingerprint)?;
        let entry = self.load(at);
        if now >= entry.last_use().saturating_add(USE_TICKS_MIN) {
            let used = entry.with_last_use(now);
            self.slots[at][1].store(used.0[1], Ordering::Relaxed);
            self.slots[at][3].store(used.0[3], Ordering::Relaxed);
            self.is_changed.store(true, Ordering::Relaxed);
        }
        Some(entry)
    }

    /// Inserts an entry. Returns the key's previous one.
    pub(crate) fn put(&mut self, fingerprint: &Fingerprint, entry: Entry) -> Option<Entry> {
        if entry.is_changed() {
            *self.is_changed.get_mut() = true;
        }
        if let Some(at) = self.position(fingerprint) {
            let before = self.load(at);
            self.store(at, entry);
            return Some(before);
        }
        if (self.len + 1) * LOAD_MAX.1 > self.slots.len() * LOAD_MAX.0 {
            self.resize((self.slots.len() * 5 / 4).max(self.slots.len() + CAPACITY_MIN));
        }
        self.place(entry);
        self.len += 1;
        None
    }

    /// Removes a key's entry and returns it.
    pub(crate) fn remove(&mut self, fingerprint: &Fingerprint) -> Option<Entry> {
        let mut hole = self.position(fingerprint)?;
        let removed = self.load(hole);
        self.gone.push(*fingerprint);
        *self.is_changed.get_mut() = true;
        self.len -= 1;
        let capacity = self.slots.len();
        let mut at = hole;
        loop {
            at = (at + 1) % capacity;
            let entry = self.load(at);
            if entry.is_gone() {
                break;
            }
            // An entry may move to the hole unless its home lies behind the hole.
            let probes = (at + capacity - self.home(entry.0[0])) % capacity;
            let gap = (at + capacity - hole) % capacity;
            if probes >= gap {
                self.store(hole, entry);
                hole = at;
            }
        }
        self.store(hole, Entry([0; 4]));
        Some(removed)
    }

    /// Removes the entries for which `is_removed` holds, and returns them.
    pub(crate) fn remove_all(
        &mut self,
        shard: u16,
        mut is_removed: impl FnMut(&Entry) -> bool,
    ) -> Vec<Entry> {
        let removed: Vec<Entry> = self.entries().filter(|entry| is_removed(entry)).collect();
        for entry in &removed {
            self.remove(&entry.fingerprint(shard));
        }
        let wanted = (self.len * LOAD_MAX.1).div_ceil(LOAD_MAX.0) + CAPACITY_MIN;
        if self.slots.len() > 2 * wanted {
            self.resize(wanted);
        }
        removed
    }

    /// All entries, in no order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        (0..self.slots.len()).map(|at| self.load(at)).filter(|entry| !entry.is_gone())
    }

    /// Whether anything differs from the last snapshot.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed.load(Ordering::Relaxed)
    }

    /// What differs from the last snapshot, or everything, as the entries of a snapshot. After
    /// that, nothing differs.
    pub(crate) fn take_changes(&mut self, everything: bool) -> Vec<Entry> {
        let mut changes = Vec::new();
        let gone = std::mem::take(&mut self.gone);
        if !everything {
            let gone = gone.iter().filter(|fingerprint| self.find(fingerprint).is_none());
            changes.extend(gone.map(Entry::gone));
        }
        for at in 0..self.slots.len() {
            let entry = self.load(at);
            if !entry.is_gone() && (everything || entry.is_changed()) {
                changes.push(entry.unchanged());
                self.store(at, entry.unchanged());
            }
        }
        *self.is_changed.get_mut() = false;
        changes
    }

    fn position(&self, fingerprint: &Fingerprint) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.home(fingerprint.high);
        loop {
            // The load is below 1, so an empty slot ends every probe.
            if self.slots[at][2].load(Ordering::Relaxed) == 0 {
                return None;
            }
            if self.slots[at][0].load(Ordering::Relaxed) == fingerprint.high
                && self.load(at).is_of(fingerprint)
            {
                return Some(at);
            }
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
    }

    fn home(&self, high: u64) -> usize {
        let scaled = (u128::from(high) * self.slots.len() as u128) >> 64;
        usize::try_from(scaled).unwrap_or_default()
    }

    fn place(&self, entry: Entry) {
        let mut at = self.home(entry.0[0]);
        while self.slots[at][2].load(Ordering::Relaxed) != 0 {
            at = (at + 1) % self.slots.len();
        }
        self.store(at, entry);
    }

    fn load(&self, at: usize) -> Entry {
        let slot = &self.slots[at];
        Entry([0, 1, 2, 3].map(|word| slot[word].load(Ordering::Relaxed)))
    }

    fn store(&self, at: usize, entry: Entry) {
        for (word, value) in self.slots[at].iter().zip(entry.0) {
            word.store(value, Ordering::Relaxed);
        }
    }

    fn resize(&mut self, capacity: usize) {
        let mut slots = Vec::new();
        slots.resize_with(capacity, Slot::default);
        let before = std::mem::replace(&mut self.slots, slots);
        for slot in before {
            let entry = Entry(slot.map(AtomicU64::into_inner));
            if !entry.is_gone() {
                self.place(entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::{Entry, LOAD_MAX, Location, Shard};
    use crate::store::key::Fingerprint;

    /// Few distinct keys whose homes are close together, so that probes are long and wrap around.
    fn fingerprint(number: u8) -> Fingerprint {
        let high =
            if number.is_multiple_of(2) { u64::MAX - u64::from(number) } else { u64::from(number) };
        Fingerprint { shard: 0, high, low: u64::from(number) << 8 }
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(steps in proptest::collection::vec((any::<u8>(), 0_u8..4, any::<u32>()), 1..400)) {
            let mut shard = Shard::default();
            let mut model: HashMap<u8, (Location, u32)> = HashMap::new();
            for (number, action, value) in steps {
                let key = fingerprint(number);
                match action {
                    0 | 1 => {
                        let location = Location::new(1 + u32::from(number), 7, u64::from(value & 0xfff8));
                        let entry = Entry::new(key, location, 64, None, 0);
                        let before = shard.put(&key, entry).map(|entry| entry.location());
                        let expected = model.insert(number, (location, 0)).map(|(location, _)| location);
                        prop_assert_eq!(before, expected);
                    }
                    2 => {
                        let removed = shard.remove(&key).map(|entry| entry.location());
                        prop_assert_eq!(removed, model.remove(&number).map(|(location, _)| location));
                    }
                    _ => {
                        shard.touch(&key, value);
                        if let Some((_, last_use)) = model.get_mut(&number)
                            && value >= last_use.saturating_add(8)
                        {
                            *last_use = value;
                        }
                    }
                }
                prop_assert_eq!(shard.len(), model.len());
                prop_assert!(shard.len() * LOAD_MAX.1 <= shard.capacity() * LOAD_MAX.0);
            }
            for number in 0..=u8::MAX {
                let found = shard.find(&fingerprint(number));
                let found = found.map(|entry| (entry.location(), entry.last_use()));
                prop_assert_eq!(found, model.get(&number).copied());
            }
        }

        #[test]
        fn snapshots_and_changes_give_the_same_table(
            steps in proptest::collection::vec((any::<u8>(), any::<bool>(), any::<bool>()), 1..300),
        ) {
            let mut shard = Shard::default();
            let mut copy: HashMap<u64, Entry> = HashMap::new();
            for (number, is_put, is_saved) in steps {
                let key = fingerprint(number);
                if is_put {
                    shard.put(&key, Entry::new(key, Location::new(9, 1, 8), 64, None, 0));
                } else {
                    shard.remove(&key);
                }
                if is_saved {
                    for change in shard.take_changes(false) {
                        if change.is_gone() {
                            copy.remove(&change.0[0]);
                        } else {
                            copy.insert(change.0[0], change);
                        }
                    }
                    prop_assert!(!shard.is_changed());
                    let now: HashMap<u64, Entry> = shard.entries().map(|entry| (entry.0[0], entry)).collect();
                    prop_assert_eq!(&now, &copy);
                }
            }
        }
    }
}
