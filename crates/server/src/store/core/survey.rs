//! A survey of the index: how much is stored, when it was used, what takes most, and a sample of the
//! values, whose records say what they are. It reads the whole table: 8 million entries take some
//! 100 ms.

use std::collections::BinaryHeap;

use super::{Core, TICKS_PER_SECOND};
use crate::store::error::StoreResult;
use crate::store::index::Entry;
use crate::store::key::{Fingerprint, Key};

/// Values of the survey's list of the largest.
const LARGEST_MAX: usize = 20;

/// Values of each sample. The part of a kind is right within 6 percent points, 19 times of 20.
const SAMPLE_MAX: usize = 256;

/// The upper bounds of the classes of age, in seconds since the last use: an hour, six; a day, a week,
/// four. Older values are in a last class.
pub const AGE_BOUNDS_SECONDS: [u64; 5] = [3600, 21_600, 86_400, 604_800, 2_419_200];

/// The classes of age.
const AGES: usize = AGE_BOUNDS_SECONDS.len() + 1;

/// A number of values and their bytes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueSum {
    /// Values.
    pub values: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl ValueSum {
    fn add(&mut self, bytes: u64) {
        self.values += 1;
        self.bytes += bytes;
    }
}

/// A value whose record was read.
#[derive(Clone, Debug)]
pub(crate) struct SurveyedValue {
    pub(crate) key: Key,
    pub(crate) form: u8,
    /// The size that its writer said.
    pub(crate) size: u64,
    /// Its bytes on the disk.
    pub(crate) bytes: u64,
}

/// What the index says.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexSurvey {
    /// Values that are records, and values that are files.
    pub(crate) records: ValueSum,
    pub(crate) files: ValueSum,
    pub(crate) ages: [ValueSum; AGES],
    pub(crate) largest: Vec<SurveyedValue>,
    pub(crate) sampled_records: Vec<SurveyedValue>,
    pub(crate) sampled_files: Vec<SurveyedValue>,
}

/// The entries with the smallest of some number.
#[derive(Debug)]
struct Smallest {
    max: usize,
    entries: BinaryHeap<(u64, [u64; 4], u16)>,
}

impl Smallest {
    fn new(max: usize) -> Self {
        Self { max, entries: BinaryHeap::with_capacity(max + 1) }
    }

    fn add(&mut self, rank: u64, entry: &Entry, selector: u16) {
        let is_full = self.entries.len() == self.max;
        if is_full && self.entries.peek().is_some_and(|last| rank >= last.0) {
            return;
        }
        self.entries.push((rank, entry.0, selector));
        if is_full {
            self.entries.pop();
        }
    }

    fn into_entries(self) -> impl Iterator<Item = (Fingerprint, Entry)> {
        let sorted = self.entries.into_sorted_vec().into_iter();
        sorted.map(|(_, words, selector)| (Entry(words).fingerprint(selector), Entry(words)))
    }
}

impl Core {
    /// Surveys the index; `None` while it is being loaded, because a survey would load the rest at once.
    /// Touches nothing.
    pub(crate) fn survey(&self) -> StoreResult<Option<IndexSurvey>> {
        if !self.is_loaded() {
            return Ok(None);
        }
        let mut survey = IndexSurvey::default();
        let mut largest = Smallest::new(LARGEST_MAX);
        let (mut records, mut files) = (Smallest::new(SAMPLE_MAX), Smallest::new(SAMPLE_MAX));
        let now = self.now();
        for shard in 0..self.shards() {
            for (fingerprint, entry) in self.entries(shard) {
                let bytes = entry.record_bytes() + entry.file_bytes();
                let age = u64::from(now.saturating_sub(entry.last_use())) / TICKS_PER_SECOND;
                let class = AGE_BOUNDS_SECONDS.iter().position(|bound| age < *bound);
                survey.ages[class.unwrap_or(AGES - 1)].add(bytes);
                largest.add(u64::MAX - bytes, &entry, fingerprint.shard);
                // Fingerprints are random, so the smallest ones are a fair sample.
                if entry.is_file() {
                    survey.files.add(bytes);
                    files.add(fingerprint.high, &entry, fingerprint.shard);
                } else {
                    survey.records.add(bytes);
                    records.add(fingerprint.high, &entry, fingerprint.shard);
                }
            }
        }
        survey.largest = self.read_surveyed(largest)?;
        survey.sampled_records = self.read_surveyed(records)?;
        survey.sampled_files = self.read_surveyed(files)?;
        Ok(Some(survey))
    }

    /// What the records of entries say. Values that have moved or gone meanwhile are left out.
    fn read_surveyed(&self, entries: Smallest) -> StoreResult<Vec<SurveyedValue>> {
        let mut values = Vec::new();
        for (_, entry) in entries.into_entries() {
            let Some(record) = self.read_record(&entry)? else { continue };
            let Some(key) = record.header.whole_key(&record.bytes) else { continue };
            let bytes = entry.record_bytes() + entry.file_bytes();
            let (form, size) = (record.header.form, record.header.size);
            values.push(SurveyedValue { key, form, size, bytes });
        }
        Ok(values)
    }
}
