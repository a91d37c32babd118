//! Rules that assign faults to requests.
//!
//! Rules are tried in the order in which they were pushed. Each rule counts all requests that it
//! describes, including those that another rule took, so "the third GET" means the third. The first
//! rule that is due decides. After latency and a changed version, the search continues. The random
//! mix decides only if no rule is due.

use std::{
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{fault::Fault, mix::FaultMix, mix::RandomFaults};

/// The facts about a request that decide its fault.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    /// As sent, without the question mark.
    pub(crate) query: &'a str,
    /// The header fields as sent.
    pub(crate) fields: &'a [(String, String)],
    /// Whether the request has a satisfiable range.
    pub(crate) ranged: bool,
    /// The requested bytes of the blob; empty if there is no blob.
    pub(crate) bytes: Range<u64>,
    /// The length of the request's body, if its head says so.
    pub(crate) body_bytes: u64,
}

/// The ranges to which a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RangeMatch {
    /// Any request.
    #[default]
    Any,
    /// Requests with a satisfiable range.
    Ranged,
    /// Requests without one.
    Whole,
    /// Requests whose first byte is this one.
    StartsAt(u64),
    /// Requests whose first byte is this one or a later one.
    StartsFrom(u64),
    /// Requests whose range contains this byte.
    Covers(u64),
}

/// A fault and its requests. Default: the first request, once.
#[derive(Debug, Clone)]
pub struct Rule {
    fault: Fault,
    method: Option<String>,
    path: Option<String>,
    query: Option<String>,
    field: Option<(String, String)>,
    range: RangeMatch,
    skip: u64,
    times: u64,
    seen: u64,
    applied: u64,
}

impl Rule {
    /// This fault for the next request, once.
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            method: None,
            path: None,
            query: None,
            field: None,
            range: RangeMatch::Any,
            skip: 0,
            times: 1,
            seen: 0,
            applied: 0,
        }
    }

    /// Only for requests of this method.
    #[must_use]
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// Only for requests of this path, percent-decoded and without the query.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Only for requests whose query, as sent, contains this parameter: `uploads`, `partNumber=3`, or
    /// `uploadId=` with any value. `partNumber=3` does not describe `partNumber=30`.
    #[must_use]
    pub fn query(mut self, parameter: impl Into<String>) -> Self {
        self.query = Some(parameter.into());
        self
    }

    /// Only for requests with a header field of this name that contains this text, such as a token.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.field = Some((name.into(), text.into()));
        self
    }

    /// Only for requests of these ranges.
    #[must_use]
    pub fn range(mut self, range: RangeMatch) -> Self {
        self.range = range;
        self
    }

    /// Starts at the `n`th request that this rule describes, counted from 1.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.skip = n.saturating_sub(1);
        self
    }

    /// For this many requests.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// For every request from the `nth` on.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(u64::MAX)
    }

    fn describes(&self, facts: &Facts<'_>) -> bool {
        let method = self.method.as_deref().is_none_or(|m| m.eq_ignore_ascii_case(facts.method));
        let path = self.path.as_deref().is_none_or(|p| p == facts.path);
        let query = self.query.as_deref().is_none_or(|query| has_parameter(facts.query, query));
        let field = self.field.as_ref().is_none_or(|(name, text)| {
            let mut fields = facts.fields.iter();
            fields.any(|(n, value)| n.eq_ignore_ascii_case(name) && value.contains(text.as_str()))
        });
        let range = match self.range {
            RangeMatch::Any => true,
            RangeMatch::Ranged => facts.ranged,
            RangeMatch::Whole => !facts.ranged,
            RangeMatch::StartsAt(offset) => facts.bytes.start == offset,
            RangeMatch::StartsFrom(offset) => facts.bytes.start >= offset,
            RangeMatch::Covers(offset) => facts.bytes.contains(&offset),
        };
        method && path && query && field && range
    }

    /// Counts a request and says whether this rule is due for it.
    fn due(&mut self, facts: &Facts<'_>) -> bool {
        if !self.describes(facts) {
            return false;
        }
        self.seen = self.seen.saturating_add(1);
        self.seen > self.skip && self.applied < self.times
    }
}

/// Whether a query has a parameter: by its name, its name and value, or several with `&`.
fn has_parameter(query: &str, wanted: &str) -> bool {
    query.match_indices(wanted).any(|(at, _)| {
        let (before, after) = (&query[..at], &query[at + wanted.len()..]);
        let begins = before.is_empty() || before.ends_with('&');
        begins && (wanted.ends_with('=') || after.is_empty() || after.starts_with(['&', '=']))
    })
}

/// The faults of one server; rules may be added while it runs.
#[derive(Debug, Default)]
pub struct Script {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    random: Option<RandomFaults>,
}

