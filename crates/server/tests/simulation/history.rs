//! [`History`]: what each key may have, from what was attempted and acknowledged.
//!
//! A key's possible states are the last acknowledged one and what failed attempts since may have
//! left. A loss of power at level `process` makes all states since the last acknowledged purge
//! possible again. A purge is synced, so no state before it is ever possible.

use std::collections::BTreeMap;

/// A version of a key's value; `None` if it has none.
pub(crate) type Version = Option<u32>;

#[derive(Debug)]
struct KeyHistory {
    possible: Vec<Version>,
    /// All states since the last acknowledged purge.
    since_purge: Vec<Version>,
}

impl Default for KeyHistory {
    fn default() -> Self {
        Self { possible: vec![None], since_purge: vec![None] }
    }
}

/// What each key may have.
#[derive(Debug, Default)]
pub(crate) struct History {
    keys: BTreeMap<u32, KeyHistory>,
    /// Whether a value may be missing at any time, because of eviction or lost bytes.
    pub(crate) may_miss: bool,
    /// Whether failed syncs may have taken acknowledged values, so that older ones show.
    pub(crate) may_roll_back: bool,
}

impl History {
    /// A put or a purge was acknowledged.
    pub(crate) fn done(&mut self, key: u32, version: Version) {
        let history = self.keys.entry(key).or_default();
        history.possible = vec![version];
        if version.is_none() {
            history.since_purge.clear();
        }
        history.since_purge.push(version);
    }

    /// A put of a blob was acknowledged: the one version of the key exists.
    pub(crate) fn exists(&mut self, key: u32) {
        self.done(key, Some(0));
    }

    /// A put or a purge failed, so it has happened or not.
    pub(crate) fn attempted(&mut self, key: u32, version: Version) {
        let history = self.keys.entry(key).or_default();
        history.possible.push(version);
        history.since_purge.push(version);
    }

    /// Power was lost at level `process`.
    pub(crate) fn lost_power(&mut self) {
        for history in self.keys.values_mut() {
            history.possible.clone_from(&history.since_purge);
            history.possible.push(None);
        }
    }

    /// Compares a read.
    pub(crate) fn check(&self, key: u32, got: Version) {
        if got.is_none() && self.may_miss {
            return;
        }
        let none = KeyHistory::default();
        let history = self.keys.get(&key).unwrap_or(&none);
        let expected = if self.may_roll_back { &history.since_purge } else { &history.possible };
        assert!(expected.contains(&got), "key {key}: got {got:?}, expected one of {expected:?}");
    }
}
