//! [`Counters`]: what requests count, in memory of a fixed size.
//!
//! Counters are atomic and in shards; each connection has a shard, so two cores seldom write to one
//! cache line. A reader sums the shards. A request takes about ten relaxed additions.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::call::{CallName, Lookups, MissReason, RefusalReason, ValueKind};
use super::outcome::Outcome;

/// Shards. With more connections than cores, two cores meet in one shard with a chance of 1 in 8.
const SHARDS: usize = 8;

/// The upper bounds of the buckets of a histogram of latencies, in microseconds: a hit in memory takes
/// 50 microseconds, a large blob over a slow link a minute.
pub(super) const LATENCY_BOUNDS_US: [u64; 15] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 1_000_000, 5_000_000,
    20_000_000, 60_000_000,
];

/// The buckets, with one for what is above all bounds.
pub(super) const LATENCIES: usize = LATENCY_BOUNDS_US.len() + 1;

/// What one call counts.
#[derive(Debug)]
struct CallCounters {
    outcomes: [AtomicU64; Outcome::COUNT],
    latencies: [AtomicU64; LATENCIES],
    latency_ns: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

impl Default for CallCounters {
    fn default() -> Self {
        Self {
            outcomes: std::array::from_fn(|_| AtomicU64::new(0)),
            latencies: std::array::from_fn(|_| AtomicU64::new(0)),
            latency_ns: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
        }
    }
}

/// What the look-ups of one kind count.
#[derive(Debug, Default)]
struct KindCounters {
    hits: AtomicU64,
    misses: [AtomicU64; MissReason::ALL.len()],
    present: AtomicU64,
    absent: AtomicU64,
}

/// Counters of the connections of one shard. 128 bytes are two cache lines, which some processors
/// fetch together.
#[derive(Debug)]
#[repr(align(128))]
struct CounterShard {
    calls: [CallCounters; CallName::COUNT],
    kinds: [KindCounters; ValueKind::ALL.len()],
    refusals: [AtomicU64; RefusalReason::ALL.len()],
    begun: AtomicU64,
    ended: AtomicU64,
}

/// What requests count.
#[derive(Debug)]
pub(super) struct Counters {
    shards: Vec<CounterShard>,
    next_shard: AtomicUsize,
}

/// How one request ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) name: CallName,
    pub(super) outcome: Outcome,
    pub(super) lookups: Lookups,
    pub(super) refusal: Option<RefusalReason>,
    pub(super) latency: Duration,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
}

