//! [`Scanner`]: the records of a pack, one after another.

use std::io;

use super::{Header, RECORD_ALIGN};
use crate::store::disk::DiskFile;

/// Bytes that are read at a time.
const WINDOW_BYTES: usize = 1 << 20;

/// The longest part of a record before its payload: the header, the longest key, and the CRCs of
/// 32 MiB.
const HEAD_BYTES_MAX: usize = 64 + 1024 + 2048;

/// A record in a pack.
#[derive(Debug)]
pub(crate) struct Scanned<'a> {
    pub(crate) offset: u64,
    pub(crate) header: Header,
    /// The whole record, or only what precedes its payload.
    pub(crate) record: &'a [u8],
}

/// Reads a pack's records in order. The caller judges whether a header belongs to the log.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    file: &'a dyn DiskFile,
    /// Where the next record begins.
    offset: u64,
    end: u64,
    window: Vec<u8>,
    window_start: u64,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(file: &'a dyn DiskFile, offset: u64, end: u64) -> Self {
        Self { file, offset, end, window: Vec::new(), window_start: offset }
    }

    /// Where the next record begins.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// The record at the current offset; `None` if there is no valid header. It does not advance.
    /// If `with_payload` is set, the record's payload is there, too.
    pub(crate) fn peek(&mut self, with_payload: bool) -> io::Result<Option<Scanned<'_>>> {
        let head_len = self.fill(HEAD_BYTES_MAX)?;
        let start = self.start();
        let Some(header) = Header::read(&self.window[start..start + head_len]) else {
            return Ok(None);
        };
        let wanted = if with_payload { header.len() } else { header.payload_start() };
        if header.len() as u64 > self.end.saturating_sub(self.offset) || self.fill(wanted)? < wanted
        {
            return Ok(None);
        }
        let start = self.start();
        let record = &self.window[start..start + wanted];
        Ok(Some(Scanned { offset: self.offset, header, record }))
    }

    /// Passes over `len` bytes.
    pub(crate) fn advance(&mut self, len: usize) {
        self.offset += len as u64;
    }

    /// Passes over one unit of alignment, to look for the next header behind a damaged one.
    pub(crate) fn step(&mut self) -> bool {
        self.advance(RECORD_ALIGN);
        self.offset < self.end
    }

    fn start(&self) -> usize {
        usize::try_from(self.offset - self.window_start).unwrap_or_default()
    }

    /// Makes up to `len` bytes from the current offset on available. Returns how many there are.
    fn fill(&mut self, len: usize) -> io::Result<usize> {
        let rest = usize::try_from(self.end.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let len = len.min(rest);
        let window_end = self.window_start + self.window.len() as u64;
        if self.offset + len as u64 > window_end {
            self.window.resize(len.max(WINDOW_BYTES).min(rest), 0);
            let read = self.file.read_at(&mut self.window, self.offset)?;
            self.window.truncate(read);
            self.window_start = self.offset;
        }
        Ok(len.min(self.window.len().saturating_sub(self.start())))
    }
}