impl Script {
    /// Adds a rule after those already there.
    pub fn push(&self, rule: Rule) {
        self.lock().rules.push(rule);
    }

    /// The next request gets this fault: `push(Rule::new(fault))`.
    pub fn next(&self, fault: Fault) {
        self.push(Rule::new(fault));
    }

    /// Every request from now on gets this fault: `push(Rule::new(fault).always())`.
    pub fn always(&self, fault: Fault) {
        self.push(Rule::new(fault).always());
    }

    /// Adds random faults. They depend on the seed, the path, the first requested byte and the
    /// number of earlier equal requests, so the order of parallel requests has no effect.
    pub fn random(&self, seed: u64, mix: FaultMix) {
        self.lock().random = Some(RandomFaults::new(seed, mix));
    }

    /// Forgets all rules and the random mix.
    pub fn clear(&self) {
        *self.lock() = State::default();
    }

    /// How often rules and the random mix have applied a fault since the last [`Script::clear`].
    pub fn applied(&self) -> u64 {
        let state = self.lock();
        let random = state.random.as_ref().map_or(0, RandomFaults::applied);
        state.rules.iter().map(|rule| rule.applied).fold(random, u64::saturating_add)
    }

    pub(crate) fn decide(&self, facts: &Facts<'_>) -> Vec<Fault> {
        let mut state = self.lock();
        let mut faults: Vec<Fault> = Vec::new();
        let mut decided = false;
        for rule in &mut state.rules {
            // Every rule counts every request, also after the decision.
            if rule.due(facts) && !decided {
                rule.applied += 1;
                decided = !rule.fault.lets_others_apply();
                faults.push(rule.fault.clone());
            }
        }
        if let (false, Some(random)) = (decided, &mut state.random) {
            faults.extend(random.decide(facts));
        }
        faults
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(method: &str, bytes: Range<u64>) -> Facts<'_> {
        Facts { method, path: "/b/k", query: "", fields: &[], ranged: true, bytes, body_bytes: 0 }
    }

    fn codes(script: &Script, facts: &Facts<'_>) -> Vec<u16> {
        let code = |fault| match fault {
            Fault::Status { code, .. } => code,
            Fault::Latency(_) => 1,
            _ => 0,
        };
        script.decide(facts).into_iter().map(code).collect()
    }

    #[test]
    fn a_rule_waits_for_its_turn_and_stops() {
        let script = Script::default();
        script.push(Rule::new(Fault::status(503)).method("GET").nth(2).times(2));
        let outcomes: Vec<_> = (0..5).map(|_| codes(&script, &facts("GET", 0..1))).collect();
        assert_eq!(outcomes, [vec![], vec![503], vec![503], vec![], vec![]]);
        assert!(codes(&script, &facts("HEAD", 0..1)).is_empty());
        assert_eq!(script.applied(), 2);
    }

    #[test]
    fn a_rule_may_be_about_a_field() {
        let script = Script::default();
        script.push(Rule::new(Fault::status(401)).field("authorization", "old").always());
        let fields = |value: &str| vec![("Authorization".to_owned(), value.to_owned())];
        for (value, expected) in [("Bearer old", vec![401]), ("Bearer new", vec![])] {
            let fields = fields(value);
            let facts = Facts { fields: &fields, ..facts("GET", 0..1) };
            assert_eq!(codes(&script, &facts), expected, "{value}");
        }
        assert!(codes(&script, &facts("GET", 0..1)).is_empty());
    }

    #[test]
    fn a_rule_may_be_about_a_parameter() {
        let cases = [
            ("partNumber=3&uploadId=a", "partNumber=3", true),
            ("uploadId=a&partNumber=3", "partNumber=3", true),
            ("partNumber=30&uploadId=a", "partNumber=3", false),
            ("xpartNumber=3", "partNumber=3", false),
            ("partNumber=3&uploadId=a", "uploadId=", true),
            ("uploads=", "uploads", true),
            ("uploads", "uploads", true),
            ("", "uploads", false),
        ];
        for (query, wanted, expected) in cases {
            assert_eq!(has_parameter(query, wanted), expected, "{query} {wanted}");
        }
    }

    #[test]
    fn the_first_due_rule_decides_and_latency_goes_along() {
        let script = Script::default();
        script.always(Fault::Latency(1));
        script.next(Fault::status(429));
        script.push(Rule::new(Fault::status(500)).range(RangeMatch::Covers(7)).nth(2));
        assert_eq!(codes(&script, &facts("GET", 0..10)), [1, 429]);
        assert_eq!(codes(&script, &facts("GET", 8..10)), [1]);
        assert_eq!(codes(&script, &facts("GET", 5..8)), [1, 500]);
    }
}
