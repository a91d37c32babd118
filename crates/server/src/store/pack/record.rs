//! The format of a record.
//!
//! ```text
//!  0  magic            u32     32  form             u8
//!  4  CRC32C of 8..    u32     33  flags            u8
//!  8  sequence         u64     34  reserved         u16
//! 16  generation       u32     36  payload's bytes  u32
//! 20  session          u32     40  size             u64
//! 24  pack             u32     48  number           u64
//! 28  key's bytes      u16     56  time             u32
//! 30  kind             u8      60  reserved         u32
//! 31  space            u8
//! 64  key, CRC32C of each 64 KiB of payload, payload, zeros up to the alignment
//! ```
//!
//! All numbers are little-endian. The header's CRC covers the key and the payload's CRCs, too.
//!
//! Generation, session and sequence together tell a record of the log from what else lies in a pack:
//! the generation changes when the pack is used again, the session when the store opens or when a
//! write failed, and the sequence grows by 1 for each record.

use bytes::Bytes;
use tidegate_core::{Crc, CrcAlgorithm};

use crate::store::key::{Key, Space};

/// Records begin at multiples of this many bytes.
pub(crate) const RECORD_ALIGN: usize = 8;
/// Records of files are padded to multiples of this many bytes, so that four bits of an index entry
/// hold their length.
const FILE_RECORD_ALIGN: usize = 128;
/// The payload's bytes that one CRC covers.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;

const MAGIC: u32 = 0x7464_7231;
const HEADER_BYTES: usize = 64;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// A value; the payload is the value. `number` is the previous value's file, or 0.
    Put = 1,
    /// A value that is the file `number`; the payload describes the file.
    File = 2,
    /// The key's value is gone; the key is a fingerprint. `number` is the value's file, or 0.
    Remove = 3,
    /// The pack ends here. The log goes on in the pack `number`, in the generation `size`.
    Seal = 4,
    /// The records from here on have the session `number`.
    Resume = 5,
    /// Files may have numbers below `number`.
    Numbers = 6,
    /// Every file of a record up to the sequence `number` is durable.
    Synced = 7,
    /// A loss of power damaged the file `number`, so a recovery dropped its value.
    Lost = 8,
}

impl RecordKind {
    const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Put),
            2 => Some(Self::File),
            3 => Some(Self::Remove),
            4 => Some(Self::Seal),
            5 => Some(Self::Resume),
            6 => Some(Self::Numbers),
            7 => Some(Self::Synced),
            8 => Some(Self::Lost),
            _ => None,
        }
    }
}

/// A record before it has a place in the log.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) kind: RecordKind,
    pub(crate) space: u8,
    pub(crate) key: Bytes,
    pub(crate) payload: Bytes,
    /// What the value is. The core does not interpret it.
    pub(crate) form: u8,
    /// The length of the value that the form stands for.
    pub(crate) size: u64,
    pub(crate) number: u64,
    /// Whether the record's file was durable before the record was written.
    pub(crate) is_durable: bool,
    /// Last use at the time of writing.
    pub(crate) time: u32,
}

impl Draft {
    /// A record that concerns the log itself, without key and payload.
    pub(crate) fn control(kind: RecordKind, number: u64, size: u64) -> Self {
        Self {
            kind,
            space: 0,
            key: Bytes::new(),
            payload: Bytes::new(),
            form: 0,
            size,
            number,
            is_durable: false,
            time: 0,
        }
    }

    /// The bytes that the record takes in a pack.
    pub(crate) fn len(&self) -> usize {
        record_len(self.kind, self.key.len(), self.payload.len())
    }

    /// Appends the record to `bytes`.
    pub(crate) fn write(&self, place: &RecordPlace, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.resize(start + HEADER_BYTES, 0);
        let key_len = u16::try_from(self.key.len()).unwrap_or(u16::MAX);
        let payload_len = u32::try_from(self.payload.len()).unwrap_or(u32::MAX);
        let fixed = &mut bytes[start..];
        fixed[..4].copy_from_slice(&MAGIC.to_le_bytes());
        fixed[8..16].copy_from_slice(&place.seq.to_le_bytes());
        fixed[16..20].copy_from_slice(&place.generation.to_le_bytes());
        fixed[20..24].copy_from_slice(&place.session.to_le_bytes());
        fixed[24..28].copy_from_slice(&place.slot.to_le_bytes());
        fixed[28..30].copy_from_slice(&key_len.to_le_bytes());
        fixed[30] = self.kind as u8;
        fixed[31] = self.space;
        fixed[32] = self.form;
        fixed[33] = u8::from(self.is_durable);
        fixed[36..40].copy_from_slice(&payload_len.to_le_bytes());
        fixed[40..48].copy_from_slice(&self.size.to_le_bytes());
        fixed[48..56].copy_from_slice(&self.number.to_le_bytes());
        fixed[56..60].copy_from_slice(&self.time.to_le_bytes());
        bytes.extend_from_slice(&self.key);
        for block in self.payload.chunks(BLOCK_BYTES) {
            bytes.extend_from_slice(&crc32c(block).to_le_bytes());
        }
        let crc = crc32c(&bytes[start + 8..]);
        bytes[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&self.payload);
        bytes.resize(start + self.len(), 0);
    }
}

