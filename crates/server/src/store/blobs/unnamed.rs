//! A blob whose digest is known only after it has arrived, and its bytes while it arrives.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_core::checksum::Checksummer;
use tidegate_core::digest::{Digest, DigestFunction};

use super::incoming::Spill;
use super::{Blobs, Form};
use crate::store::disk::DiskFile;
use crate::store::error::{StoreError, StoreResult};

/// A blob that arrives without a name. Dropping it keeps nothing.
#[derive(Debug)]
pub(crate) struct IncomingUnnamed {
    function: DigestFunction,
    /// The digest that the bytes must have, if it is known.
    expected: Option<Digest>,
    hash: Option<Checksummer>,
    spill: Spill,
}

/// The bytes of a blob that arrives, as far as they were written. It stays readable when the blob
/// gets its name or is dropped.
#[derive(Clone, Debug)]
pub(crate) struct StagedReader(Arc<dyn DiskFile>);

impl Blobs {
    /// A blob that gets the digest of its bytes as its name, which must be `expected` if that is
    /// given.
    pub(crate) fn receive_unnamed(
        &self,
        function: DigestFunction,
        expected: Option<Digest>,
    ) -> IncomingUnnamed {
        let hash = Checksummer::new(function.algorithm()).ok();
        IncomingUnnamed { function, expected, hash, spill: Spill::new(self) }
    }
}

impl IncomingUnnamed {
    /// The next bytes. Fails with `Mismatch` if they are more than the expected digest says.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> StoreResult<()> {
        let len = self.spill.len() + bytes.len() as u64;
        if self.expected.is_some_and(|expected| len > expected.len) {
            return Err(StoreError::Mismatch);
        }
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        self.spill.write(bytes)
    }

    /// The bytes that were written.
    pub(crate) fn len(&self) -> u64 {
        self.spill.len()
    }

    /// Reads what was written; `None` while the blob is short enough for a record.
    pub(crate) fn reader(&self) -> Option<StagedReader> {
        self.spill.staged_file().map(StagedReader)
    }

    /// Names the blob. Fails with `Mismatch` if another digest was expected.
    pub(crate) fn finish(self) -> StoreResult<Digest> {
        let hash = self.hash.map(Checksummer::finish);
        let hash = hash.and_then(|hash| hash.as_bytes().try_into().ok());
        let hash = hash.ok_or(StoreError::Mismatch)?;
        let digest = Digest { function: self.function, hash, len: self.spill.len() };
        if self.expected.is_some_and(|expected| expected != digest) {
            return Err(StoreError::Mismatch);
        }
        if digest.len > 0 {
            self.spill.commit(&digest, Form::Plain)?;
        }
        Ok(digest)
    }
}

impl StagedReader {
    /// Exactly `len` bytes that were written at `offset`. Blocks.
    pub(crate) fn read(&self, offset: u64, len: usize) -> StoreResult<Bytes> {
        let mut bytes = vec![0; len];
        let read = self.0.read_at(&mut bytes, offset).map_err(StoreError::disk("read a file"))?;
        if read != len {
            let cut = io::Error::from(io::ErrorKind::UnexpectedEof);
            return Err(StoreError::disk("read a file")(cut));
        }
        Ok(bytes.into())
    }
}
