//! The bytes of an action result in the store.
//!
//! ```text
//! version u8, function u8, blobs u32, then each blob: hash 32, length u64; then the result
//! ```
//!
//! Numbers are little-endian.

use bytes::{Buf as _, BufMut as _, Bytes};
use tidegate_core::digest::{Digest, DigestFunction};

const VERSION: u8 = 1;
const BLOB_BYTES: usize = 40;

/// An action result with its closure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ActionRecord {
    pub(super) closure: Vec<Digest>,
    pub(super) result: Bytes,
}

fn number(function: DigestFunction) -> u8 {
    match function {
        DigestFunction::Blake3 => 2,
        _ => 1,
    }
}

impl ActionRecord {
    pub(super) fn encode(&self, function: DigestFunction) -> Bytes {
        let blobs = self.closure.len();
        let mut bytes = Vec::with_capacity(6 + BLOB_BYTES * blobs + self.result.len());
        bytes.put_u8(VERSION);
        bytes.put_u8(number(function));
        // The limits of a closure are far below.
        bytes.put_u32_le(u32::try_from(blobs).unwrap_or(u32::MAX));
        for blob in &self.closure {
            bytes.put_slice(&blob.hash);
            bytes.put_u64_le(blob.len);
        }
        bytes.put_slice(&self.result);
        bytes.into()
    }

    /// `None` if the bytes are not a result whose blobs are named by `function`.
    pub(super) fn decode(function: DigestFunction, stored: &Bytes) -> Option<Self> {
        let mut bytes = stored.clone();
        if bytes.try_get_u8().ok()? != VERSION || bytes.try_get_u8().ok()? != number(function) {
            return None;
        }
        let blobs = usize::try_from(bytes.try_get_u32_le().ok()?).ok()?;
        if bytes.len() / BLOB_BYTES < blobs {
            return None;
        }
        let mut closure = Vec::with_capacity(blobs);
        for _ in 0..blobs {
            let mut hash = [0; 32];
            bytes.try_copy_to_slice(&mut hash).ok()?;
            closure.push(Digest { function, hash, len: bytes.try_get_u64_le().ok()? });
        }
        Some(Self { closure, result: bytes })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_come_back(
            blobs in prop::collection::vec(any::<u64>(), 0..20),
            result in prop::collection::vec(any::<u8>(), 0..100),
            noise in prop::collection::vec(any::<u8>(), 0..100),
            cut in any::<prop::sample::Index>(),
        ) {
            let function = DigestFunction::Blake3;
            let blob = |len: u64| Digest { len, ..Digest::of(function, &len.to_le_bytes()) };
            let closure = blobs.into_iter().map(blob).collect();
            let record = ActionRecord { closure, result: result.into() };
            let bytes = record.encode(function);
            prop_assert_eq!(ActionRecord::decode(function, &bytes), Some(record.clone()));
            prop_assert_eq!(ActionRecord::decode(DigestFunction::Sha256, &bytes), None);
            let head = 6 + BLOB_BYTES * record.closure.len();
            let cut = cut.index(head);
            prop_assert_eq!(ActionRecord::decode(function, &bytes.slice(..cut)), None);
            let _ = ActionRecord::decode(function, &noise.into());
        }
    }
}
