//! [`RepMaxCdc`]: a chunk ends at the place with the largest Gear hash within a horizon, or at the
//! largest before that, and so on, until the chunk is short enough.
//!
//! Ed Schouten's `RepMaxCDC` as the Remote Execution API has it; the cut points are
//!
//! ```text
//! d = min(remaining, 2*min + horizon)
//! if d < 2*min: the chunk is all d bytes
//! lim = d - min
//! loop: best = first strict unsigned maximum, over the places in [min, lim], of the hash
//!       if best < 2*min: cut at best
//!       lim = best - min
//! ```
//!
//! # How every byte is hashed once
//!
//! All of these maxima are *records*: places whose hash is larger than that of every place since
//! `start + min`, the first where a cut may be. Whatever `lim` is, the best place up to it is the
//! last record up to it. So the records, some dozens in megabytes, are all that is kept of what was
//! scanned; nothing is scanned again for a smaller `lim`.
//!
//! Nor for the next chunk. A record that is the largest for `min` places beyond itself will be cut
//! at whatever follows: a later best place is at least `min` further, so going back from there by
//! `min` ends at this record or beyond it. All cuts up to such a record are known at once (each
//! record is less than `min` from the next, or it would have been such a record itself, so no
//! chunk among them is too long), and its successors begin with an empty list.
//!
//! Only where records follow each other closely for a whole horizon, or up to the blob's end, a cut
//! is made without one. The places from the next chunk's first up to the next known record were
//! overshadowed by records that are gone; they are hashed again, less than `min` of them for a
//! chunk. For that, bytes that might be needed are kept: at most a horizon's.

use std::vec::Drain;

use super::RepMaxCdcParams;
use super::gear::{self, GEAR, WINDOW_BYTES};
use super::records::{self, Record};

const WINDOW: u64 = WINDOW_BYTES as u64;

/// Cuts by `RepMaxCDC`, incrementally. Places are offsets in the blob: so many bytes are before
/// them.
#[derive(Clone, Debug)]
pub struct RepMaxCdc {
    min: u64,
    horizon: u64,
    /// Where the current chunk begins.
    start: u64,
    /// Bytes that were fed.
    at: u64,
    /// The hash at `at`; of no meaning where `at` is too far from the first place to hash.
    hash: u64,
    /// Those from `start + min` to `at`; each less than `min` from the next, the last less than
    /// `min` from `at`. Empty while `at` is before all of them.
    records: Vec<Record>,
    history: History,
    lengths: Vec<u64>,
}

/// The bytes that may have to be hashed again: from `from` on, where they were fed already.
#[derive(Clone, Debug, Default)]
struct History {
    from: u64,
    bytes: Vec<u8>,
}

impl RepMaxCdc {
    /// At the beginning of a blob.
    pub fn new(params: &RepMaxCdcParams) -> Self {
        let mut new = Self {
            min: params.min_bytes(),
            horizon: params.horizon_bytes(),
            start: 0,
            at: 0,
            hash: 0,
            records: Vec::new(),
            history: History::default(),
            lengths: Vec::new(),
        };
        new.begin();
        new
    }

