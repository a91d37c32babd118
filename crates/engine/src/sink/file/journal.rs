//! What a part file remembers of itself: which blob of which version it holds, and which extents
//! of it were written, each with its CRC.
//!
//! The journal stands behind the data, in the same file, so that there is one file to keep, lock
//! and remove; it is cut off before the file gets its name. Its format is described for others in
//! `docs/formats.md`:
//!
//! ```text
//! 0                    the blob's bytes, with gaps
//! start = len, rounded up to 4096
//!   header   JSON, padded with zeros to a multiple of 64
//!   record   64 bytes each, appended, never changed
//! ```
//!
//! A record carries its own CRC and the journal's start, so that the journal is found from the
//! end of the file, whatever was torn off there. An extent's record is appended after its bytes
//! were written; since the bytes may still be missing after a power cut, a resuming run reads
//! each extent and compares it with the CRC in its record before it believes it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};
use tidegate_core::checksum::{Crc, CrcAlgorithm};

use super::super::Mark;
use crate::remote::Version;

/// Records and the padding of the header.
const RECORD_BYTES: usize = 64;

/// The journal begins at a multiple of this, apart from the data's last page.
const ALIGN_BYTES: u64 = 4096;

const MAGIC: [u8; 4] = *b"TGJ1";

/// Torn records looked past, from the end of the file, before it counts as having no journal.
const TORN_RECORDS_MAX: u64 = 64;

/// A header is a URL, a version and some words; beyond this it is not one of ours.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// Extents beyond this are not read back: a journal is kept below 65,536 by the size of its marks.
const RECORDS_MAX: usize = 1 << 20;

const KIND_HEADER: u8 = 1;
const KIND_EXTENT: u8 = 2;

/// Of which blob, and of which version of it, a part file is a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The blob's URL without secrets.
    pub(crate) source: String,
    pub(crate) version: Version,
    pub(crate) len_bytes: u64,
    /// The CRC of the records.
    pub(crate) crc: CrcName,
}

/// The CRC by its name in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CrcName {
    Crc32c,
    Crc64Nvme,
    Crc32,
}

impl From<CrcAlgorithm> for CrcName {
    fn from(algorithm: CrcAlgorithm) -> Self {
        match algorithm {
            CrcAlgorithm::Crc64Nvme => Self::Crc64Nvme,
            CrcAlgorithm::Crc32 => Self::Crc32,
            _ => Self::Crc32c,
        }
    }
}

impl From<CrcName> for CrcAlgorithm {
    fn from(name: CrcName) -> Self {
        match name {
            CrcName::Crc32c => Self::Crc32c,
            CrcName::Crc64Nvme => Self::Crc64Nvme,
            CrcName::Crc32 => Self::Crc32,
        }
    }
}

/// Where the journal of a blob of `len` bytes begins; `None` where no file could hold it.
pub(crate) fn start(len: u64) -> Option<u64> {
    len.checked_next_multiple_of(ALIGN_BYTES).filter(|start| *start < i64::MAX as u64 / 2)
}

/// Appends to a journal.
#[derive(Debug)]
pub(crate) struct Journal {
    start: u64,
    next: u64,
}

/// A journal as an earlier run left it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) identity: Identity,
    pub(crate) marks: Vec<Mark>,
    pub(crate) journal: Journal,
}

