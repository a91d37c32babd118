//! The bytes of an action result in the store.
//!
//! ```text
//! version u8, function u8, invocation: length u8, text; blobs u32, then each blob: hash 32, length u64;
//! then the result
//! ```
//!
//! Numbers are little-endian. Version 1 has no invocation.

use bytes::{Buf as _, BufMut as _, Bytes};
use tidegate_core::digest::{Digest, DigestFunction};

const VERSION: u8 = 2;
const VERSION_WITHOUT_INVOCATION: u8 = 1;
const BLOB_BYTES: usize = 40;

/// An action result with its closure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct ActionRecord {
    /// The invocation that stored it; empty if the client named none.
    pub(super) invocation: String,
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
        // A longer name is none that a client of builds makes.
        let invocation = u8::try_from(self.invocation.len()).map_or("", |_| &self.invocation);
        let head = 7 + invocation.len();
        let mut bytes = Vec::with_capacity(head + BLOB_BYTES * blobs + self.result.len());
        bytes.put_u8(VERSION);
        bytes.put_u8(number(function));
        bytes.put_u8(u8::try_from(invocation.len()).unwrap_or_default());
        bytes.put_slice(invocation.as_bytes());
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
        let invocation = take_head(&mut bytes, Some(function))?;
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
        Some(Self { invocation, closure, result: bytes })
    }

    /// The invocation of a result, whatever function names its blobs.
    pub(in crate::store) fn invocation_of(stored: &Bytes) -> Option<String> {
        take_head(&mut stored.clone(), None)
    }
}

/// Takes version, function and invocation from the front. Returns the invocation.
fn take_head(bytes: &mut Bytes, function: Option<DigestFunction>) -> Option<String> {
    let version = bytes.try_get_u8().ok()?;
    let found = bytes.try_get_u8().ok()?;
    if function.is_some_and(|function| number(function) != found) {
        return None;
    }
    match version {
        VERSION_WITHOUT_INVOCATION => Some(String::new()),
        VERSION => {
            let len = usize::from(bytes.try_get_u8().ok()?);
            let text = (bytes.len() >= len).then(|| bytes.split_to(len))?;
            String::from_utf8(text.into()).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_come_back(
            invocation in "[a-z0-9-]{0,40}",
            blobs in prop::collection::vec(any::<u64>(), 0..20),
            result in prop::collection::vec(any::<u8>(), 0..100),
            noise in prop::collection::vec(any::<u8>(), 0..100),
            cut in any::<prop::sample::Index>(),
        ) {
            let function = DigestFunction::Blake3;
            let blob = |len: u64| Digest { len, ..Digest::of(function, &len.to_le_bytes()) };
            let closure = blobs.into_iter().map(blob).collect();
            let record = ActionRecord { invocation, closure, result: result.into() };
            let bytes = record.encode(function);
            prop_assert_eq!(ActionRecord::decode(function, &bytes), Some(record.clone()));
            prop_assert_eq!(ActionRecord::decode(DigestFunction::Sha256, &bytes), None);
            prop_assert_eq!(ActionRecord::invocation_of(&bytes), Some(record.invocation.clone()));
            let head = 7 + record.invocation.len() + BLOB_BYTES * record.closure.len();
            let cut = cut.index(head);
            prop_assert_eq!(ActionRecord::decode(function, &bytes.slice(..cut)), None);
            let _ = ActionRecord::decode(function, &noise.into());
        }
    }
}