    /// As [`Cutter::feed`](super::Cutter::feed).
    pub fn feed(&mut self, mut bytes: &[u8]) -> Drain<'_, u64> {
        while !bytes.is_empty() {
            let taken = self.take(bytes);
            let (taken, rest) = bytes.split_at(taken);
            self.history.keep(self.at, taken);
            bytes = rest;
            if self.at == self.horizon_end() {
                self.cut_before(self.at - self.min);
            }
        }
        self.lengths.drain(..)
    }

    /// As [`Cutter::pass`](super::Cutter::pass); nothing but at a blob's beginning.
    pub fn pass(&mut self, count_max: u64) -> u64 {
        let passed = self.unhashed_end().saturating_sub(self.at).min(count_max);
        self.at += passed;
        passed
    }

    /// As [`Cutter::finish`](super::Cutter::finish).
    pub fn finish(&mut self) -> Drain<'_, u64> {
        while self.at - self.start >= 2 * self.min {
            self.cut_before(self.at - self.min);
        }
        if self.at > self.start {
            self.lengths.push(self.at - self.start);
        }
        (self.start, self.at, self.hash) = (0, 0, 0);
        self.records.clear();
        self.history = History::default();
        self.begin();
        self.lengths.drain(..)
    }

    /// The first place where a cut may be.
    fn first(&self) -> u64 {
        self.start + self.min
    }

    /// The bytes before this have no say in any cut that is not made yet.
    fn unhashed_end(&self) -> u64 {
        self.first() - WINDOW
    }

    /// With so many bytes there, the next cut is decided.
    fn horizon_end(&self) -> u64 {
        self.start + 2 * self.min + self.horizon
    }

    /// Takes some of the bytes, at least one, up to where something is to be decided.
    fn take(&mut self, bytes: &[u8]) -> usize {
        let unhashed_end = self.unhashed_end();
        if self.at < unhashed_end {
            let taken = self.ahead(bytes, unhashed_end);
            self.at += taken as u64;
            return taken;
        }
        let Some(last) = self.records.last().copied() else {
            let taken = self.ahead(bytes, self.first());
            self.roll(&bytes[..taken]);
            if self.at == self.first() {
                self.records.push(Record { at: self.at, hash: self.hash });
            }
            return taken;
        };
        // The place at this end is the first for the chunk after that record.
        let end = last.at + self.min;
        if self.at + 1 < end {
            let taken = self.ahead(bytes, (end - 1).min(self.horizon_end()));
            let taken_bytes = &bytes[..taken];
            records::records(&GEAR, &mut self.hash, self.at, taken_bytes, &mut self.records);
            self.at += taken as u64;
            return taken;
        }
        self.roll(&bytes[..1]);
        self.cut_at_all_up_to(last);
        self.records.push(Record { at: self.at, hash: self.hash });
        1
    }

    fn roll(&mut self, bytes: &[u8]) {
        self.hash = gear::roll(&GEAR, self.hash, bytes);
        self.at += bytes.len() as u64;
    }

    /// How many of the bytes there are up to the place `end`, which is ahead.
    fn ahead(&self, bytes: &[u8], end: u64) -> usize {
        usize::try_from(end - self.at).map_or(bytes.len(), |ahead| ahead.min(bytes.len()))
    }

    /// The last record up to a place.
    fn best_up_to(&self, place: u64) -> Option<Record> {
        let count = self.records.partition_point(|record| record.at <= place);
        self.records[..count].last().copied()
    }

    /// Makes all cuts up to a record that is the largest for `min` places beyond itself.
    fn cut_at_all_up_to(&mut self, last: Record) {
        let known = self.lengths.len();
        let mut end = last.at;
        while let Some(before) = self.best_up_to(end - self.min) {
            self.lengths.push(end - before.at);
            end = before.at;
        }
        self.lengths.push(end - self.start);
        self.lengths[known..].reverse();
        self.start = last.at;
        self.records.clear();
        self.begin();
    }

    /// Makes the next cut, where the furthest place allowed is `limit`; it was scanned, and the
    /// first place is not beyond it.
    fn cut_before(&mut self, mut limit: u64) {
        let mut cut = self.first();
        while let Some(best) = self.best_up_to(limit) {
            cut = best.at;
            if cut < self.start + 2 * self.min {
                break;
            }
            limit = cut - self.min;
        }
        self.lengths.push(cut - self.start);
        self.start = cut;
        self.records.drain(..self.records.partition_point(|record| record.at < cut + self.min));
        self.recall();
        self.begin();
    }

    /// Finds the records again between the first place and the next one known.
    fn recall(&mut self) {
        let first = self.first();
        let end = self.records.first().map_or(self.at, |record| record.at - 1);
        if end < first {
            return;
        }
        let bytes = self.history.range(first - WINDOW, end);
        let (window, bytes) = bytes.split_at(WINDOW_BYTES.min(bytes.len()));
        let mut hash = gear::roll(&GEAR, 0, window);
        let mut records = vec![Record { at: first, hash }];
        records::records(&GEAR, &mut hash, first, bytes, &mut records);
        records.append(&mut self.records);
        self.records = records;
    }

    /// Keeps from now on what the current chunk's successor may need.
    fn begin(&mut self) {
        self.history.forget(self.start + 2 * self.min - WINDOW);
    }
}

impl History {
    /// Takes the bytes before the place `at`, which were just fed.
    fn keep(&mut self, at: u64, bytes: &[u8]) {
        let wanted = usize::try_from(at.saturating_sub(self.from)).unwrap_or(usize::MAX);
        self.bytes.extend_from_slice(&bytes[bytes.len().saturating_sub(wanted)..]);
    }

    /// Lets go of what is before the place `from`.
    fn forget(&mut self, from: u64) {
        let count = usize::try_from(from.saturating_sub(self.from)).unwrap_or(usize::MAX);
        self.bytes.drain(..count.min(self.bytes.len()));
        self.from = from;
    }

    /// What was fed between two places.
    fn range(&self, from: u64, to: u64) -> &[u8] {
        let index = |place: u64| usize::try_from(place.saturating_sub(self.from)).ok();
        let range = index(from).zip(index(to)).map(|(from, to)| from..to);
        range.and_then(|range| self.bytes.get(range)).unwrap_or_default()
    }
}
