//! [`Entry`]: what the index knows of a value, in four words.
//!
//! ```text
//! word 0   64 bits of the fingerprint
//! word 1   58 bits of the fingerprint, changed 1, file 1, record's length 4 (files: 128 bytes each)
//! word 2   location: pack 20, generation 16, offset / 8 28
//! word 3   size 32 (records: 8 bytes, files: 4 KiB each), last use 32
//! ```
//!
//! With at least 6 bits that select the shard, 128 bits of the fingerprint identify a key.

use crate::store::key::{Fingerprint, LOW_BITS_UNUSED};

const FINGERPRINT_MASK: u64 = u64::MAX << LOW_BITS_UNUSED;
const CHANGED: u64 = 1 << 5;
const IS_FILE: u64 = 1 << 4;
const UNITS_MASK: u64 = 0xf;
const FILE_RECORD_UNIT: u64 = 128;
const RECORD_UNIT: u64 = 8;
const FILE_UNIT: u64 = 4096;

/// The place of a record: pack, generation, offset. 0 is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Location(pub(crate) u64);

impl Location {
    pub(crate) fn new(slot: u32, generation: u16, offset: u64) -> Self {
        Self((u64::from(slot) << 44) | (u64::from(generation) << 28) | (offset / RECORD_UNIT))
    }

    pub(crate) fn slot(self) -> u32 {
        u32::try_from(self.0 >> 44).unwrap_or_default()
    }

    pub(crate) fn generation(self) -> u16 {
        u16::try_from((self.0 >> 28) & 0xffff).unwrap_or_default()
    }

    pub(crate) const fn offset(self) -> u64 {
        (self.0 & 0x0fff_ffff) * RECORD_UNIT
    }
}

/// What the index knows of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) [u64; 4]);

impl Entry {
    /// The bytes of an entry in memory and in a snapshot.
    pub(crate) const BYTES: usize = 32;

    /// The entry of a value. `record_bytes` is what its record takes in a pack; `file_bytes` is the
    /// length of its file, if it has one.
    pub(crate) fn new(
        fingerprint: Fingerprint,
        location: Location,
        record_bytes: u64,
        file_bytes: Option<u64>,
        last_use: u32,
    ) -> Self {
        let (flags, size) = match file_bytes {
            None => (0, record_bytes / RECORD_UNIT),
            Some(bytes) => {
                let units = (record_bytes / FILE_RECORD_UNIT).min(UNITS_MASK);
                (IS_FILE | units, bytes.div_ceil(FILE_UNIT))
            }
        };
        let size = size.min(u64::from(u32::MAX));
        Self([
            fingerprint.high,
            (fingerprint.low & FINGERPRINT_MASK) | CHANGED | flags,
            location.0,
            (size << 32) | u64::from(last_use),
        ])
    }

    pub(crate) const fn is_of(&self, fingerprint: &Fingerprint) -> bool {
        self.0[0] == fingerprint.high
            && self.0[1] & FINGERPRINT_MASK == fingerprint.low & FINGERPRINT_MASK
    }

    /// The part of the fingerprint that the entry holds.
    pub(crate) const fn fingerprint(&self, shard: u16) -> Fingerprint {
        Fingerprint { shard, high: self.0[0], low: self.0[1] & FINGERPRINT_MASK }
    }

    pub(crate) const fn location(&self) -> Location {
        Location(self.0[2])
    }

    pub(crate) const fn is_file(&self) -> bool {
        self.0[1] & IS_FILE != 0
    }

    /// What the value's record takes in a pack.
    pub(crate) const fn record_bytes(&self) -> u64 {
        if self.is_file() {
            (self.0[1] & UNITS_MASK) * FILE_RECORD_UNIT
        } else {
            (self.0[3] >> 32) * RECORD_UNIT
        }
    }

    /// What the value's file takes on the disk; 0 without a file.
    pub(crate) const fn file_bytes(&self) -> u64 {
        if self.is_file() { (self.0[3] >> 32) * FILE_UNIT } else { 0 }
    }

    pub(crate) fn last_use(&self) -> u32 {
        u32::try_from(self.0[3] & 0xffff_ffff).unwrap_or_default()
    }

    #[must_use]
    pub(crate) fn with_last_use(mut self, last_use: u32) -> Self {
        self.0[3] = (self.0[3] & !0xffff_ffff) | u64::from(last_use);
        self.0[1] |= CHANGED;
        self
    }

    pub(crate) const fn is_changed(&self) -> bool {
        self.0[1] & CHANGED != 0
    }

    #[must_use]
    pub(crate) const fn unchanged(mut self) -> Self {
        self.0[1] &= !CHANGED;
        self
    }

    /// An entry that says in a snapshot that a value is gone.
    pub(crate) const fn gone(fingerprint: &Fingerprint) -> Self {
        Self([fingerprint.high, fingerprint.low & FINGERPRINT_MASK, 0, 0])
    }

    pub(crate) const fn is_gone(&self) -> bool {
        self.0[2] == 0
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (word, place) in self.0.iter().zip(bytes.chunks_exact_mut(8)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let mut words = [0; 4];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(place.try_into().unwrap_or_default());
        }
        Self(words)
    }
}
