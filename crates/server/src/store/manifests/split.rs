//! A blob that is stored whole becomes chunks. They are slices of its file, so they cost a record
//! each and no bytes.
//!
//! The manifest is stored, so that the next split of the blob reads no bytes. If the blob is
//! evicted, its slices are missing, and so is every manifest that names one of them.

use tidegate_core::chunking::{Chunking, Cutter};
use tidegate_core::digest::Digest;

use super::{ManifestRecord, Slice};
use crate::store::blobs::{Blobs, Form, Touch};
use crate::store::error::{StoreError, StoreResult};

/// Slices of one group of records.
const GROUP_MAX: usize = 1024;

impl Blobs {
    /// The chunks of a blob: those of its manifest, or those that `chunking` cuts from it. `None` if
    /// the blob is missing, or not longer than one chunk can be.
    pub(crate) fn split(
        &self,
        blob: &Digest,
        chunking: &Chunking,
    ) -> StoreResult<Option<ManifestRecord>> {
        if let Some(record) = self.manifest(blob, Touch::Now)? {
            return Ok(Some(record));
        }
        if blob.len <= chunking.chunk_bytes_max() || !self.is_plain(blob)? {
            return Ok(None);
        }
        let Some(chunks) = self.cut(blob, chunking)? else { return Ok(None) };
        let present = self.leaves(&chunks, Touch::Now)?;
        let mut slices = Vec::new();
        let mut offset = 0;
        for (chunk, is_present) in chunks.iter().zip(present) {
            if !is_present {
                let slice = Slice { blob: *blob, offset };
                slices.push((self.slice_key(chunk), Form::Slice, chunk.len, slice.encode()));
            }
            offset += chunk.len;
            if slices.len() == GROUP_MAX {
                self.put_beside(std::mem::take(&mut slices))?;
            }
        }
        let record = ManifestRecord { chunking: Some(*chunking), chunks };
        // The manifest follows the slices that it needs.
        slices.push((self.manifest_key(blob), Form::Manifest, blob.len, record.encode()));
        self.put_beside(slices)?;
        Ok(Some(record))
    }

    /// Cuts a blob and names its chunks; `None` if it is missing or damaged.
    fn cut(&self, blob: &Digest, chunking: &Chunking) -> StoreResult<Option<Vec<Digest>>> {
        let Some(mut reader) = self.open(blob, 0)? else { return Ok(None) };
        let mut cutter = Cutter::new(chunking);
        let mut chunks = Vec::new();
        // Bytes of the chunk whose end is not known.
        let mut held = Vec::new();
        loop {
            let piece = match reader.next_piece() {
                Ok(piece) => piece,
                Err(StoreError::Damaged) => return Ok(None),
                Err(error) => return Err(error),
            };
            let lens: Vec<u64> = match &piece {
                Some(piece) => {
                    held.extend_from_slice(piece);
                    cutter.feed(piece).collect()
                }
                None => cutter.finish().collect(),
            };
            let mut start = 0;
            for len in lens {
                let end = start + usize::try_from(len).unwrap_or(usize::MAX);
                let bytes = held.get(start..end).unwrap_or_default();
                chunks.push(Digest::of(blob.function, bytes));
                start = end;
            }
            held.drain(..start.min(held.len()));
            if piece.is_none() {
                return Ok(Some(chunks));
            }
        }
    }
}
