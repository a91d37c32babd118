//! [`BlobReader`]: the bytes of a blob in order, whatever form it has.

use std::collections::VecDeque;

use bytes::{Buf as _, Bytes};
use tidegate_core::digest::Digest;
use tidegate_reapi::zstd::{INFLATER_BYTES, Inflater};

use super::incoming::new_inflater;
use super::{Blobs, Form, PIECE_BYTES, Touch};
use crate::store::core::ValueContent;
use crate::store::error::{StoreError, StoreResult};
use crate::store::key::Key;

/// Reads one blob.
#[derive(Debug)]
pub(crate) struct BlobReader {
    blobs: Blobs,
    /// What was read when the blob was opened.
    first: Option<Bytes>,
    current: Option<Part>,
    /// Chunks that follow.
    chunks: VecDeque<Digest>,
}

/// The bytes of one value, or of a range of it.
#[derive(Debug)]
struct Part {
    key: Key,
    content: ValueContent,
    /// The next byte of the content, and the end.
    at: u64,
    end: u64,
    inflating: Option<Inflating>,
}

/// A value that is compressed.
#[derive(Debug)]
struct Inflating {
    inflater: Inflater,
    packed: Bytes,
    /// Bytes of the blob that are left, and those before the first that is wanted.
    left: u64,
    skipped: u64,
}

impl Blobs {
    /// A damaged value is a miss. The core has dropped it then.
    pub(super) fn miss_if_damaged<T>(
        &self,
        key: &Key,
        error: StoreError,
    ) -> StoreResult<Option<T>> {
        match error {
            StoreError::Damaged => {
                self.core.note_damaged(key);
                Ok(None)
            }
            error => Err(error),
        }
    }

    /// Opens a blob at `offset`; `None` if it is missing. Its first bytes are read here, so that
    /// damage in them is a miss.
    pub(crate) fn open(&self, digest: &Digest, offset: u64) -> StoreResult<Option<BlobReader>> {
        let offset = offset.min(digest.len);
        if digest.len == 0 {
            return Ok(Some(self.reader(None, VecDeque::new())));
        }
        if let Some(part) = self.open_leaf(digest, offset)? {
            let key = part.key.clone();
            let mut reader = self.reader(Some(part), VecDeque::new());
            match reader.next_piece() {
                Ok(first) => {
                    reader.first = first;
                    return Ok(Some(reader));
                }
                Err(error) => self.miss_if_damaged::<()>(&key, error)?,
            };
        }
        let Some(record) = self.manifest(digest, Touch::Now)? else { return Ok(None) };
        let mut chunks = VecDeque::from(record.chunks);
        let mut skipped = offset;
        while let Some(chunk) = chunks.front() {
            if skipped < chunk.len {
                break;
            }
            skipped -= chunk.len;
            chunks.pop_front();
        }
        let Some(first) = chunks.pop_front() else {
            return Ok(Some(self.reader(None, chunks)));
        };
        let Some(part) = self.open_leaf(&first, skipped)? else { return Ok(None) };
        Ok(Some(self.reader(Some(part), chunks)))
    }

    fn reader(&self, current: Option<Part>, chunks: VecDeque<Digest>) -> BlobReader {
        BlobReader { blobs: self.clone(), first: None, current, chunks }
    }

    /// Opens a blob that is whole or a slice.
    fn open_leaf(&self, digest: &Digest, offset: u64) -> StoreResult<Option<Part>> {
        if let Some(part) = self.open_whole(digest, offset..digest.len)? {
            return Ok(Some(part));
        }
        let Some(slice) = self.slice(digest, Touch::Now)? else { return Ok(None) };
        let start = slice.offset + offset;
        self.open_whole(&slice.blob, start..slice.offset + digest.len)
    }

    fn open_whole(
        &self,
        digest: &Digest,
        range: std::ops::Range<u64>,
    ) -> StoreResult<Option<Part>> {
        let key = self.key(digest);
        let Some(value) = self.core.get(&key)? else { return Ok(None) };
        let (at, end, inflating) = match Form::from_number(value.form) {
            Some(Form::Plain) => (range.start, range.end, None),
            Some(Form::Zstd) => {
                let inflater = new_inflater()?;
                let inflating = Inflating {
                    inflater,
                    packed: Bytes::new(),
                    left: range.end,
                    skipped: range.start,
                };
                (0, value.content.len(), Some(inflating))
            }
            _ => return Ok(None),
        };
        Ok(Some(Part { key, content: value.content, at, end, inflating }))
    }

