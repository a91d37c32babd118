//! The journal of a part file: which blob and version the file holds, and which extents were
//! written, each with its CRC.
//!
//! The journal stands behind the data, in the same file, so there is only one file to keep, lock
//! and remove. It is cut off before the file gets its name. `docs/formats.md` describes the format
//! for other programs:
//!
//! ```text
//! 0                    the blob's bytes, with gaps
//! start = len, rounded up to 4096
//!   header   JSON, padded with zeros to a multiple of 64
//!   record   64 bytes each, appended, never changed
//! ```
//!
//! A record carries its own CRC and the journal's start. So a reader finds the journal from the end
//! of the file even if its last records are torn. An extent's record is appended after its bytes
//! were written. After a power cut the bytes may still be missing. So a run that resumes reads each
//! extent back and compares it with the CRC in its record.
//!
//! Invariant: if there is a key, only records that were sealed with it are accepted.
//!
//! | file | idea |
//! |---|---|
//! | [`identity`] | which blob, which version, and what selected it |
//! | [`record`] | 64 bytes |
//! | [`seal`] | a keyed hash that distinguishes our journals from bytes that a server sent |

mod identity;
mod record;
mod seal;

pub(crate) use identity::{CrcName, Identity, Selected};
pub(crate) use seal::Sealing;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};
use tidegate_core::checksum::{Crc, CrcAlgorithm};

use super::super::Mark;
use record::{DecodedRecord, KIND_EXTENT, KIND_HEADER, RECORD_BYTES, Record, is_of_format_1};
use seal::Seal;

/// The journal begins at a multiple of this, so it never shares a page with the data.
const ALIGN_BYTES: u64 = 4096;

/// The search from the end of the file skips at most this many torn records. After that the file
/// counts as having no journal.
const TORN_RECORDS_MAX: u64 = 64;

/// A header is a URL, a version and a few short fields. A longer one is not ours.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// Extents beyond this are not read back: a journal is kept below 65,536 by the size of its marks.
const RECORDS_MAX: usize = 1 << 20;

/// Random bytes that make the seals of two journals differ, even if their headers are the same.
const NONCE_BYTES: usize = 16;

/// The JSON before the first record.
#[derive(Serialize, Deserialize)]
struct Header {
    #[serde(flatten)]
    identity: Identity,
    /// Hexadecimal digits.
    nonce: String,
}

/// Where the journal of a blob of `len` bytes begins; `None` if no file could hold it.
pub(crate) fn start(len: u64) -> Option<u64> {
    len.checked_next_multiple_of(ALIGN_BYTES).filter(|start| *start < i64::MAX as u64 / 2)
}

/// Appends to a journal.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    start: u64,
    next: u64,
    seal: Seal,
}

/// A journal that an earlier run left.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) identity: Identity,
    pub(crate) marks: Vec<Mark>,
    pub(crate) journal: Journal,
    /// Only a run of this user can have written it. Without a key this is not known, so `false`.
    pub(crate) is_sealed: bool,
}

/// What the end of a part file holds.
#[derive(Debug)]
pub(crate) enum Ending {
    /// No journal.
    Plain,
    /// Looks like a journal, but is not sealed with this user's key, or not for this file.
    Foreign,
    Journal(Box<Found>),
}

impl Ending {
    pub(crate) fn journal(self) -> Option<Found> {
        match self {
            Self::Journal(found) => Some(*found),
            Self::Plain | Self::Foreign => None,
        }
    }
}

impl Journal {
    /// Writes the header of a new journal.
    pub(crate) fn create(file: &File, sealing: &Sealing, identity: &Identity) -> io::Result<Self> {
        let too_large = |what| io::Error::new(io::ErrorKind::FileTooLarge, what);
        let start = start(identity.len_bytes).ok_or_else(|| too_large("no room for a journal"))?;
        let mut header =
            serde_json::to_vec(&Header { identity: identity.clone(), nonce: nonce()? })?;
        let len = header.len();
        if len > HEADER_BYTES_MAX - 2 * RECORD_BYTES {
            return Err(too_large("the journal's header is too long"));
        }
        header.resize(len.next_multiple_of(RECORD_BYTES), 0);
        let seal = sealing.of_journal(&header);
        let record = Record {
            kind: KIND_HEADER,
            journal_start: start,
            start,
            len: len as u64,
            crc: Crc::of(CrcAlgorithm::Crc32c, &header).value(),
        };
        let encoded = record.encode(&seal, start + header.len() as u64);
        header.extend_from_slice(&encoded);
        file.write_all_at(&header, start)?;
        Ok(Self { start, next: start + header.len() as u64, seal })
    }

