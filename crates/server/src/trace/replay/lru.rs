//! Exact LRU, and FIFO, which differs from it only in that a use does not move a blob.

use std::collections::HashMap;

use super::{Outcome, SimulatedCache};

/// The end of the list, where the newest and the oldest meet.
const HEAD: usize = 0;

/// A blob in the list from the newest to the oldest.
#[derive(Clone, Copy, Debug)]
struct Link {
    fingerprint: u64,
    size_bytes: u64,
    newer: usize,
    older: usize,
}

/// A simulated cache with a list of its blobs.
#[derive(Debug)]
pub(super) struct Lru {
    limit_bytes: u64,
    is_moved_by_use: bool,
    places: HashMap<u64, usize>,
    links: Vec<Link>,
    unused: Vec<usize>,
    bytes: u64,
}

impl Lru {
    pub(super) fn new(limit_bytes: u64, is_moved_by_use: bool) -> Self {
        let head = Link { fingerprint: 0, size_bytes: 0, newer: HEAD, older: HEAD };
        Self {
            limit_bytes,
            is_moved_by_use,
            places: HashMap::new(),
            links: vec![head],
            unused: Vec::new(),
            bytes: 0,
        }
    }

    fn unlink(&mut self, at: usize) {
        let Link { newer, older, .. } = self.links[at];
        self.links[newer].older = older;
        self.links[older].newer = newer;
    }

    fn link_newest(&mut self, at: usize) {
        let newest = self.links[HEAD].older;
        self.links[at].newer = HEAD;
        self.links[at].older = newest;
        self.links[newest].newer = at;
        self.links[HEAD].older = at;
    }

    fn evict_oldest(&mut self) {
        let oldest = self.links[HEAD].newer;
        self.unlink(oldest);
        let Link { fingerprint, size_bytes, .. } = self.links[oldest];
        self.places.remove(&fingerprint);
        self.unused.push(oldest);
        self.bytes -= size_bytes;
    }
}

impl SimulatedCache for Lru {
    fn request(&mut self, fingerprint: u64, size_bytes: u64, _: u64) -> Outcome {
        if let Some(at) = self.places.get(&fingerprint).copied() {
            if self.is_moved_by_use {
                self.unlink(at);
                self.link_newest(at);
            }
            return Outcome::Hit;
        }
        if size_bytes > self.limit_bytes {
            return Outcome::Refused;
        }
        while self.bytes.saturating_add(size_bytes) > self.limit_bytes {
            self.evict_oldest();
        }
        let link = Link { fingerprint, size_bytes, newer: HEAD, older: HEAD };
        let at = self.unused.pop().unwrap_or(self.links.len());
        match self.links.get_mut(at) {
            Some(unused) => *unused = link,
            None => self.links.push(link),
        }
        self.link_newest(at);
        self.places.insert(fingerprint, at);
        self.bytes += size_bytes;
        Outcome::Stored
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
