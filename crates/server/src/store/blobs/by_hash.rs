//! Blobs whose length is unknown until they are found, or until they have arrived. HTTP names a blob
//! by its hash alone.

use tidegate_core::checksum::Checksummer;
use tidegate_core::digest::{Digest, DigestFunction};

use super::incoming::Spill;
use super::{Blobs, Form, Touch};
use crate::store::error::{StoreError, StoreResult};

/// A blob's name without its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlobHash {
    /// The function.
    pub function: DigestFunction,
    /// The hash.
    pub hash: [u8; 32],
}

impl BlobHash {
    /// The digest of this hash and a length.
    pub const fn with_len(self, len: u64) -> Digest {
        Digest { function: self.function, hash: self.hash, len }
    }
}

impl Blobs {
    /// The digest of a blob that is there.
    pub(crate) fn find_by_hash(&self, name: &BlobHash) -> StoreResult<Option<Digest>> {
        let empty = Digest::of(name.function, b"");
        if empty.hash == name.hash {
            return Ok(Some(empty));
        }
        let any = name.with_len(0);
        for key in [self.key(&any), self.manifest_key(&any), self.slice_key(&any)] {
            for found in self.core.keys_of_hash(&key)? {
                if let Some(digest) = found.named_digest()
                    && self.all_present(&[digest], Touch::Now)?
                {
                    return Ok(Some(digest));
                }
            }
        }
        Ok(None)
    }

    /// A blob of unknown length that arrives plain. Dropping it keeps nothing.
    pub(crate) fn receive_by_hash(&self, name: BlobHash) -> IncomingByHash {
        let hash = Checksummer::new(name.function.algorithm()).ok();
        IncomingByHash { name, hash, spill: Spill::new(self) }
    }
}

/// A blob of unknown length that arrives plain.
#[derive(Debug)]
pub(crate) struct IncomingByHash {
    name: BlobHash,
    hash: Option<Checksummer>,
    spill: Spill,
}

impl IncomingByHash {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> StoreResult<()> {
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        self.spill.write(bytes)
    }

    /// Names the blob. Fails with `Mismatch` if the bytes have another hash.
    pub(crate) fn finish(self) -> StoreResult<Digest> {
        let digest = self.name.with_len(self.spill.len());
        if self.hash.map(Checksummer::finish) != Some(digest.checksum()) {
            return Err(StoreError::Mismatch);
        }
        if digest.len > 0 {
            self.spill.commit(&digest, Form::Plain)?;
        }
        Ok(digest)
    }
}
