//! Look-ups and values.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use tidegate_core::digest::Digest;

use super::Core;
use crate::store::error::{StoreError, StoreResult};
use crate::store::files::{FileDescription, StoredFile};
use crate::store::index::{Entry, Location};
use crate::store::key::{Fingerprint, Key, MANIFEST, Owner, SLICE};
use crate::store::losses::Loss;
use crate::store::pack::{Header, RecordKind, generation_bits, verify_payload};

/// Attempts to read a record that moves meanwhile.
pub(super) const ATTEMPTS_MAX: usize = 4;

/// A value.
#[derive(Clone, Debug)]
pub struct Value {
    /// What the value is, as its writer said.
    pub form: u8,
    /// The size that its writer said.
    pub size: u64,
    /// The bytes.
    pub content: ValueContent,
}

/// The bytes of a value.
#[derive(Clone, Debug)]
pub enum ValueContent {
    /// Checked bytes.
    Bytes(Bytes),
    /// A file. Its bytes are checked as they are read.
    File(StoredFile),
}

/// A record as it was read.
#[derive(Debug)]
pub(super) struct ReadRecord {
    pub(super) header: Header,
    pub(super) bytes: Bytes,
}

impl ReadRecord {
    pub(super) fn payload(&self) -> Bytes {
        let start = self.header.payload_start();
        self.bytes.slice(start..start + self.header.payload_len)
    }

    pub(super) fn description(&self) -> Option<FileDescription> {
        FileDescription::from_payload(self.header.number, &self.payload())
    }
}

impl Core {
    /// Whether look-ups read no disk now. Until then, the caller looks up on a blocking thread.
    pub fn is_loaded(&self) -> bool {
        self.index.is_loaded()
    }

    /// Whether there is a value, as far as the index knows. Sets its last use.
    pub fn contains(&self, key: &Key) -> bool {
        self.index.touch(&self.fingerprint(key), self.now()).is_some()
    }

    /// For each fingerprint, whether there is a value. Sets the last use of those that are there.
    pub fn contains_all(&self, fingerprints: &[Fingerprint]) -> Vec<bool> {
        self.index.touch_all(fingerprints, self.now())
    }

    /// For each blob, whether it is there. Sets the last use of those that are there.
    pub fn contains_blobs(&self, digests: &[Digest]) -> Vec<bool> {
        self.contains_blobs_of(Owner::SHARED, digests)
    }

    /// As [`Self::contains_blobs`], for the blobs of one owner.
    pub fn contains_blobs_of(&self, owner: Owner, digests: &[Digest]) -> Vec<bool> {
        let fingerprint = |digest: &Digest| Fingerprint::of_blob(&self.salt, owner, digest);
        let fingerprints: Vec<_> = digests.iter().map(fingerprint).collect();
        self.contains_all(&fingerprints)
    }

    /// Whether the index names a value beside the blob: a manifest or a slice. Reads no disk if the
    /// index is loaded.
    pub(crate) fn has_beside(&self, owner: Owner, digest: &Digest) -> bool {
        [MANIFEST, SLICE].iter().any(|tag| {
            let fingerprint = Fingerprint::beside_blob(&self.salt, owner, digest, *tag);
            self.index.find(&fingerprint).is_some()
        })
    }

    /// A key's value; `None` if there is none or it is damaged. Sets its last use.
    pub fn get(&self, key: &Key) -> StoreResult<Option<Value>> {
        let fingerprint = self.fingerprint(key);
        for _ in 0..ATTEMPTS_MAX {
            let Some(entry) = self.index.touch(&fingerprint, self.now()) else { return Ok(None) };
            match self.read_value(key, &entry)? {
                Some(value) => return Ok(Some(value)),
                // The record moved while it was read, or it is damaged.
                None => self.discard(&fingerprint, &entry),
            }
        }
        Ok(None)
    }

