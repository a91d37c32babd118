//! The policy of the store: each blob has a last use in ticks, and the oldest are evicted in the
//! background when too much is live. The decisions are those of the store's own code.

use std::collections::HashMap;

use super::{Outcome, SimulatedCache};
use crate::store::StoreOptions;
use crate::store::space::{AgeHistogram, Plan, Usage, plan};

/// The resolution of a last use in the store.
const TICK_MS: u64 = 125;

/// A use within this time after the last one is not noted, as in the store.
const USE_TICKS_MIN: u32 = 8;

#[derive(Debug)]
struct Held {
    size_bytes: u64,
    last_use: u32,
}

/// A simulated cache with the policy of the store.
#[derive(Debug)]
pub(super) struct AgeLru {
    limit_bytes: u64,
    pack_bytes: u64,
    age_min: u32,
    held: HashMap<u64, Held>,
    bytes: u64,
    /// Before this time nothing is old enough to be evicted.
    next_eviction: u32,
}

impl AgeLru {
    pub(super) fn new(limit_bytes: u64, age_min_ms: u64) -> Self {
        Self {
            limit_bytes,
            pack_bytes: StoreOptions::new(limit_bytes).pack_bytes_chosen(),
            age_min: ticks(age_min_ms),
            held: HashMap::new(),
            bytes: 0,
            next_eviction: 0,
        }
    }

    /// The bytes that the store would evict now.
    fn excess_bytes(&self) -> u64 {
        let usage = Usage {
            bytes_max: self.limit_bytes,
            room: self.limit_bytes.saturating_sub(self.bytes),
            pack_bytes: self.pack_bytes,
            free_packs: 0,
            live: self.bytes,
            packs: Vec::new(),
        };
        match plan(&usage) {
            Plan::Evict(bytes) => bytes,
            _ => 0,
        }
    }

    /// What the store does in the background.
    fn make_room(&mut self, now: u32) {
        let excess = self.excess_bytes();
        if excess > 0 && now >= self.next_eviction {
            self.evict(excess, now);
        }
    }

    fn evict(&mut self, wanted_bytes: u64, now: u32) {
        let limit = match self.age_min {
            0 => now.saturating_add(1),
            age => now.saturating_sub(age),
        };
        let oldest = self.held.values().map(|held| held.last_use).min().unwrap_or(now);
        let mut histogram = AgeHistogram::new(oldest, now);
        for held in self.held.values() {
            histogram.add(held.last_use, held.size_bytes);
        }
        let cutoff = histogram.cutoff(wanted_bytes, limit);
        let mut freed = 0;
        self.held.retain(|_, held| {
            let goes = held.last_use < cutoff && freed < wanted_bytes;
            if goes {
                freed += held.size_bytes;
            }
            !goes
        });
        self.bytes -= freed;
        if freed == 0 {
            self.next_eviction = now.saturating_add(USE_TICKS_MIN);
        }
    }
}

impl SimulatedCache for AgeLru {
    fn request(&mut self, fingerprint: u64, size_bytes: u64, time_ms: u64) -> Outcome {
        let now = ticks(time_ms);
        if let Some(held) = self.held.get_mut(&fingerprint) {
            if now >= held.last_use.saturating_add(USE_TICKS_MIN) {
                held.last_use = now;
            }
            return Outcome::Hit;
        }
        self.make_room(now);
        if self.bytes.saturating_add(size_bytes) > self.limit_bytes {
            return Outcome::Refused;
        }
        self.held.insert(fingerprint, Held { size_bytes, last_use: now });
        self.bytes += size_bytes;
        self.make_room(now);
        Outcome::Stored
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// 32 bits of ticks are 17 years.
fn ticks(time_ms: u64) -> u32 {
    u32::try_from(time_ms / TICK_MS).unwrap_or(u32::MAX)
}