fn add(counter: &AtomicU64, more: u64) {
    if more > 0 {
        counter.fetch_add(more, Ordering::Relaxed);
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counters {
    pub(super) fn new() -> Self {
        let shard = || CounterShard {
            calls: std::array::from_fn(|_| CallCounters::default()),
            kinds: std::array::from_fn(|_| KindCounters::default()),
            refusals: std::array::from_fn(|_| AtomicU64::new(0)),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        };
        Self {
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
            next_shard: AtomicUsize::new(0),
        }
    }

    /// The shard of a new connection.
    pub(super) fn take_shard(&self) -> usize {
        self.next_shard.fetch_add(1, Ordering::Relaxed) % SHARDS
    }

    /// A request begins.
    pub(super) fn begin(&self, shard: usize) {
        add(&self.shards[shard % SHARDS].begun, 1);
    }

    /// A request has ended.
    pub(super) fn end(&self, shard: usize, ended: &Ended) {
        let shard = &self.shards[shard % SHARDS];
        let call = &shard.calls[ended.name.index()];
        add(&call.outcomes[ended.outcome.index()], 1);
        let us = u64::try_from(ended.latency.as_micros()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_US.iter().position(|bound| us <= *bound);
        add(&call.latencies[bucket.unwrap_or(LATENCY_BOUNDS_US.len())], 1);
        add(&call.latency_ns, u64::try_from(ended.latency.as_nanos()).unwrap_or(u64::MAX));
        add(&call.received_bytes, ended.received_bytes);
        add(&call.sent_bytes, ended.sent_bytes);
        if let Some(kind) = ended.name.kind() {
            let (kind, lookups) = (&shard.kinds[kind as usize], ended.lookups);
            if ended.name.only_asks() {
                add(&kind.present, lookups.hits);
                add(&kind.absent, lookups.misses);
            } else {
                add(&kind.hits, lookups.hits);
                add(&kind.misses[lookups.reason as usize], lookups.misses);
            }
        }
        if let Some(reason) = ended.refusal {
            add(&shard.refusals[reason as usize], 1);
        }
        add(&shard.ended, 1);
    }

    fn sum(&self, counter: impl Fn(&CounterShard) -> &AtomicU64) -> u64 {
        self.shards.iter().map(|shard| read(counter(shard))).sum()
    }

    /// Requests in flight.
    pub(super) fn in_flight(&self) -> u64 {
        // In this order, a request that ends meanwhile is counted as in flight.
        let ended = self.sum(|shard| &shard.ended);
        self.sum(|shard| &shard.begun).saturating_sub(ended)
    }

    /// The sums of one call.
    pub(super) fn call(&self, name: CallName) -> CallTotals {
        let index = name.index();
        let sum = |counter: fn(&CallCounters) -> &AtomicU64| {
            self.sum(|shard| counter(&shard.calls[index]))
        };
        CallTotals {
            name,
            outcomes: std::array::from_fn(|at| self.sum(|shard| &shard.calls[index].outcomes[at])),
            latencies: std::array::from_fn(|at| {
                self.sum(|shard| &shard.calls[index].latencies[at])
            }),
            latency_ns: sum(|call| &call.latency_ns),
            received_bytes: sum(|call| &call.received_bytes),
            sent_bytes: sum(|call| &call.sent_bytes),
        }
    }

    /// The sums of the look-ups of one kind.
    pub(super) fn kind(&self, kind: ValueKind) -> KindTotals {
        let index = kind as usize;
        KindTotals {
            kind,
            hits: self.sum(|shard| &shard.kinds[index].hits),
            misses: std::array::from_fn(|at| self.sum(|shard| &shard.kinds[index].misses[at])),
            present: self.sum(|shard| &shard.kinds[index].present),
            absent: self.sum(|shard| &shard.kinds[index].absent),
        }
    }

    /// Requests that were refused for this reason.
    pub(super) fn refusals(&self, reason: RefusalReason) -> u64 {
        self.sum(|shard| &shard.refusals[reason as usize])
    }
}

/// The sums of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallTotals {
    pub(super) name: CallName,
    /// By the number of the outcome.
    pub(super) outcomes: [u64; Outcome::COUNT],
    /// By bucket; not cumulative.
    pub(super) latencies: [u64; LATENCIES],
    pub(super) latency_ns: u64,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
}

impl CallTotals {
    /// Requests that have ended.
    pub(super) fn count(&self) -> u64 {
        self.latencies.iter().sum()
    }

    /// The upper bound in microseconds of the bucket in which this part of the requests has ended;
    /// `None` without requests, or beyond all bounds.
    pub(super) fn quantile_us(&self, part: f64) -> Option<u64> {
        let count = self.count();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate by buckets"
        )]
        let wanted = ((count as f64 * part).ceil() as u64).max(1);
        let mut sum = 0;
        for (bound, more) in LATENCY_BOUNDS_US.iter().zip(&self.latencies) {
            sum += more;
            if sum >= wanted {
                return Some(*bound);
            }
        }
        None
    }
}

/// The sums of the look-ups of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct KindTotals {
    pub(super) kind: ValueKind,
    pub(super) hits: u64,
    /// By reason.
    pub(super) misses: [u64; MissReason::ALL.len()],
    pub(super) present: u64,
    pub(super) absent: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::grpc::Method;

    #[test]
    fn a_request_is_counted_once_in_each_place() {
        let counters = Counters::new();
        let name = CallName::Grpc(Method::Read);
        for (latency_us, shard) in [(50, 0), (51, 7), (70_000_000, 3)] {
            counters.begin(shard);
            assert_eq!(counters.in_flight(), 1);
            let ended = Ended {
                name,
                outcome: Outcome::CUT,
                lookups: Lookups::miss(MissReason::Damaged),
                refusal: Some(RefusalReason::Full),
                latency: Duration::from_micros(latency_us),
                received_bytes: 10,
                sent_bytes: 20,
            };
            counters.end(shard, &ended);
        }
        let totals = counters.call(name);
        assert_eq!(totals.outcomes[Outcome::CUT.index()], 3);
        assert_eq!((totals.latencies[0], totals.latencies[1]), (1, 1));
        assert_eq!(totals.latencies[LATENCIES - 1], 1);
        assert_eq!((totals.count(), totals.received_bytes, totals.sent_bytes), (3, 30, 60));
        assert_eq!(totals.latency_ns, 70_000_101_000);
        assert_eq!(totals.quantile_us(0.5), Some(100));
        assert_eq!(totals.quantile_us(0.99), None);
        assert_eq!(counters.kind(ValueKind::Cas).misses, [0, 0, 3]);
        assert_eq!(counters.refusals(RefusalReason::Full), 3);
        assert_eq!(counters.in_flight(), 0);
        assert_eq!(counters.call(CallName::Unknown).count(), 0);
    }

    #[test]
    fn questions_for_presence_are_no_hits() {
        let counters = Counters::new();
        let ended = Ended {
            name: CallName::Grpc(Method::FindMissing),
            outcome: Outcome::CUT,
            lookups: Lookups { hits: 2, misses: 3, reason: MissReason::Absent },
            refusal: None,
            latency: Duration::ZERO,
            received_bytes: 0,
            sent_bytes: 0,
        };
        counters.end(0, &ended);
        let totals = counters.kind(ValueKind::Cas);
        assert_eq!((totals.hits, totals.present, totals.absent), (0, 2, 3));
    }
}
