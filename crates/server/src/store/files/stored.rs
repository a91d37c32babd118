//! [`StoredFile`]: a file that a record names. Every read is checked.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::buffers::{BUFFER_BYTES, ReadBuffers};
use super::path;
use crate::store::disk::{Disk, DiskFile, OpenMode};
use crate::store::error::{StoreError, StoreResult};
use crate::store::pack::{BLOCK_BYTES, crc32c};

/// What a file's record says of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileDescription {
    pub(crate) number: u64,
    /// The value's length.
    pub(crate) len: u64,
    /// The CRC32C of the CRCs behind the value.
    pub(crate) crcs_crc: u32,
    /// The file of the key's previous value, which goes; or 0.
    pub(crate) replaced: u64,
}

impl FileDescription {
    /// The payload of the record. The number is in the record's header.
    pub(crate) fn to_payload(self) -> Bytes {
        let mut payload = self.len.to_le_bytes().to_vec();
        payload.extend_from_slice(&self.crcs_crc.to_le_bytes());
        payload.extend_from_slice(&self.replaced.to_le_bytes());
        payload.into()
    }

    pub(crate) fn from_payload(number: u64, payload: &[u8]) -> Option<Self> {
        let len = u64::from_le_bytes(payload.get(..8)?.try_into().ok()?);
        let crcs_crc = u32::from_le_bytes(payload.get(8..12)?.try_into().ok()?);
        let replaced = u64::from_le_bytes(payload.get(12..20)?.try_into().ok()?);
        Some(Self { number, len, crcs_crc, replaced })
    }

    /// The file's length.
    pub(crate) const fn file_len(&self) -> u64 {
        self.len + 4 * self.len.div_ceil(BLOCK_BYTES as u64)
    }
}

/// A file that a record names.
#[derive(Clone, Debug)]
pub struct StoredFile {
    file: Arc<dyn DiskFile>,
    len: u64,
    crcs: Arc<[u8]>,
    /// The memory of whole pieces. Without it, each read allocates.
    buffers: Option<ReadBuffers>,
}

impl StoredFile {
    /// Opens a file and checks its CRCs, not yet its value. Fails with `Damaged` for a file that
    /// cannot be the described one.
    pub(crate) fn open(disk: &dyn Disk, description: &FileDescription) -> StoreResult<Self> {
        let file = match disk.open(&path(description.number), OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::Damaged);
            }
            Err(error) => return Err(StoreError::disk("open a file")(error)),
        };
        let actual_len = file.byte_len().map_err(StoreError::disk("open a file"))?;
        if actual_len != description.file_len() {
            return Err(StoreError::Damaged);
        }
        let crcs_len = usize::try_from(actual_len - description.len).unwrap_or(usize::MAX);
        let mut crcs = vec![0; crcs_len];
        let read = file.read_at(&mut crcs, description.len);
        let read = read.map_err(StoreError::disk("read a file"))?;
        if read != crcs_len || crc32c(&crcs) != description.crcs_crc {
            return Err(StoreError::Damaged);
        }
        Ok(Self { file, len: description.len, crcs: crcs.into(), buffers: None })
    }

    /// The same file, whose whole pieces are read into these buffers.
    pub(crate) fn with_buffers(self, buffers: &ReadBuffers) -> Self {
        Self { buffers: Some(buffers.clone()), ..self }
    }

    /// The value's length.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether the value is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Up to `len_max` checked bytes of the value at `offset`; empty at the end. Fails with
    /// `Damaged` if they have another CRC than when they were written.
    pub fn read(&self, offset: u64, len_max: usize) -> StoreResult<Bytes> {
        let end = self.len.min(offset.saturating_add(len_max as u64));
        if offset >= end {
            return Ok(Bytes::new());
        }
        let block = BLOCK_BYTES as u64;
        let from = offset - offset % block;
        let to = end.next_multiple_of(block).min(self.len);
        let len = usize::try_from(to - from).unwrap_or(usize::MAX);
        let bytes = match &self.buffers {
            Some(buffers) if len == BUFFER_BYTES => {
                let mut buffer = buffers.take();
                self.read_blocks(buffer.bytes_mut(), from)?;
                buffer.share()
            }
            _ => {
                let mut bytes = vec![0; len];
                self.read_blocks(&mut bytes, from)?;
                bytes.into()
            }
        };
        let skipped = usize::try_from(offset - from).unwrap_or_default();
        let wanted = usize::try_from(end - offset).unwrap_or_default();
        Ok(bytes.slice(skipped..skipped + wanted))
    }

    /// Fills `bytes` from the block that begins at `from`, and checks them.
    fn read_blocks(&self, bytes: &mut [u8], from: u64) -> StoreResult<()> {
        let read = self.file.read_at(bytes, from).map_err(StoreError::disk("read a file"))?;
        if read != bytes.len() {
            return Err(StoreError::Damaged);
        }
        let start_block = usize::try_from(from / BLOCK_BYTES as u64).unwrap_or(usize::MAX);
        let crcs = self.crcs.chunks_exact(4).skip(start_block);
        for (block, crc) in bytes.chunks(BLOCK_BYTES).zip(crcs) {
            if crc32c(block).to_le_bytes() != crc {
                return Err(StoreError::Damaged);
            }
        }
        Ok(())
    }

    /// Checks the whole value.
    pub(crate) fn verify(&self) -> StoreResult<()> {
        let mut offset = 0;
        while offset < self.len {
            offset += self.read(offset, 16 * BLOCK_BYTES)?.len() as u64;
        }
        Ok(())
    }
}
