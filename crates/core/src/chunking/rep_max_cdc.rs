//! [`RepMaxCdc`]: a chunk ends at the position with the largest Gear hash within a horizon. If that
//! chunk is too long, it ends at the largest hash before that, and so on.
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
//! All of these maxima are *records*: positions whose hash is larger than that of every position
//! since `start + min`, the first possible cut. For every `lim`, the best position up to it is the
//! last record up to it. So only the records are kept of the scanned bytes, some dozens in
//! megabytes. A smaller `lim` needs no second scan.
//!
//! The next chunk needs no second scan either. Take a record that is the largest for `min`
//! positions beyond itself. It will be a cut, independent of the bytes that follow: a later best
//! position is at least `min` further, so going back from there by `min` ends at this record or
//! beyond it. All cuts up to such a record are known at once. Each record among them is less than
//! `min` from the next, or it would have been such a record itself; so none of these chunks is too
//! long. The chunk after the record begins with an empty list.
//!
//! A cut is made without such a record in one case only: if records follow each other closely for a
//! whole horizon, or up to the blob's end. Between the next chunk's first position and the next
//! known record, earlier records hid smaller ones. These positions are hashed again, less than
//! `min` of them per chunk. For that, the bytes that may be needed are kept: at most a horizon's.

use std::vec::Drain;

use super::RepMaxCdcParams;
use super::gear::{self, GEAR, WINDOW_BYTES};
use super::records::{self, Record};

const WINDOW: u64 = WINDOW_BYTES as u64;

/// Cuts by `RepMaxCDC`, incrementally. A position is an offset in the blob: the number of bytes
/// before it.
#[derive(Clone, Debug)]
pub struct RepMaxCdc {
    min: u64,
    horizon: u64,
    /// The start of the current chunk.
    start: u64,
    /// The number of bytes fed.
    at: u64,
    /// The hash at `at`. It has no meaning while `at` is too far before the first position to hash.
    hash: u64,
    /// The records from `start + min` to `at`. Each is less than `min` from the next, and the last
    /// less than `min` from `at`. Empty while `at` is before `start + min`.
    records: Vec<Record>,
    history: History,
    lengths: Vec<u64>,
}

/// The fed bytes from position `from` on, which may have to be hashed again.
#[derive(Clone, Debug, Default)]
struct History {
    from: u64,
    bytes: Vec<u8>,
}

impl RepMaxCdc {
    /// A cutter at the start of a blob.
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

    /// As [`Cutter::pass`](super::Cutter::pass). It skips bytes only at the start of a blob.
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

    /// The first possible cut of the current chunk.
    fn first(&self) -> u64 {
        self.start + self.min
    }

    /// Bytes before this position affect no cut that is still open.
    fn unhashed_end(&self) -> u64 {
        self.first() - WINDOW
    }

    /// Once this many bytes were fed, the next cut is decided.
    fn horizon_end(&self) -> u64 {
        self.start + 2 * self.min + self.horizon
    }

    /// Takes some of the bytes: at least one, and at most up to the next decision.
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
        // The position at this end is the first possible cut of the chunk after that record.
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

    /// The number of `bytes` up to the position `end`, which must not be before `at`.
    fn ahead(&self, bytes: &[u8], end: u64) -> usize {
        usize::try_from(end - self.at).map_or(bytes.len(), |ahead| ahead.min(bytes.len()))
    }

    /// The last record up to a position.
    fn best_up_to(&self, place: u64) -> Option<Record> {
        let count = self.records.partition_point(|record| record.at <= place);
        self.records[..count].last().copied()
    }

    /// Makes all cuts up to a record that is the largest for `min` positions beyond itself.
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

    /// Makes the next cut, at `limit` or before. `limit` must have been scanned, and must not be
    /// before the first possible cut.
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

    /// Hashes again from the first possible cut to the next known record, and restores the records
    /// there.
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

    /// Drops the bytes that the chunk after the current one cannot need.
    fn begin(&mut self) {
        self.history.forget(self.start + 2 * self.min - WINDOW);
    }
}

impl History {
    /// Keeps the bytes before the position `at`, which were just fed.
    fn keep(&mut self, at: u64, bytes: &[u8]) {
        let wanted = usize::try_from(at.saturating_sub(self.from)).unwrap_or(usize::MAX);
        self.bytes.extend_from_slice(&bytes[bytes.len().saturating_sub(wanted)..]);
    }

    /// Drops the bytes before the position `from`.
    fn forget(&mut self, from: u64) {
        let count = usize::try_from(from.saturating_sub(self.from)).unwrap_or(usize::MAX);
        self.bytes.drain(..count.min(self.bytes.len()));
        self.from = from;
    }

    /// The fed bytes between two positions.
    fn range(&self, from: u64, to: u64) -> &[u8] {
        let index = |place: u64| usize::try_from(place.saturating_sub(self.from)).ok();
        let range = index(from).zip(index(to)).map(|(from, to)| from..to);
        range.and_then(|range| self.bytes.get(range)).unwrap_or_default()
    }
}
