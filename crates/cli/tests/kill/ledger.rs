//! [`Ledger`]: what a writer sent, and what of it was acknowledged.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use fastrand::Rng;
use tidegate_core::digest::{Digest, DigestFunction};

/// What the server has under a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    Blob(Digest),
    /// An action result, by the digest of its action.
    Action(Digest),
    /// An opaque value, by its path.
    Value(String),
}

/// Content; noise is made again when it is needed.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Noise { seed: u64, len: usize },
    Exactly(Bytes),
}

impl Content {
    pub(crate) fn bytes(&self) -> Bytes {
        match self {
            Self::Noise { seed, len } => {
                let mut bytes = vec![0; *len];
                Rng::with_seed(*seed).fill(&mut bytes);
                bytes.into()
            }
            Self::Exactly(bytes) => bytes.clone(),
        }
    }

    /// The digest and the bytes.
    pub(crate) fn blob(&self) -> (Digest, Bytes) {
        let bytes = self.bytes();
        (Digest::of(DigestFunction::Sha256, &bytes), bytes)
    }
}

#[derive(Debug, Default)]
struct Entry {
    acknowledged: Option<Content>,
    /// Sent in the current life and not acknowledged.
    in_flight: Option<Content>,
}

/// What one writer sent. No two writers use one name.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: HashMap<Name, Entry>,
    /// The names of the current life.
    recent: HashSet<Name>,
    blobs: Vec<Digest>,
    /// Names whose content can be replaced.
    replaceable: Vec<Name>,
}

impl Ledger {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Before a request.
    pub(crate) fn sends(&mut self, name: &Name, content: Content) {
        self.recent.insert(name.clone());
        self.entries.entry(name.clone()).or_default().in_flight = Some(content);
    }

    /// After its acknowledgement.
    pub(crate) fn acknowledges(&mut self, name: &Name) {
        let entry = self.entries.entry(name.clone()).or_default();
        let is_new = entry.acknowledged.is_none();
        entry.acknowledged = entry.in_flight.take();
        if is_new {
            self.index(name);
        }
    }

    fn index(&mut self, name: &Name) {
        match name {
            Name::Blob(digest) => self.blobs.push(*digest),
            Name::Action(_) | Name::Value(_) => self.replaceable.push(name.clone()),
        }
    }

    /// An acknowledged blob.
    pub(crate) fn a_blob(&self, random: &mut Rng) -> Option<Digest> {
        random.choice(&self.blobs).copied()
    }

    /// An acknowledged name whose content can be replaced.
    pub(crate) fn a_replaceable(&self, random: &mut Rng) -> Option<Name> {
        random.choice(&self.replaceable).cloned()
    }

    /// The names of the last life, and some of earlier lives.
    pub(crate) fn take_recent(&mut self, random: &mut Rng, sample: usize) -> Vec<Name> {
        let mut names: HashSet<Name> = std::mem::take(&mut self.recent);
        for _ in 0..sample {
            names.extend(self.a_blob(random).map(Name::Blob));
            names.extend(self.a_replaceable(random));
        }
        names.into_iter().collect()
    }

    /// All names.
    pub(crate) fn names(&self) -> Vec<Name> {
        self.entries.keys().cloned().collect()
    }

    /// Compares what the server has under a name, and notes it. Whether it was in flight.
    #[track_caller]
    pub(crate) fn compare(&mut self, name: &Name, found: Option<&Bytes>) -> bool {
        let entry = self.entries.get_mut(name).unwrap();
        let was_in_flight = entry.in_flight.is_some();
        let Some(found) = found else {
            assert!(entry.acknowledged.is_none(), "{name:?} was acknowledged and is gone");
            self.entries.remove(name);
            return was_in_flight;
        };
        let is =
            |content: &Option<Content>| content.as_ref().is_some_and(|one| one.bytes() == found);
        let in_flight = entry.in_flight.take();
        if is(&in_flight) {
            // It was stored, so from now on it must stay.
            if std::mem::replace(&mut entry.acknowledged, in_flight).is_none() {
                self.index(name);
            }
        } else {
            assert!(is(&entry.acknowledged), "{name:?} has other bytes ({})", found.len());
        }
        was_in_flight
    }
}