    /// As [`Self::get`], without waiting for the disk: a value that is a record, whose bytes are in
    /// the cache of the system. `None` says nothing; the caller asks [`Self::get`] where it may wait.
    pub(crate) fn get_cached(&self, key: &Key) -> Option<Value> {
        if !self.is_loaded() {
            return None;
        }
        let entry = self.index.touch(&self.fingerprint(key), self.now())?;
        if entry.is_file() {
            return None;
        }
        let location = entry.location();
        let file = self.packs.open_file(location.slot())?;
        let mut bytes = vec![0; usize::try_from(entry.record_bytes()).ok()?];
        if !file.read_cached_at(&mut bytes, location.offset()) {
            return None;
        }
        let record = checked(bytes, location)?;
        let is_sound =
            record.header.kind == RecordKind::Put && record.header.is_of(key, &record.bytes);
        is_sound.then(|| Value {
            form: record.header.form,
            size: record.header.size,
            content: ValueContent::Bytes(record.payload()),
        })
    }

    fn read_value(&self, key: &Key, entry: &Entry) -> StoreResult<Option<Value>> {
        let Some(record) = self.read_record(entry)? else { return Ok(None) };
        if !record.header.is_of(key, &record.bytes) {
            return Ok(None);
        }
        let content = match record.header.kind {
            RecordKind::Put => ValueContent::Bytes(record.payload()),
            RecordKind::File => {
                let Some(description) = record.description() else { return Ok(None) };
                match StoredFile::open(&*self.disk, &description) {
                    Ok(file) => ValueContent::File(file.with_buffers(&self.read_buffers)),
                    Err(StoreError::Damaged) => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(Value { form: record.header.form, size: record.header.size, content }))
    }

    /// The record of an entry; `None` if it is damaged, or its pack is used again.
    pub(super) fn read_record(&self, entry: &Entry) -> StoreResult<Option<ReadRecord>> {
        let location = entry.location();
        let file = self.packs.file(location.slot()).map_err(StoreError::disk("open a pack"))?;
        let mut bytes = vec![0; usize::try_from(entry.record_bytes()).unwrap_or_default()];
        let read = file.read_at(&mut bytes, location.offset());
        let read = read.map_err(StoreError::disk("read a pack"))?;
        bytes.truncate(read);
        Ok(checked(bytes, location))
    }

    /// Drops a damaged value, unless its record has moved. A file is removed, too, so that the
    /// value can be put again.
    pub(super) fn discard(&self, fingerprint: &Fingerprint, entry: &Entry) {
        let is_there = self.index.find(fingerprint);
        if is_there.is_none_or(|now| now.location() != entry.location()) {
            return;
        }
        self.activity.count_damage();
        self.losses.add(fingerprint, Loss::Damaged);
        tracing::warn!(
            bytes = entry.record_bytes() + entry.file_bytes(),
            "dropped a damaged value"
        );
        if entry.is_file() {
            // If the removal cannot be logged, the entry comes back after a restart, and the next
            // read drops it again.
            let _ = self.remove_file_entry(fingerprint, entry);
            // If the record is damaged, nothing says which file was its own.
            self.orphans.store(true, Ordering::Release);
        }
        self.index.remove_at(fingerprint, entry.location());
    }

    /// The caller found that a value's bytes are damaged.
    pub fn note_damaged(&self, key: &Key) {
        let fingerprint = self.fingerprint(key);
        if let Some(entry) = self.index.find(&fingerprint) {
            self.discard(&fingerprint, &entry);
        }
    }
}

/// The record that bytes at a location are, if they are one.
fn checked(bytes: Vec<u8>, location: Location) -> Option<ReadRecord> {
    let header = Header::read(&bytes).filter(|header| {
        is_at(header, location) && header.len() == bytes.len() && verify_payload(header, &bytes)
    });
    header.map(|header| ReadRecord { header, bytes: bytes.into() })
}

pub(super) fn is_at(header: &Header, location: Location) -> bool {
    header.slot == location.slot() && generation_bits(header.generation) == location.generation()
}
