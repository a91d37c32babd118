//! What the scrub needs: all entries, and each value without a touch.

use bytes::Bytes;

use super::Core;
use crate::store::error::{StoreError, StoreResult};
use crate::store::files::StoredFile;
use crate::store::index::Entry;
use crate::store::key::{Fingerprint, Key};
use crate::store::pack::RecordKind;

/// A value as the scrub finds it.
#[derive(Debug)]
pub(crate) enum Scrubbed {
    /// A record of this many bytes, which is right.
    Record(u64),
    /// A file, whose bytes are to be read.
    File(StoredFile),
    /// The record or the description of the file is damaged.
    Damaged,
    /// It has moved or gone since the entries were listed.
    Gone,
}

/// A record with the whole key of its value.
#[derive(Debug)]
pub(crate) struct NamedRecord {
    pub(crate) key: Key,
    pub(crate) form: u8,
    pub(crate) size: u64,
    /// The bytes; `None` if they are in a file.
    pub(crate) payload: Option<Bytes>,
}

impl Core {
    /// The record of an entry, without a touch; `None` if it has moved or is damaged.
    pub(crate) fn named(&self, entry: &Entry) -> StoreResult<Option<NamedRecord>> {
        let Some(record) = self.read_record(entry)? else { return Ok(None) };
        let Some(key) = record.header.whole_key(&record.bytes) else { return Ok(None) };
        let is_put = record.header.kind == RecordKind::Put;
        let payload = is_put.then(|| record.payload());
        let (form, size) = (record.header.form, record.header.size);
        Ok(Some(NamedRecord { key, form, size, payload }))
    }

    /// The number of shards of the index.
    pub(crate) fn shards(&self) -> u16 {
        self.index.shards()
    }

    /// The entries of a shard.
    pub(crate) fn entries(&self, shard: u16) -> Vec<(Fingerprint, Entry)> {
        let selector = self.index.selector(shard);
        self.index.write_numbered(shard, |shard| {
            let is_current = |entry: &Entry| self.packs.is_current(entry.location());
            let entries = shard.entries().filter(is_current);
            entries.map(|entry| (entry.fingerprint(selector), entry)).collect()
        })
    }

    /// Reads the record of an entry and checks it. Does not touch it.
    pub(crate) fn scrub(&self, fingerprint: &Fingerprint, entry: &Entry) -> StoreResult<Scrubbed> {
        let outcome = match self.read_record(entry)? {
            Some(record) if record.header.kind == RecordKind::Put => {
                Scrubbed::Record(entry.record_bytes())
            }
            Some(record) => match record.description() {
                Some(description) => match StoredFile::open(&*self.disk, &description) {
                    Ok(file) => Scrubbed::File(file),
                    Err(StoreError::Damaged) => Scrubbed::Damaged,
                    Err(error) => return Err(error),
                },
                None => Scrubbed::Damaged,
            },
            None => Scrubbed::Damaged,
        };
        let is_there = self.is_at_place(fingerprint, entry);
        Ok(if matches!(outcome, Scrubbed::Damaged) && !is_there { Scrubbed::Gone } else { outcome })
    }

    /// Whether a value has not moved.
    pub(crate) fn is_at_place(&self, fingerprint: &Fingerprint, entry: &Entry) -> bool {
        let now = self.index.find(fingerprint);
        now.is_some_and(|now| now.location() == entry.location())
    }

    /// Counts a value that the scrub has read.
    pub(crate) fn count_scrubbed(&self, bytes: u64) {
        self.activity.count_scrubbed(bytes);
    }

    /// Counts a scrub of the whole store.
    pub(crate) fn count_scrub(&self) {
        self.activity.count_scrub();
    }

    /// Drops a value that the scrub found damaged, so that the blob can be put again.
    pub(crate) fn drop_damaged(&self, fingerprint: &Fingerprint, entry: &Entry) {
        self.discard(fingerprint, entry);
    }
}
