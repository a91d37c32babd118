//! The policy of the store: each blob has a last use in ticks, and a sweep drops the oldest when
//! the limit is passed.

use std::collections::HashMap;

use super::{Outcome, SimulatedCache};
use crate::store::age::AgeHistogram;

/// The resolution of a last use.
const TICK_MS: u64 = 1000;

/// The part of the limit that a sweep frees. A sweep reads the whole index, so it must be rare: a
/// store of 100 GiB sweeps once for each 1.6 GiB that are written.
const SWEEP_PART: u64 = 64;

/// A use updates the last use only if that is older. The index is then written less often.
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
    age_min: u32,
    held: HashMap<u64, Held>,
    bytes: u64,
    /// Before this time a sweep frees nothing, because everything is too young.
    next_sweep: u32,
}

impl AgeLru {
    pub(super) fn new(limit_bytes: u64, age_min_ms: u64) -> Self {
        let age_min = ticks(age_min_ms);
        Self { limit_bytes, age_min, held: HashMap::new(), bytes: 0, next_sweep: 0 }
    }

    /// Frees room for `size_bytes` and some more.
    fn sweep(&mut self, size_bytes: u64, now: u32) {
        let mut ages = AgeHistogram::new(now);
        for held in self.held.values() {
            ages.add(held.last_use, held.size_bytes);
        }
        let target = self.limit_bytes - self.limit_bytes / SWEEP_PART;
        let wanted = self.bytes.saturating_add(size_bytes).saturating_sub(target);
        let mut eviction = ages.eviction(wanted, self.age_min);
        let bytes = &mut self.bytes;
        self.held.retain(|_, held| {
            let goes = eviction.takes(held.last_use, held.size_bytes);
            if goes {
                *bytes -= held.size_bytes;
            }
            !goes
        });
    }

    fn has_room(&self, size_bytes: u64) -> bool {
        self.bytes.saturating_add(size_bytes) <= self.limit_bytes
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
        if size_bytes > self.limit_bytes {
            return Outcome::Refused;
        }
        if !self.has_room(size_bytes) && now >= self.next_sweep {
            self.sweep(size_bytes, now);
        }
        if !self.has_room(size_bytes) {
            self.next_sweep = now + 1;
            return Outcome::Refused;
        }
        self.held.insert(fingerprint, Held { size_bytes, last_use: now });
        self.bytes += size_bytes;
        Outcome::Stored
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// 32 bits of seconds are 136 years.
fn ticks(time_ms: u64) -> u32 {
    u32::try_from(time_ms / TICK_MS).unwrap_or(u32::MAX)
}
