//! [`StagedFile`]: a file that is being written and that no record names yet.

use std::io::IoSlice;
use std::sync::Arc;

use tidegate_core::checksum::Checksummer;
use tidegate_core::digest::Digest;
use tidegate_core::{Crc, CrcAlgorithm};

use super::{FileDescription, Files};
use crate::store::disk::DiskFile;
use crate::store::error::{StoreError, StoreResult};
use crate::store::pack::{BLOCK_BYTES, crc32c};
use crate::store::space::{Reservation, Space};

/// A file that is being written. When it is dropped before its record is committed, the store
/// removes it.
#[derive(Debug)]
pub struct StagedFile {
    files: Arc<Files>,
    reservation: Reservation,
    file: Arc<dyn DiskFile>,
    number: u64,
    len: u64,
    crcs: Vec<u8>,
    block: Crc,
    hash: Option<(Digest, Checksummer)>,
    is_kept: bool,
}

impl StagedFile {
    pub(crate) fn new(
        files: &Arc<Files>,
        space: &Arc<Space>,
        number: u64,
        file: Arc<dyn DiskFile>,
        digest: Option<Digest>,
    ) -> Self {
        let hash = digest.and_then(|digest| {
            let hash = Checksummer::new(digest.function.algorithm()).ok()?;
            Some((digest, hash))
        });
        Self {
            files: Arc::clone(files),
            reservation: Space::reservation(space),
            file,
            number,
            len: 0,
            crcs: Vec::new(),
            block: Crc::empty(CrcAlgorithm::Crc32c),
            hash,
            is_kept: false,
        }
    }

    /// Bytes that were written.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether no byte was written.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends bytes. Space is reserved for them here, so a declared length reserves nothing. Fails
    /// with `Full` if the store has no space; the caller may call again with the same bytes.
    pub fn write(&mut self, bytes: &[u8]) -> StoreResult<()> {
        self.reservation.grow(self.len + bytes.len() as u64)?;
        let written = self.file.write_at(&[IoSlice::new(bytes)], self.len);
        written.map_err(StoreError::disk("write a file"))?;
        if let Some((_, hash)) = &mut self.hash {
            hash.update(bytes);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = BLOCK_BYTES - usize::try_from(self.block.len()).unwrap_or(BLOCK_BYTES);
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.block.update(now);
            if self.block.len() == BLOCK_BYTES as u64 {
                self.end_block();
            }
            rest = later;
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Compares the digest and writes the CRCs. The file is complete, and not yet durable.
    pub(crate) fn finish(&mut self) -> StoreResult<FileDescription> {
        if let Some((digest, hash)) = self.hash.take()
            && (self.len != digest.len || hash.finish() != digest.checksum())
        {
            return Err(StoreError::Mismatch);
        }
        if !self.block.is_empty() {
            self.end_block();
        }
        self.reservation.grow(self.len + self.crcs.len() as u64)?;
        let written = self.file.write_at(&[IoSlice::new(&self.crcs)], self.len);
        written.map_err(StoreError::disk("write a file"))?;
        let crcs_crc = crc32c(&self.crcs);
        Ok(FileDescription { number: self.number, len: self.len, crcs_crc, replaced: 0 })
    }

    pub(crate) fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    /// A record names the file now. The reservation becomes the index's account.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }

    /// Its commit failed, and a part of the commit may be in the log. A crash now can make the
    /// record count, so the file stays until the log has gone on.
    pub(crate) fn fail(mut self) {
        self.is_kept = true;
        self.files.note_failed(self.number, self.reservation.bytes());
    }

    fn end_block(&mut self) {
        let crc = u32::try_from(self.block.value()).unwrap_or_default();
        self.crcs.extend_from_slice(&crc.to_le_bytes());
        self.block = Crc::empty(CrcAlgorithm::Crc32c);
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        // The removal itself is the store's background work: this may run on any thread.
        if !self.is_kept {
            self.files.abandon(self.number, self.reservation.bytes());
        }
    }
}
