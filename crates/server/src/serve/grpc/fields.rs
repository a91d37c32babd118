//! The fields of a message, in place: no field is copied and nothing is allocated.
//!
//! Only what calls with many blobs need (protobuf, "Encoding"): numbers, and fields with a length.

use bytes::{BufMut as _, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::{Error, Result};

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Four or eight bytes. No field of the calls has this type.
    Fixed,
}

/// The fields of a message in their order. After an error there are none.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(in crate::serve) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    #[inline]
    fn varint(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        if *first < 0x80 {
            self.0 = rest;
            return Some(u64::from(*first));
        }
        let mut value = 0;
        for (index, byte) in self.0.iter().enumerate().take(10) {
            let part = u64::from(byte & 0x7f);
            if index == 9 && part > 1 {
                return None;
            }
            value |= part << (7 * index);
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Some(value);
            }
        }
        None
    }

    #[inline]
    fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    #[inline]
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let len = self.varint()?;
                Value::Bytes(self.take(len)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        (key >> 3 != 0).then_some((key >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(Error::Malformed))
    }
}

/// The digest in the bytes of a `Digest` message.
#[inline]
pub(super) fn digest(message: &[u8], function: DigestFunction) -> Result<Digest> {
    let (mut hash, mut len): (&[u8], u64) = (&[], 0);
    for field in Fields::of(message) {
        match field? {
            (1, Value::Bytes(text)) => hash = text,
            (2, Value::Number(number)) => len = number,
            (1 | 2, _) => return Err(Error::Malformed),
            _ => {}
        }
    }
    let signed = len.cast_signed();
    if signed < 0 {
        return Err(Error::NegativeLength(signed));
    }
    let hash = tidegate_reapi::digest::hash(hash).ok_or(Error::Hash(hash.len()))?;
    Ok(Digest { function, hash, len })
}

/// Appends a field with a length.
#[inline]
pub(super) fn put_bytes(target: &mut BytesMut, number: u32, bytes: &[u8]) {
    put_len(target, number, bytes.len());
    target.put_slice(bytes);
}

/// Appends the key and the length of a field whose bytes follow.
#[inline]
pub(super) fn put_len(target: &mut BytesMut, number: u32, len: usize) {
    encode_key(number, WireType::LengthDelimited, target);
    encode_varint(len as u64, target);
}

/// The length of a field with `len` bytes, with its key.
#[inline]
pub(super) fn field_len(number: u32, len: usize) -> usize {
    key_len(number) + encoded_len_varint(len as u64) + len
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message as _;
    use tidegate_reapi::v2;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Fields::of(&bytes).count();
            let _ = digest(&bytes, DigestFunction::Sha256);
        }

        #[test]
        fn digests_are_those_of_the_generated_code(hash: [u8; 32], len in 0..i64::MAX) {
            let len = u64::try_from(len).unwrap();
            let expected = Digest { function: DigestFunction::Blake3, hash, len };
            let message = tidegate_reapi::digest::to_proto(&expected).encode_to_vec();
            prop_assert_eq!(digest(&message, DigestFunction::Blake3), Ok(expected));
        }

        #[test]
        fn fields_are_those_of_the_generated_code(
            name in "[a-z]{0,300}",
            number in any::<i32>(),
            hashes in prop::collection::vec("[a-f]{0,70}", 0..5),
        ) {
            let blob_digests: Vec<_> = hashes
                .iter()
                .map(|hash| v2::Digest { hash: hash.clone(), size_bytes: 7 })
                .collect();
            let message = v2::FindMissingBlobsRequest {
                instance_name: name,
                blob_digests: blob_digests.clone(),
                digest_function: number,
            };
            let bytes = message.encode_to_vec();
            let mut found = Vec::new();
            for field in Fields::of(&bytes) {
                match field.unwrap() {
                    (1, Value::Bytes(text)) => {
                        prop_assert_eq!(text, message.instance_name.as_bytes());
                    }
                    (2, Value::Bytes(one)) => found.push(v2::Digest::decode(one).unwrap()),
                    (3, Value::Number(value)) => {
                        prop_assert_eq!(value, i64::from(number).cast_unsigned());
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            prop_assert_eq!(found, blob_digests);
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [&[0x0a][..], &[0x0a, 5, 1], &[0x0b], &[0xff; 11], &[0, 0], &[0x0d, 1]] {
            assert!(Fields::of(bytes).any(|field| field.is_err()), "{bytes:?}");
        }
        let negative = v2::Digest { hash: "a".repeat(64), size_bytes: -1 }.encode_to_vec();
        assert_eq!(digest(&negative, DigestFunction::Sha256), Err(Error::NegativeLength(-1)));
        assert_eq!(digest(&[], DigestFunction::Sha256), Err(Error::Hash(0)));
        assert_eq!(digest(&[0x08, 1], DigestFunction::Sha256), Err(Error::Malformed));
    }
}
