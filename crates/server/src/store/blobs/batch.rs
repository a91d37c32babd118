//! Blobs that arrive together in one message, plain or compressed. Each is verified on its own; the
//! caller commits them as one group.

use bytes::Bytes;
use tidegate_core::digest::Digest;
use tidegate_reapi::zstd::unpack;

use super::incoming::{Spill, saves_enough};
use super::{Blobs, Form};
use crate::store::core::Op;
use crate::store::error::{StoreError, StoreResult};

/// A blob in a message.
#[derive(Clone, Debug)]
pub(crate) struct BatchEntry {
    /// Its name.
    pub(crate) digest: Digest,
    /// Its bytes, or one zstd frame of them.
    pub(crate) data: Bytes,
    /// Whether `data` is a zstd frame.
    pub(crate) is_packed: bool,
}

impl Blobs {
    /// Verifies an entry. Returns the operation that stores it; `None` for the empty blob. Fails with
    /// `Mismatch` if the bytes have another digest.
    ///
    /// Allocates the declared length of a compressed entry, which the caller has checked.
    pub(crate) fn prepare(&self, entry: &BatchEntry) -> StoreResult<Option<Op>> {
        let BatchEntry { digest, data, is_packed } = entry;
        if !is_packed {
            return self.prepare_plain(digest, data, Form::Plain, data);
        }
        let plain = unpack(data, digest.len).ok().ok_or(StoreError::Mismatch)?;
        if saves_enough(data.len() as u64, digest.len) {
            return self.prepare_plain(digest, &plain, Form::Zstd, data);
        }
        self.prepare_plain(digest, &plain, Form::Plain, &plain)
    }

    /// Compares `plain` with the digest. The blob is stored as `stored`.
    fn prepare_plain(
        &self,
        digest: &Digest,
        plain: &[u8],
        form: Form,
        stored: &Bytes,
    ) -> StoreResult<Option<Op>> {
        if plain.len() as u64 != digest.len || Digest::of(digest.function, plain) != *digest {
            return Err(StoreError::Mismatch);
        }
        if digest.len == 0 {
            return Ok(None);
        }
        let content = Spill::whole(self, stored)?;
        Ok(Some(Op::Put { key: self.key(digest), form: form as u8, size: digest.len, content }))
    }
}
