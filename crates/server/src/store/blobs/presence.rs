//! Which blobs are there, with everything that they need. A look-up touches or pins all of it.

use tidegate_core::digest::Digest;

use super::{Blobs, Form};
use crate::store::core::{Value, ValueContent};
use crate::store::error::StoreResult;
use crate::store::key::{Fingerprint, Key};
use crate::store::manifests::{self, Slice};

/// Values longer than this are not records of a manifest or a slice that this version wrote.
const BESIDE_BYTES_MAX: usize = 64 << 20;

/// What a look-up does to what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// It is used now.
    Now,
    /// It is used now, and stays for some minutes.
    Pin,
}

impl Blobs {
    /// For each blob, whether it is there. The empty blob always is.
    pub(crate) fn present(&self, digests: &[Digest], touch: Touch) -> StoreResult<Vec<bool>> {
        let mut present = self.whole(digests, touch);
        for (digest, is_present) in digests.iter().zip(&mut present) {
            if !*is_present {
                *is_present = digest.len == 0
                    || self.manifest(digest, touch)?.is_some()
                    || self.slice(digest, touch)?.is_some();
            }
        }
        Ok(present)
    }

    /// Whether all blobs are there.
    pub(crate) fn all_present(&self, digests: &[Digest], touch: Touch) -> StoreResult<bool> {
        Ok(self.present(digests, touch)?.into_iter().all(|is_present| is_present))
    }

    /// Whether all blobs are values by themselves, or empty. It reads no disk if the index is loaded.
    pub(crate) fn all_whole(&self, digests: &[Digest], touch: Touch) -> bool {
        let present = self.whole(digests, touch).into_iter().zip(digests);
        present.into_iter().all(|(is_present, digest)| is_present || digest.len == 0)
    }

    /// The bytes of a short blob from an offset on, if they are in the cache of the system. `None`
    /// says nothing.
    pub(crate) fn plain_cached(&self, digest: &Digest, offset: u64) -> Option<bytes::Bytes> {
        let value = self.core.get_cached(&self.key(digest))?;
        let ValueContent::Bytes(bytes) = value.content else { return None };
        let is_plain = Form::from_number(value.form) == Some(Form::Plain);
        let start = usize::try_from(offset).ok()?;
        (is_plain && bytes.len() as u64 == digest.len && start <= bytes.len())
            .then(|| bytes.slice(start..))
    }

    /// The chunks of a blob that has a manifest, if all of them are there.
    pub(crate) fn manifest(
        &self,
        digest: &Digest,
        touch: Touch,
    ) -> StoreResult<Option<manifests::ManifestRecord>> {
        let key = self.manifest_key(digest);
        let Some(bytes) = self.beside(&key, Form::Manifest, touch)? else { return Ok(None) };
        let Some(record) = manifests::ManifestRecord::decode(digest, &bytes) else {
            self.core.note_damaged(&key);
            return Ok(None);
        };
        let is_whole = self.leaves_present(&record.chunks, touch)?;
        Ok(is_whole.then_some(record))
    }

    /// The length of a blob's manifest in bytes, if it has one.
    pub(crate) fn manifest_bytes(&self, digest: &Digest) -> StoreResult<Option<u64>> {
        let value = self.core.get(&self.manifest_key(digest))?;
        Ok(value.map(|value| value.content.len()))
    }

    /// Where a blob lies in another one that is there.
    pub(crate) fn slice(&self, digest: &Digest, touch: Touch) -> StoreResult<Option<Slice>> {
        let key = self.slice_key(digest);
        let Some(bytes) = self.beside(&key, Form::Slice, touch)? else { return Ok(None) };
        let Some(slice) = Slice::decode(digest, &bytes) else {
            self.core.note_damaged(&key);
            return Ok(None);
        };
        let is_there = self.whole(&[slice.blob], touch).contains(&true);
        Ok(is_there.then_some(slice))
    }

    /// Whether each blob is whole or a slice. Chunks of a manifest are nothing else.
    pub(crate) fn leaves(&self, digests: &[Digest], touch: Touch) -> StoreResult<Vec<bool>> {
        let mut present = self.whole(digests, touch);
        for (digest, is_present) in digests.iter().zip(&mut present) {
            if !*is_present {
                *is_present = digest.len == 0 || self.slice(digest, touch)?.is_some();
            }
        }
        Ok(present)
    }

    fn leaves_present(&self, digests: &[Digest], touch: Touch) -> StoreResult<bool> {
        Ok(self.leaves(digests, touch)?.into_iter().all(|is_present| is_present))
    }

    /// Whether the index names a manifest or a slice of the blob.
    pub(crate) fn has_beside(&self, digest: &Digest) -> bool {
        self.core.has_beside(self.owner, digest)
    }

    /// For each blob, whether the index has its bytes. Touches those that it has.
    pub(crate) fn indexed(&self, digests: &[Digest]) -> Vec<bool> {
        self.core.contains_blobs_of(self.owner, digests)
    }

    /// For each blob, whether its bytes are a value.
    fn whole(&self, digests: &[Digest], touch: Touch) -> Vec<bool> {
        match touch {
            Touch::Now => self.indexed(digests),
            Touch::Pin => {
                let fingerprint = |digest: &Digest| self.core.fingerprint(&self.key(digest));
                let fingerprints: Vec<Fingerprint> = digests.iter().map(fingerprint).collect();
                self.core.pin_all(&fingerprints)
            }
        }
    }

    /// The bytes of a value beside a blob; `None` if there is none, or it has another form.
    fn beside(&self, key: &Key, form: Form, touch: Touch) -> StoreResult<Option<bytes::Bytes>> {
        if touch == Touch::Pin {
            self.core.pin_all(&[self.core.fingerprint(key)]);
        }
        let Some(value) = self.core.get(key)? else { return Ok(None) };
        if Form::from_number(value.form) != Some(form) {
            return Ok(None);
        }
        self.small(key, value)
    }

    /// The bytes of a value that is small; `None` if it is damaged.
    pub(crate) fn small(&self, key: &Key, value: Value) -> StoreResult<Option<bytes::Bytes>> {
        let file = match value.content {
            ValueContent::Bytes(bytes) => return Ok(Some(bytes)),
            ValueContent::File(file) => file,
        };
        if file.len() > BESIDE_BYTES_MAX as u64 {
            return Ok(None);
        }
        match file.read(0, BESIDE_BYTES_MAX) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => self.miss_if_damaged(key, error),
        }
    }
}