impl Journal {
    /// Writes the header of a new journal.
    pub(crate) fn create(file: &File, identity: &Identity) -> io::Result<Self> {
        let start = start(identity.len_bytes)
            .ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, "no room for a journal"))?;
        let mut header = serde_json::to_vec(identity)?;
        let len = header.len();
        header.resize(len.next_multiple_of(RECORD_BYTES), 0);
        let crc = Crc::of(CrcAlgorithm::Crc32c, &header);
        let record = Record {
            kind: KIND_HEADER,
            journal_start: start,
            start,
            len: len as u64,
            crc: crc.value(),
        };
        header.extend_from_slice(&record.encode());
        file.write_all_at(&header, start)?;
        Ok(Self { start, next: start + header.len() as u64 })
    }

    /// Remembers one extent; its bytes must have been written before.
    pub(crate) fn append(&mut self, file: &File, mark: Mark) -> io::Result<()> {
        let record = Record {
            kind: KIND_EXTENT,
            journal_start: self.start,
            start: mark.start,
            len: mark.crc.len(),
            crc: mark.crc.value(),
        };
        file.write_all_at(&record.encode(), self.next)?;
        self.next += RECORD_BYTES as u64;
        Ok(())
    }

    /// Reads the journal that `file` holds; `None` where there is none, or none that is whole.
    pub(crate) fn find(file: &File) -> io::Result<Option<Found>> {
        let file_len = file.metadata()?.len();
        let Some((last, end)) = last_record(file, file_len)? else { return Ok(None) };
        let Some((identity, first)) = header(file, last.journal_start, end)? else {
            return Ok(None);
        };
        let algorithm = CrcAlgorithm::from(identity.crc);
        let mut marks = Vec::new();
        let mut offset = first;
        while offset < end && marks.len() < RECORDS_MAX {
            let record = read_record(file, offset)?;
            offset += RECORD_BYTES as u64;
            let Some(record) = record.filter(|r| r.kind == KIND_EXTENT) else { continue };
            let within = record.start.checked_add(record.len);
            if record.len > 0 && within.is_some_and(|stop| stop <= identity.len_bytes) {
                let crc = Crc::from_value(algorithm, record.crc, record.len);
                marks.push(Mark { start: record.start, crc });
            }
        }
        let journal = Self { start: last.journal_start, next: end };
        Ok(Some(Found { identity, marks, journal }))
    }
}

/// The last whole record, searched from the end, and the offset after it.
fn last_record(file: &File, file_len: u64) -> io::Result<Option<(Record, u64)>> {
    let mut end = file_len - file_len % RECORD_BYTES as u64;
    for _ in 0..TORN_RECORDS_MAX {
        let Some(offset) = end.checked_sub(RECORD_BYTES as u64) else { break };
        if let Some(record) = read_record(file, offset)? {
            return Ok((record.journal_start <= offset).then_some((record, end)));
        }
        end = offset;
    }
    Ok(None)
}

/// The header and the offset of the first extent's record.
fn header(file: &File, start: u64, end: u64) -> io::Result<Option<(Identity, u64)>> {
    let room = usize::try_from(end - start).unwrap_or(usize::MAX).min(HEADER_BYTES_MAX);
    let mut bytes = vec![0; room];
    file.read_exact_at(&mut bytes, start)?;
    for (index, chunk) in bytes.chunks_exact(RECORD_BYTES).enumerate() {
        let Some(record) = Record::decode(chunk).filter(|r| r.kind == KIND_HEADER) else {
            continue;
        };
        let text = &bytes[..index * RECORD_BYTES];
        let whole = record.start == start
            && Crc::of(CrcAlgorithm::Crc32c, text).value() == record.crc
            && usize::try_from(record.len).is_ok_and(|len| len <= text.len());
        if !whole {
            return Ok(None);
        }
        // Checked above to be within the text.
        let json = &text[..usize::try_from(record.len).unwrap_or(0)];
        let identity: Option<Identity> = serde_json::from_slice(json).ok();
        let identity = identity.filter(|i| self::start(i.len_bytes) == Some(start));
        let first = start + ((index + 1) * RECORD_BYTES) as u64;
        return Ok(identity.map(|identity| (identity, first)));
    }
    Ok(None)
}

fn read_record(file: &File, offset: u64) -> io::Result<Option<Record>> {
    let mut bytes = [0; RECORD_BYTES];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(Record::decode(&bytes))
}

/// 64 bytes: magic, CRC32C of what follows, kind, then numbers, little-endian.
struct Record {
    kind: u8,
    journal_start: u64,
    start: u64,
    len: u64,
    crc: u64,
}

