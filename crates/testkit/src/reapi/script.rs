//! Rules that assign faults to calls.
//!
//! Each rule counts all calls that it describes, so "the third Read" means the third. All rules
//! that are due apply together. If two rules contradict each other, the one that was pushed first
//! decides.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{fault::ReapiFault, rpc::Rpc};
use crate::random::{SplitMix64, key};

/// The facts about a call that decide its faults.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) rpc: Rpc,
    /// The hashes of the call's blobs.
    pub(crate) hashes: &'a [String],
}

/// A fault and its calls. Default: the first call, once.
#[derive(Debug, Clone)]
pub struct ReapiRule {
    fault: ReapiFault,
    rpc: Option<Rpc>,
    hash: Option<String>,
    skip: u64,
    times: u64,
    chance: Option<(u64, f64)>,
    seen: u64,
    applied: u64,
}

impl ReapiRule {
    /// This fault for the next call, once.
    pub fn new(fault: ReapiFault) -> Self {
        Self { fault, rpc: None, hash: None, skip: 0, times: 1, chance: None, seen: 0, applied: 0 }
    }

    /// Only for calls of this kind.
    #[must_use]
    pub fn rpc(mut self, rpc: Rpc) -> Self {
        self.rpc = Some(rpc);
        self
    }

    /// Only for calls whose blobs include the one with this hash.
    #[must_use]
    pub fn hash(mut self, hash: impl Into<String>) -> Self {
        self.hash = Some(hash.into());
        self
    }

    /// Starts at the `n`th call that this rule describes, counted from 1.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.skip = n.saturating_sub(1);
        self
    }

    /// For this many calls.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// For every call from the `nth` on.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(u64::MAX)
    }

    /// Only for a random part of these calls: a probability from 0 to 1. The decision depends on
    /// the seed, the kind of call, its blobs, and the number of calls that the rule has seen.
    #[must_use]
    pub fn chance(mut self, seed: u64, probability: f64) -> Self {
        self.chance = Some((seed, probability));
        self
    }

    fn describes(&self, facts: &Facts<'_>) -> bool {
        self.rpc.is_none_or(|rpc| rpc == facts.rpc)
            && self.hash.as_ref().is_none_or(|hash| facts.hashes.contains(hash))
    }

    /// Counts a call and says whether this rule is due for it.
    fn due(&mut self, facts: &Facts<'_>) -> bool {
        if !self.describes(facts) {
            return false;
        }
        self.seen = self.seen.saturating_add(1);
        if self.seen <= self.skip || self.applied >= self.times {
            return false;
        }
        let lucky = self.chance.is_none_or(|(seed, probability)| {
            let first = facts.hashes.first().map_or("", String::as_str);
            let parts = [&[u8::try_from(facts.rpc.index()).unwrap_or(0)][..], first.as_bytes()];
            let mut random = SplitMix64::new(key(seed, &parts) ^ self.seen);
            random.fraction() < probability
        });
        self.applied += u64::from(lucky);
        lucky
    }
}

/// The faults of one server; rules may be added while it runs.
#[derive(Debug, Default)]
pub struct ReapiScript {
    rules: Mutex<Vec<ReapiRule>>,
}

impl ReapiScript {
    /// Adds a rule after those already there.
    pub fn push(&self, rule: ReapiRule) {
        self.lock().push(rule);
    }

    /// The next call of this kind gets this fault.
    pub fn next(&self, rpc: Rpc, fault: ReapiFault) {
        self.push(ReapiRule::new(fault).rpc(rpc));
    }

    /// Every call of this kind from now on gets this fault.
    pub fn always(&self, rpc: Rpc, fault: ReapiFault) {
        self.push(ReapiRule::new(fault).rpc(rpc).always());
    }

    /// Forgets all rules.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// How often rules have applied since the last [`ReapiScript::clear`].
    pub fn applied(&self) -> u64 {
        self.lock().iter().map(|rule| rule.applied).fold(0, u64::saturating_add)
    }

    pub(crate) fn decide(&self, facts: &Facts<'_>) -> Vec<ReapiFault> {
        let mut rules = self.lock();
        rules.iter_mut().filter_map(|rule| rule.due(facts).then(|| rule.fault.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ReapiRule>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(script: &ReapiScript, rpc: Rpc, hash: &str) -> Vec<u64> {
        let faults = script.decide(&Facts { rpc, hashes: &[hash.to_owned()] });
        faults
            .into_iter()
            .map(|fault| match fault {
                ReapiFault::Delay(ms) => ms,
                _ => 0,
            })
            .collect()
    }

    #[test]
    fn rules_wait_for_their_turn_and_apply_together() {
        let script = ReapiScript::default();
        script.push(ReapiRule::new(ReapiFault::Delay(1)).rpc(Rpc::Read).nth(2).times(2));
        script.push(ReapiRule::new(ReapiFault::Delay(2)).hash("b").always());
        assert!(delays(&script, Rpc::Read, "a").is_empty());
        assert_eq!(delays(&script, Rpc::Read, "b"), [1, 2]);
        assert_eq!(delays(&script, Rpc::Split, "b"), [2]);
        assert_eq!(delays(&script, Rpc::Read, "a"), [1]);
        assert!(delays(&script, Rpc::Read, "a").is_empty());
        assert_eq!(script.applied(), 4);
    }

    #[test]
    fn chance_repeats_with_its_seed() {
        let run = |seed| {
            let script = ReapiScript::default();
            script.push(ReapiRule::new(ReapiFault::Lost).chance(seed, 0.5).always());
            (0..64).map(|_| delays(&script, Rpc::Read, "a").len()).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