    /// Appends one extent. Its bytes must have been written before.
    pub(crate) fn append(&mut self, file: &File, mark: Mark) -> io::Result<()> {
        let record = Record {
            kind: KIND_EXTENT,
            journal_start: self.start,
            start: mark.start,
            len: mark.crc.len(),
            crc: mark.crc.value(),
        };
        file.write_all_at(&record.encode(&self.seal, self.next), self.next)?;
        self.next += RECORD_BYTES as u64;
        Ok(())
    }

    /// Reads the journal in `file`. Records that are torn, or not sealed as `sealing` says, are
    /// skipped.
    pub(crate) fn find(file: &File, sealing: &Sealing) -> io::Result<Ending> {
        let file_len = file.metadata()?.len();
        let (last, end) = match last_record(file, file_len)? {
            Last::Record(last, end) => (last, end),
            Last::Foreign => return Ok(Ending::Foreign),
            Last::None => return Ok(Ending::Plain),
        };
        let Some(Begin { identity, seal, first }) = begin(file, sealing, last.journal_start, end)?
        else {
            return Ok(Ending::Foreign);
        };
        let algorithm = CrcAlgorithm::from(identity.crc);
        let mut marks = Vec::new();
        let mut offset = first;
        while offset < end && marks.len() < RECORDS_MAX {
            let read = read_record(file, offset)?.filter(|read| read.is_sealed(&seal, offset));
            offset += RECORD_BYTES as u64;
            let Some(record) = read.map(|read| read.record).filter(|r| r.kind == KIND_EXTENT)
            else {
                continue;
            };
            let within = record.start.checked_add(record.len);
            if record.len > 0 && within.is_some_and(|stop| stop <= identity.len_bytes) {
                let crc = Crc::from_value(algorithm, record.crc, record.len);
                marks.push(Mark { start: record.start, crc });
            }
        }
        let journal = Self { start: last.journal_start, next: end, seal };
        let is_sealed = sealing.key.is_some();
        Ok(Ending::Journal(Box::new(Found { identity, marks, journal, is_sealed })))
    }
}

/// Result of the search from the end of a file.
enum Last {
    /// The last whole record, and the offset after it.
    Record(Record, u64),
    /// A record of another format, or one that cannot be at this offset.
    Foreign,
    None,
}

fn last_record(file: &File, file_len: u64) -> io::Result<Last> {
    let mut end = file_len - file_len % RECORD_BYTES as u64;
    for _ in 0..TORN_RECORDS_MAX {
        let Some(offset) = end.checked_sub(RECORD_BYTES as u64) else { break };
        let mut bytes = [0; RECORD_BYTES];
        file.read_exact_at(&mut bytes, offset)?;
        match DecodedRecord::decode(&bytes) {
            Some(DecodedRecord { record, .. }) if record.journal_start <= offset => {
                return Ok(Last::Record(record, end));
            }
            Some(_) => return Ok(Last::Foreign),
            None if is_of_format_1(&bytes) => return Ok(Last::Foreign),
            None => end = offset,
        }
    }
    Ok(Last::None)
}

/// The header of a journal.
struct Begin {
    identity: Identity,
    seal: Seal,
    /// Offset of the first extent's record.
    first: u64,
}

/// Reads the header; `None` if it is torn, not sealed, or made for another offset.
fn begin(file: &File, sealing: &Sealing, start: u64, end: u64) -> io::Result<Option<Begin>> {
    let room = usize::try_from(end - start).unwrap_or(usize::MAX).min(HEADER_BYTES_MAX);
    let mut bytes = vec![0; room];
    file.read_exact_at(&mut bytes, start)?;
    for (index, chunk) in bytes.chunks_exact(RECORD_BYTES).enumerate() {
        let Some(read) =
            DecodedRecord::decode(chunk).filter(|read| read.record.kind == KIND_HEADER)
        else {
            continue;
        };
        let text = &bytes[..index * RECORD_BYTES];
        let (seal, at) = (sealing.of_journal(text), start + text.len() as u64);
        let record = &read.record;
        let is_whole = record.start == start
            && Crc::of(CrcAlgorithm::Crc32c, text).value() == record.crc
            && usize::try_from(record.len).is_ok_and(|len| len <= text.len());
        if !is_whole || !read.is_sealed(&seal, at) {
            return Ok(None);
        }
        // Checked above to be within the text.
        let json = &text[..usize::try_from(record.len).unwrap_or(0)];
        let header: Option<Header> = serde_json::from_slice(json).ok();
        let header = header.filter(|h| self::start(h.identity.len_bytes) == Some(start));
        let first = at + RECORD_BYTES as u64;
        return Ok(header.map(|header| Begin { identity: header.identity, seal, first }));
    }
    Ok(None)
}

fn read_record(file: &File, offset: u64) -> io::Result<Option<DecodedRecord>> {
    let mut bytes = [0; RECORD_BYTES];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(DecodedRecord::decode(&bytes))
}

fn nonce() -> io::Result<String> {
    let mut bytes = [0; NONCE_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests;