/// Where the log puts a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordPlace {
    pub(crate) seq: u64,
    pub(crate) generation: u32,
    pub(crate) session: u32,
    pub(crate) slot: u32,
}

/// A record's header, after its CRC was checked.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) kind: RecordKind,
    pub(crate) space: u8,
    pub(crate) form: u8,
    pub(crate) is_durable: bool,
    pub(crate) seq: u64,
    pub(crate) generation: u32,
    pub(crate) session: u32,
    pub(crate) slot: u32,
    pub(crate) key_len: usize,
    pub(crate) payload_len: usize,
    pub(crate) size: u64,
    pub(crate) number: u64,
    pub(crate) time: u32,
}

impl Header {
    /// Reads the header at the start of `bytes`; `None` if it is none, is damaged, or `bytes` end
    /// before the payload begins.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let fixed = bytes.get(..HEADER_BYTES)?;
        if u32_at(fixed, 0) != MAGIC {
            return None;
        }
        let header = Self {
            kind: RecordKind::from_number(fixed[30])?,
            space: fixed[31],
            form: fixed[32],
            is_durable: fixed[33] & 1 != 0,
            seq: u64_at(fixed, 8),
            generation: u32_at(fixed, 16),
            session: u32_at(fixed, 20),
            slot: u32_at(fixed, 24),
            key_len: usize::from(u16::from_le_bytes([fixed[28], fixed[29]])),
            payload_len: usize::try_from(u32_at(fixed, 36)).ok()?,
            size: u64_at(fixed, 40),
            number: u64_at(fixed, 48),
            time: u32_at(fixed, 56),
        };
        let head = bytes.get(8..header.payload_start())?;
        (crc32c(head) == u32_at(fixed, 4)).then_some(header)
    }

    /// Bytes from the record's start to its payload.
    pub(crate) const fn payload_start(&self) -> usize {
        HEADER_BYTES + self.key_len + 4 * self.payload_len.div_ceil(BLOCK_BYTES)
    }

    /// The bytes that the record takes in a pack.
    pub(crate) const fn len(&self) -> usize {
        record_len(self.kind, self.key_len, self.payload_len)
    }

    /// The key's bytes in the record.
    pub(crate) fn key<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        record.get(HEADER_BYTES..HEADER_BYTES + self.key_len).unwrap_or_default()
    }

    /// The key in the record; `None` if the record has none.
    pub(crate) fn whole_key(&self, record: &[u8]) -> Option<Key> {
        Key::new(Space::from_number(self.space)?, self.key(record))
    }

    /// Whether the record's key is `key`.
    pub(crate) fn is_of(&self, key: &Key, record: &[u8]) -> bool {
        self.space == key.space() as u8 && self.key(record) == key.bytes()
    }
}

/// The bytes that a record takes in a pack.
pub(crate) const fn record_len(kind: RecordKind, key_len: usize, payload_len: usize) -> usize {
    let bytes = HEADER_BYTES + key_len + 4 * payload_len.div_ceil(BLOCK_BYTES) + payload_len;
    let align = match kind {
        RecordKind::File => FILE_RECORD_ALIGN,
        _ => RECORD_ALIGN,
    };
    bytes.next_multiple_of(align)
}

/// Whether the payload in `record` has the CRCs that its header covers.
pub(crate) fn verify_payload(header: &Header, record: &[u8]) -> bool {
    let start = header.payload_start();
    let crcs = HEADER_BYTES + header.key_len;
    let Some(payload) = record.get(start..start + header.payload_len) else { return false };
    let blocks = payload.chunks(BLOCK_BYTES).enumerate();
    blocks.fold(true, |is_right, (at, block)| {
        is_right && crc32c(block) == u32_at(record, crcs + 4 * at)
    })
}

/// The CRC32C of these bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    u32::try_from(Crc::of(CrcAlgorithm::Crc32c, bytes).value()).unwrap_or_default()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    u32::from_le_bytes(word.unwrap_or_default())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    u64::from_le_bytes(word.unwrap_or_default())
}