    /// The compressed bytes of a blob that is stored compressed.
    pub(crate) fn open_packed(&self, digest: &Digest) -> StoreResult<Option<BlobReader>> {
        let key = self.key(digest);
        let Some(value) = self.core.get(&key)? else { return Ok(None) };
        if Form::from_number(value.form) != Some(Form::Zstd) {
            return Ok(None);
        }
        self.open_content(&key, value.content)
    }

    /// Opens plain bytes. `None` if the first of them are damaged.
    pub(crate) fn open_content(
        &self,
        key: &Key,
        content: ValueContent,
    ) -> StoreResult<Option<BlobReader>> {
        let end = content.len();
        let part = Part { key: key.clone(), content, at: 0, end, inflating: None };
        let mut reader = self.reader(Some(part), VecDeque::new());
        match reader.next_piece() {
            Ok(first) => {
                reader.first = first;
                Ok(Some(reader))
            }
            Err(error) => self.miss_if_damaged(key, error),
        }
    }

    /// Whether a blob is stored whole and plain, so that it can have slices.
    pub(crate) fn is_plain(&self, digest: &Digest) -> StoreResult<bool> {
        let value = self.core.get(&self.key(digest))?;
        Ok(value.is_some_and(|value| Form::from_number(value.form) == Some(Form::Plain)))
    }
}

impl ValueContent {
    /// The length in bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(file) => file.len(),
        }
    }
}

impl BlobReader {
    /// Memory that it holds beside the piece that it gives: a decoder, and chunks that follow.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let is_packed = self.current.as_ref().is_some_and(|part| part.inflating.is_some());
        let chunks = self.chunks.len() * size_of::<Digest>();
        // Any chunk may be compressed.
        let decoder = if is_packed || chunks > 0 { INFLATER_BYTES } else { 0 };
        chunks as u64 + decoder
    }

    /// The next bytes; `None` at the end. Fails with `Damaged` if they are not what was written, or
    /// if a chunk was lost after the blob was opened.
    pub(crate) fn next_piece(&mut self) -> StoreResult<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        loop {
            if let Some(part) = &mut self.current {
                match part.next_piece() {
                    Ok(Some(piece)) => return Ok(Some(piece)),
                    Ok(None) => {}
                    Err(StoreError::Damaged) => {
                        self.blobs.core.note_damaged(&part.key);
                        return Err(StoreError::Damaged);
                    }
                    Err(error) => return Err(error),
                }
            }
            let Some(chunk) = self.chunks.pop_front() else {
                self.current = None;
                return Ok(None);
            };
            let part = self.blobs.open_leaf(&chunk, 0)?;
            self.current = Some(part.ok_or(StoreError::Damaged)?);
        }
    }
}

impl Part {
    fn next_piece(&mut self) -> StoreResult<Option<Bytes>> {
        let Some(mut inflating) = self.inflating.take() else {
            return self.stored_piece();
        };
        let piece = self.inflated_piece(&mut inflating);
        self.inflating = Some(inflating);
        piece
    }

    fn stored_piece(&mut self) -> StoreResult<Option<Bytes>> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let len = left.min(PIECE_BYTES);
        if len == 0 {
            return Ok(None);
        }
        let piece = match &self.content {
            ValueContent::Bytes(bytes) => {
                let start = usize::try_from(self.at).unwrap_or(usize::MAX);
                if start.saturating_add(len) > bytes.len() {
                    return Err(StoreError::Damaged);
                }
                bytes.slice(start..start + len)
            }
            ValueContent::File(file) => file.read(self.at, len)?,
        };
        if piece.is_empty() {
            return Err(StoreError::Damaged);
        }
        self.at += piece.len() as u64;
        Ok(Some(piece))
    }

    fn inflated_piece(&mut self, state: &mut Inflating) -> StoreResult<Option<Bytes>> {
        while state.left > 0 {
            let inflated = state.inflater.next(&mut state.packed, state.left).ok();
            let Some(mut piece) = inflated.ok_or(StoreError::Damaged)? else {
                state.packed = self.stored_piece()?.ok_or(StoreError::Damaged)?;
                continue;
            };
            // A slice ends before the blob that it lies in.
            piece.truncate(usize::try_from(state.left).unwrap_or(usize::MAX));
            let len = piece.len() as u64;
            state.left -= len;
            let skipped = state.skipped.min(len);
            state.skipped -= skipped;
            piece.advance(usize::try_from(skipped).unwrap_or(usize::MAX));
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}
