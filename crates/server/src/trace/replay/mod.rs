//! Simulated caches: a trace is replayed against sizes and policies, and gives hit rates.
//!
//! | file | idea |
//! |---|---|
//! | `age_lru` | the policy of the store: coarse ages, sweeps in the background |
//! | `lru` | exact LRU and FIFO, for comparison |
//! | `tally` | [`Tally`]: hits, bytes, writes |
//!
//! What a miss means: the trace was recorded by one cache, and another one has other misses. After
//! a miss a client builds the blob and puts it. So the simulated cache holds a blob after every
//! request for it, whatever the operation. A later `put` of the trace then finds it present. Reads
//! and existence checks count as requests; puts do not.

mod age_lru;
mod lru;
mod tally;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use age_lru::AgeLru;
use lru::Lru;
pub use tally::Tally;

use super::{TraceOperation, TraceRequest};

/// How a simulated cache chooses what to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayPolicy {
    /// As the store does it: by age of last use, in sweeps.
    AgeLru,
    /// Exactly the least recently used.
    Lru,
    /// The oldest, whether it is used or not.
    Fifo,
    /// Nothing: the highest possible hit rate.
    Unlimited,
}

impl ReplayPolicy {
    /// All policies that have a size.
    pub const SIZED: [Self; 3] = [Self::AgeLru, Self::Lru, Self::Fifo];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AgeLru => "age-lru",
            Self::Lru => "lru",
            Self::Fifo => "fifo",
            Self::Unlimited => "unlimited",
        }
    }
}

/// What becomes of a blob that is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The cache held it.
    Hit,
    /// The cache holds it now.
    Stored,
    /// The cache has no room for it.
    Refused,
}

/// A simulated cache.
trait SimulatedCache: std::fmt::Debug {
    /// A request for a blob. The cache holds it afterwards, unless it refuses it.
    fn request(&mut self, fingerprint: u64, size_bytes: u64, time_ms: u64) -> Outcome;

    /// The bytes that it holds.
    fn bytes(&self) -> u64;
}

/// A cache that evicts nothing.
#[derive(Debug, Default)]
struct Unlimited {
    sizes: HashMap<u64, u64>,
    bytes: u64,
}

impl SimulatedCache for Unlimited {
    fn request(&mut self, fingerprint: u64, size_bytes: u64, _: u64) -> Outcome {
        if self.sizes.insert(fingerprint, size_bytes).is_some() {
            return Outcome::Hit;
        }
        self.bytes = self.bytes.saturating_add(size_bytes);
        Outcome::Stored
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// One cache under one trace.
#[derive(Debug)]
pub struct Replay {
    policy: ReplayPolicy,
    limit_bytes: u64,
    cache: Box<dyn SimulatedCache>,
    tally: Tally,
}

/// What the simulated caches have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Age-LRU evicts nothing younger, and refuses what then has no room.
    pub age_min_ms: u64,
}

impl Replay {
    /// A cache of `limit_bytes`, which [`ReplayPolicy::Unlimited`] ignores.
    pub fn new(policy: ReplayPolicy, limit_bytes: u64, options: ReplayOptions) -> Self {
        let cache: Box<dyn SimulatedCache> = match policy {
            ReplayPolicy::AgeLru => Box::new(AgeLru::new(limit_bytes, options.age_min_ms)),
            ReplayPolicy::Lru => Box::new(Lru::new(limit_bytes, true)),
            ReplayPolicy::Fifo => Box::new(Lru::new(limit_bytes, false)),
            ReplayPolicy::Unlimited => Box::new(Unlimited::default()),
        };
        Self { policy, limit_bytes, cache, tally: Tally::default() }
    }

    /// The policy.
    pub fn policy(&self) -> ReplayPolicy {
        self.policy
    }

    /// The size of the cache; without a meaning for [`ReplayPolicy::Unlimited`].
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// The next request of the trace. Times never decrease.
    pub fn request(&mut self, request: &TraceRequest) {
        let TraceRequest { time_ms, operation, fingerprint, size_bytes } = *request;
        let outcome = self.cache.request(fingerprint, size_bytes, time_ms);
        if operation != TraceOperation::Put {
            self.tally.requests += 1;
            self.tally.requested_bytes = self.tally.requested_bytes.saturating_add(size_bytes);
        }
        match outcome {
            Outcome::Hit if operation != TraceOperation::Put => {
                self.tally.hits += 1;
                self.tally.hit_bytes = self.tally.hit_bytes.saturating_add(size_bytes);
            }
            Outcome::Hit => {}
            Outcome::Stored => {
                self.tally.written_bytes = self.tally.written_bytes.saturating_add(size_bytes);
            }
            Outcome::Refused => self.tally.refused += 1,
        }
        self.tally.bytes_max = self.tally.bytes_max.max(self.cache.bytes());
    }

    /// The sums so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
}
