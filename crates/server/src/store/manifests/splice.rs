//! A manifest becomes a blob. It costs one record: its chunks are there already.
//!
//! The blob gets its name only after the bytes of all chunks, in their order, were compared with its
//! digest. A chunk that is itself stored as chunks only is replaced by those, so that chunks of a
//! manifest are always whole or slices.

use tidegate_core::checksum::Checksummer;
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;

use super::ManifestRecord;
use crate::store::blobs::{Blobs, Form, Touch};
use crate::store::core::{Content, Op};
use crate::store::error::{StoreError, StoreResult};

/// What became of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spliced {
    /// The blob is there.
    Done,
    /// A chunk is missing, so the blob is not there.
    ChunkMissing,
}

impl Blobs {
    /// Makes a blob of chunks. Fails with `Mismatch` if their bytes are not the blob's.
    pub(crate) fn splice(
        &self,
        blob: &Digest,
        chunks: &[Digest],
        chunking: Option<Chunking>,
    ) -> StoreResult<Spliced> {
        if self.all_present(&[*blob], Touch::Now)? {
            return Ok(Spliced::Done);
        }
        let Some(record) = self.flattened(chunks, chunking)? else {
            return Ok(Spliced::ChunkMissing);
        };
        let Some(mut hash) = Checksummer::new(blob.function.algorithm()).ok() else {
            return Err(StoreError::Mismatch);
        };
        let mut len = 0;
        for chunk in &record.chunks {
            let Some(mut reader) = self.open(chunk, 0)? else { return Ok(Spliced::ChunkMissing) };
            loop {
                match reader.next_piece() {
                    Ok(Some(piece)) => {
                        hash.update(&piece);
                        len += piece.len() as u64;
                    }
                    Ok(None) => break,
                    // The core has dropped it.
                    Err(StoreError::Damaged) => return Ok(Spliced::ChunkMissing),
                    Err(error) => return Err(error),
                }
            }
        }
        if len != blob.len || hash.finish() != blob.checksum() {
            return Err(StoreError::Mismatch);
        }
        self.put_beside(vec![(
            self.manifest_key(blob),
            Form::Manifest,
            blob.len,
            record.encode(),
        )])?;
        Ok(Spliced::Done)
    }

    /// The manifest with chunks that are whole or slices; `None` if one is missing.
    fn flattened(
        &self,
        chunks: &[Digest],
        chunking: Option<Chunking>,
    ) -> StoreResult<Option<ManifestRecord>> {
        let leaves = self.leaves(chunks, Touch::Now)?;
        if leaves.iter().all(|is_leaf| *is_leaf) {
            return Ok(Some(ManifestRecord { chunking, chunks: chunks.to_vec() }));
        }
        let mut all = Vec::with_capacity(chunks.len());
        for (chunk, is_leaf) in chunks.iter().zip(leaves) {
            if is_leaf {
                all.push(*chunk);
                continue;
            }
            let Some(record) = self.manifest(chunk, Touch::Now)? else { return Ok(None) };
            all.extend(record.chunks);
        }
        // They are not the chunks that the function cuts.
        Ok(Some(ManifestRecord { chunking: None, chunks: all }))
    }

    /// Puts values beside blobs, in one group.
    pub(crate) fn put_beside(
        &self,
        values: Vec<(crate::store::key::Key, Form, u64, bytes::Bytes)>,
    ) -> StoreResult<()> {
        let inline_max = self.core.options().inline_bytes_max;
        let mut ops = Vec::with_capacity(values.len());
        for (key, form, size, bytes) in values {
            let content = if bytes.len() <= inline_max {
                Content::Bytes(bytes)
            } else {
                let mut file = self.core.stage(None)?;
                file.write(&bytes)?;
                Content::File(file)
            };
            ops.push(Op::Put { key, form: form as u8, size, content });
        }
        self.commit(ops).into_iter().collect()
    }
}
