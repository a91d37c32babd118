//! A record of the journal: 64 bytes, with a checksum against tearing and a seal against forging.

use tidegate_core::checksum::{Crc, CrcAlgorithm};

use super::seal::{SEAL_BYTES, Seal};

/// Records and the padding of the header.
pub(super) const RECORD_BYTES: usize = 64;

const MAGIC: [u8; 4] = *b"TGJ2";

/// Magic of records of format 1. They have no seal, so they are not accepted.
const MAGIC_1: [u8; 4] = *b"TGJ1";

/// Offset of the seal in a record.
const SEAL_AT: usize = RECORD_BYTES - SEAL_BYTES;

pub(super) const KIND_HEADER: u8 = 1;
pub(super) const KIND_EXTENT: u8 = 2;

/// Magic, CRC32C of what follows, kind, then numbers, little-endian, then the seal.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) kind: u8,
    pub(super) journal_start: u64,
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) crc: u64,
}

/// A whole record. Only its seal can show whether it is ours.
#[derive(Debug)]
pub(super) struct DecodedRecord {
    pub(super) record: Record,
    bytes: [u8; RECORD_BYTES],
}

impl Record {
    /// Encodes the record for `offset` of the file.
    pub(super) fn encode(&self, seal: &Seal, offset: u64) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[8] = self.kind;
        bytes[16..24].copy_from_slice(&self.journal_start.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.start.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.len.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.crc.to_le_bytes());
        let of = seal.of(&bytes[8..SEAL_AT], offset);
        bytes[SEAL_AT..].copy_from_slice(&of);
        let crc = crc_of(&bytes);
        bytes[4..8].copy_from_slice(&crc);
        bytes
    }
}

impl DecodedRecord {
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; RECORD_BYTES] = bytes.try_into().ok()?;
        if bytes[..4] != MAGIC || bytes[4..8] != crc_of(&bytes) {
            return None;
        }
        let number = |at: usize| {
            let mut le = [0; 8];
            le.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(le)
        };
        let record = Record {
            kind: bytes[8],
            journal_start: number(16),
            start: number(24),
            len: number(32),
            crc: number(40),
        };
        Some(Self { record, bytes })
    }

    /// Whether the record carries the seal of `seal` for `offset`.
    pub(super) fn is_sealed(&self, seal: &Seal, offset: u64) -> bool {
        seal.holds(&self.bytes[8..SEAL_AT], offset, &self.bytes[SEAL_AT..])
    }
}

/// Whether this is a whole record of format 1.
pub(super) fn is_of_format_1(bytes: &[u8; RECORD_BYTES]) -> bool {
    bytes[..4] == MAGIC_1 && bytes[4..8] == crc_of(bytes)
}

fn crc_of(bytes: &[u8; RECORD_BYTES]) -> [u8; 4] {
    let crc = Crc::of(CrcAlgorithm::Crc32c, &bytes[8..]).value().to_le_bytes();
    [crc[0], crc[1], crc[2], crc[3]]
}