impl Record {
    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[8] = self.kind;
        bytes[16..24].copy_from_slice(&self.journal_start.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.start.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.len.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.crc.to_le_bytes());
        let crc = Crc::of(CrcAlgorithm::Crc32c, &bytes[8..]).value();
        bytes[4..8].copy_from_slice(&crc.to_le_bytes()[..4]);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; RECORD_BYTES] = bytes.try_into().ok()?;
        let crc = Crc::of(CrcAlgorithm::Crc32c, &bytes[8..]).value();
        if bytes[..4] != MAGIC || bytes[4..8] != crc.to_le_bytes()[..4] {
            return None;
        }
        let number = |at: usize| {
            let mut le = [0; 8];
            le.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(le)
        };
        Some(Self {
            kind: bytes[8],
            journal_start: number(16),
            start: number(24),
            len: number(32),
            crc: number(40),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            source: "http://host/blob".to_owned(),
            version: Version::ETag("\"a\"".to_owned()),
            len_bytes: 10_000,
            crc: CrcName::Crc64Nvme,
        }
    }

    fn mark(start: u64, bytes: &[u8]) -> Mark {
        Mark { start, crc: Crc::of(CrcAlgorithm::Crc64Nvme, bytes) }
    }

    fn written() -> File {
        let file = tempfile::tempfile().unwrap();
        let mut journal = Journal::create(&file, &identity()).unwrap();
        journal.append(&file, mark(0, b"abc")).unwrap();
        journal.append(&file, mark(100, b"defg")).unwrap();
        file
    }

    #[test]
    fn what_was_written_is_found() {
        let found = Journal::find(&written()).unwrap().unwrap();
        assert_eq!(found.identity, identity());
        assert_eq!(found.marks, [mark(0, b"abc"), mark(100, b"defg")]);
    }

    #[test]
    fn a_found_journal_goes_on_where_it_ended() {
        let file = written();
        let mut found = Journal::find(&file).unwrap().unwrap();
        found.journal.append(&file, mark(200, b"h")).unwrap();
        assert_eq!(Journal::find(&file).unwrap().unwrap().marks.len(), 3);
    }

    #[test]
    fn every_torn_end_leaves_the_records_before_it() {
        let file = written();
        let len = file.metadata().unwrap().len();
        for cut in 1..=RECORD_BYTES as u64 {
            file.set_len(len - cut).unwrap();
            let found = Journal::find(&file).unwrap().unwrap();
            assert_eq!(found.marks, [mark(0, b"abc")], "{cut} bytes torn off");
            written_again(&file);
        }
    }

    fn written_again(file: &File) {
        let mut journal = Journal::create(file, &identity()).unwrap();
        journal.append(file, mark(0, b"abc")).unwrap();
        journal.append(file, mark(100, b"defg")).unwrap();
    }

    #[test]
    fn a_flipped_bit_anywhere_never_gives_another_record() {
        let file = written();
        let begin = start(10_000).unwrap();
        let len = file.metadata().unwrap().len();
        for offset in begin..len {
            let mut byte = [0];
            file.read_exact_at(&mut byte, offset).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
            if let Some(found) = Journal::find(&file).unwrap() {
                assert_eq!(found.identity, identity());
                let known = [mark(0, b"abc"), mark(100, b"defg")];
                assert!(found.marks.iter().all(|mark| known.contains(mark)), "at {offset}");
            }
            file.write_all_at(&byte, offset).unwrap();
        }
    }

    #[test]
    fn foreign_and_empty_files_have_no_journal() {
        let file = tempfile::tempfile().unwrap();
        assert!(Journal::find(&file).unwrap().is_none());
        file.write_all_at(&vec![0xA5; 100_003], 0).unwrap();
        assert!(Journal::find(&file).unwrap().is_none());
    }

    #[test]
    fn absurd_lengths_are_refused() {
        assert_eq!(start(u64::MAX), None);
        assert_eq!(start(0), Some(0));
        assert_eq!(start(4097), Some(8192));
    }
}
