//! Random faults that a correct client survives.
//!
//! A decision depends on the seed, the method, the path, the first requested byte (of a write: the
//! query) and the number of earlier equal requests. It does not depend on time or on the order of arrival. Equal requests
//! therefore meet equal faults in every run, even in parallel. After
//! [`FaultMix::faults_per_range_max`] faults for a range, its later requests succeed, so bounded
//! retries suffice.

use std::collections::HashMap;

use crate::{
    fault::Fault,
    random::{SplitMix64, key},
    script::Facts,
};

/// Probabilities of faults per request, each from 0 to 1; together at most 1.
///
/// A write gets other faults in their place: `cut` and `stall` are in the body of the request,
/// `reset` and `body_short_by_one` lose the response after the effect, and `short_range` is a 503
/// after the effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultMix {
    /// FIN at a random byte of the body.
    pub cut: f64,
    /// RST at a random byte of the body.
    pub reset: f64,
    /// FIN without a response.
    pub close_before_first_byte: f64,
    /// A body that ends one byte early.
    pub body_short_by_one: f64,
    /// 429 or 503, now and then with `Retry-After: 0`.
    pub busy: f64,
    /// A consistent response with fewer bytes than requested.
    pub short_range: f64,
    /// Half a head.
    pub truncated_head: f64,
    /// Silence after a random byte: needs a client with a stall limit.
    pub stall: f64,
    /// The maximum number of random faults for each method, path and first byte.
    pub faults_per_range_max: u32,
}

impl Default for FaultMix {
    /// No faults.
    fn default() -> Self {
        Self {
            cut: 0.0,
            reset: 0.0,
            close_before_first_byte: 0.0,
            body_short_by_one: 0.0,
            busy: 0.0,
            short_range: 0.0,
            truncated_head: 0.0,
            stall: 0.0,
            faults_per_range_max: 2,
        }
    }
}

impl FaultMix {
    /// Only cut connections, as on a long link.
    pub fn cuts(probability: f64) -> Self {
        Self { cut: probability, ..Self::default() }
    }

    /// All faults that end a request at once, in equal shares of `probability`. No stalls: a client
    /// recovers from a stall only after its stall timeout.
    pub fn recoverable(probability: f64) -> Self {
        let share = probability / 7.0;
        Self {
            cut: share,
            reset: share,
            close_before_first_byte: share,
            body_short_by_one: share,
            busy: share,
            short_range: share,
            truncated_head: share,
            ..Self::default()
        }
    }

    fn pick(&self, random: &mut SplitMix64, body_bytes: u64) -> Option<Fault> {
        let at = random.below(body_bytes);
        let busy = if random.below(2) == 0 { 429 } else { 503 };
        let retry_after = (random.below(2) == 0).then(|| "0".to_owned());
        let mut draw = random.fraction();
        let choices = [
            (self.cut, Fault::CutAfter(at)),
            (self.reset, Fault::ResetAfter(at)),
            (self.close_before_first_byte, Fault::CloseBeforeFirstByte),
            (self.body_short_by_one, Fault::BodyShortByOne),
            (self.busy, Fault::Status { code: busy, retry_after, body: String::new() }),
            (self.short_range, Fault::ShortRange(at.saturating_add(1))),
            (self.truncated_head, Fault::TruncatedHead),
            (self.stall, Fault::Stall(at)),
        ];
        for (probability, fault) in choices {
            if draw < probability {
                return Some(fault);
            }
            draw -= probability;
        }
        None
    }
}

/// The fault of a write in place of one of a read; `at` is a byte of the request's body.
fn of_write(fault: Fault, at: u64) -> Fault {
    match fault {
        Fault::CutAfter(_) => Fault::CutRequestAfter(at),
        Fault::Stall(_) => Fault::StallRequestAfter(at),
        Fault::ResetAfter(_) | Fault::BodyShortByOne => Fault::LoseResponse,
        Fault::ShortRange(_) => Fault::AfterEffect(Box::new(Fault::status(503))),
        other => other,
    }
}

/// The state of a random mix: the number of requests for each range.
#[derive(Debug)]
pub(crate) struct RandomFaults {
    seed: u64,
    mix: FaultMix,
    ranges: HashMap<u64, Asked>,
    applied: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Asked {
    times: u64,
    faults: u32,
}

impl RandomFaults {
    pub(crate) fn new(seed: u64, mix: FaultMix) -> Self {
        Self { seed, mix, ranges: HashMap::new(), applied: 0 }
    }

    pub(crate) fn applied(&self) -> u64 {
        self.applied
    }

    pub(crate) fn decide(&mut self, facts: &Facts<'_>) -> Option<Fault> {
        let first = facts.bytes.start.to_le_bytes();
        let is_write = !matches!(facts.method, "GET" | "HEAD");
        let mut parts = vec![facts.method.as_bytes(), facts.path.as_bytes(), &first];
        if is_write {
            // The object changes under a write, but the requests for its parts stay equal.
            parts.truncate(2);
            parts.push(facts.query.as_bytes());
        }
        let range = key(self.seed, &parts);
        let asked = self.ranges.entry(range).or_default();
        let mut random = SplitMix64::new(key(range, &[&asked.times.to_le_bytes()]));
        asked.times += 1;
        if asked.faults >= self.mix.faults_per_range_max {
            return None;
        }
        let body_bytes = facts.bytes.end.saturating_sub(facts.bytes.start);
        let mut fault = self.mix.pick(&mut random, body_bytes)?;
        if is_write {
            fault = of_write(fault, random.below(facts.body_bytes.saturating_add(1)));
        }
        asked.faults += 1;
        self.applied += 1;
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: u64, order: &[u64]) -> Vec<(u64, String)> {
        let mut random = RandomFaults::new(seed, FaultMix::recoverable(0.5));
        let mut outcomes: Vec<_> = order
            .iter()
            .map(|start| {
                let bytes = *start..*start + 100;
                let facts = Facts {
                    method: "GET",
                    path: "/k",
                    query: "",
                    fields: &[],
                    ranged: true,
                    bytes,
                    body_bytes: 0,
                };
                (*start, format!("{:?}", random.decide(&facts)))
            })
            .collect();
        outcomes.sort();
        outcomes
    }

    #[test]
    fn the_order_of_requests_changes_nothing() {
        let forward: Vec<u64> = (0..50).collect();
        let backward: Vec<u64> = (0..50).rev().collect();
        assert_eq!(run(1, &forward), run(1, &backward));
        assert_ne!(run(1, &forward), run(2, &forward));
    }

    #[test]
    fn one_range_fails_a_limited_number_of_times() {
        let mix = FaultMix { faults_per_range_max: 3, ..FaultMix::cuts(1.0) };
        let mut random = RandomFaults::new(9, mix);
        let facts = Facts {
            method: "GET",
            path: "/k",
            query: "",
            fields: &[],
            ranged: true,
            bytes: 0..10,
            body_bytes: 0,
        };
        let faults = (0..10).filter(|_| random.decide(&facts).is_some()).count();
        assert_eq!(faults, 3);
    }
}
