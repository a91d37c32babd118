//! [`SplitResponse`]: reads the chunks of a `SplitBlobResponse` as it arrives.
//!
//! The generated client would collect the whole message and make a record of every chunk before any
//! check. A message of 66 MB whose digests are all empty, two bytes each, became 1.1 GiB. Here each
//! chunk is checked when it has arrived. An empty chunk, or one that ends beyond the blob's end,
//! ends the call. So there are never more chunks than the blob has bytes.
//!
//! The budget for lists pays for the records before the first one is made. A chunk takes at least
//! [`CHUNK_WIRE_BYTES_MIN`] of the message, whose length is known by then. Of the message itself at
//! most one incomplete chunk is held.

use prost::Message as _;
use tidegate_core::digest::Digest;
use tidegate_reapi::digest::from_proto;
use tidegate_reapi::framing::{PREFIX_BYTES, message_len};
use tidegate_reapi::{self as reapi, v2};

use crate::budget::{Budget, ListPermit};

/// Minimum size of a valid chunk: the field (2), its hash (66) and a length of one byte (2).
const CHUNK_WIRE_BYTES_MIN: u64 = 70;

/// Maximum size of a chunk: a hash, a length, and room for additions of later versions.
const CHUNK_WIRE_BYTES_MAX: u64 = 512;

/// The response cannot be correct for this blob, or its list does not fit into memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SplitError {
    #[error(transparent)]
    Framing(reapi::Error),
    #[error("expected a list of chunks, got bytes that are none")]
    Malformed,
    #[error("chunk {index}: {error}")]
    Digest { index: usize, error: reapi::Error },
    #[error("expected chunk {index} to have bytes, got 0")]
    Empty { index: usize },
    #[error("expected the chunks to add up to {expected} bytes, got at least {actual}")]
    Sum { expected: u64, actual: u64 },
    #[error(
        "the list of its chunks takes up to {bytes} bytes of memory, and all lists may take {limit}"
    )]
    Memory { bytes: u64, limit: u64, is_for_ever: bool },
}

/// See the module docs.
#[derive(Debug)]
pub(super) struct SplitResponse {
    blob: Digest,
    budget: Budget,
    message_bytes_max: u64,
    /// The incomplete field, or the incomplete prefix.
    pending: Vec<u8>,
    /// Bytes of the message that have not arrived yet; `None` before its length is known.
    left: Option<u64>,
    /// Remaining bytes of a field that is skipped; included in `left`.
    skip: u64,
    chunks: Vec<Digest>,
    sum: u64,
    cut_by: i32,
    paid: Option<ListPermit>,
}

enum Field<'a> {
    Chunk(&'a [u8]),
    CutBy(u64),
    /// A number that is ignored.
    Number,
    /// This many bytes follow and are skipped.
    Skip(u64),
}

impl SplitResponse {
    /// A response about `blob`, in a message of at most this many bytes. `budget` pays for its
    /// records.
    pub(super) fn new(blob: &Digest, message_bytes_max: u64, budget: &Budget) -> Self {
        Self {
            blob: *blob,
            budget: budget.clone(),
            message_bytes_max,
            pending: Vec::new(),
            left: None,
            skip: 0,
            chunks: Vec::new(),
            sum: 0,
            cut_by: 0,
            paid: None,
        }
    }

    /// Takes the next bytes.
    pub(super) fn push(&mut self, data: &[u8]) -> Result<(), SplitError> {
        let mut bytes = std::mem::take(&mut self.pending);
        bytes.extend_from_slice(data);
        let mut rest = &bytes[..];
        while let Some(used) = self.step(rest)? {
            rest = &rest[used..];
        }
        self.pending = rest.to_vec();
        Ok(())
    }

    /// Whether the message is complete.
    pub(super) fn is_whole(&self) -> bool {
        self.left == Some(0) && self.pending.is_empty()
    }

    /// The chunks, the number of the function that cut them, and the permit for their memory.
    pub(super) fn into_parts(self) -> (Vec<Digest>, i32, Option<ListPermit>) {
        let mut chunks = self.chunks;
        chunks.shrink_to_fit();
        (chunks, self.cut_by, self.paid)
    }

    /// Reads the prefix, a field, or skipped bytes; `None` if more bytes must arrive first.
    fn step(&mut self, rest: &[u8]) -> Result<Option<usize>, SplitError> {
        if rest.is_empty() {
            return Ok(None);
        }
        let Some(left) = self.left else { return self.prefix(rest) };
        if left == 0 {
            return Err(SplitError::Malformed);
        }
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
        if self.skip > 0 {
            let used = usize::try_from(self.skip).unwrap_or(usize::MAX).min(len);
            self.skip -= used as u64;
            self.left = Some(left - used as u64);
            return Ok(Some(used));
        }
        let Some((field, used)) = field(&rest[..len])? else {
            // The message is complete, and it ends within a field.
            let is_cut = len as u64 == left;
            return if is_cut { Err(SplitError::Malformed) } else { Ok(None) };
        };
        let left = left - used as u64;
        self.left = Some(left);
        match field {
            Field::Chunk(bytes) => self.chunk(bytes)?,
            Field::CutBy(number) => self.cut_by = i32::try_from(number).unwrap_or_default(),
            Field::Number => {}
            Field::Skip(skip) if skip > left => return Err(SplitError::Malformed),
            Field::Skip(skip) => self.skip = skip,
        }
        Ok(Some(used))
    }

    fn prefix(&mut self, rest: &[u8]) -> Result<Option<usize>, SplitError> {
        let Some(prefix) = rest.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let len = message_len(*prefix, self.message_bytes_max).map_err(SplitError::Framing)?;
        let len = u64::from(len);
        let count = (len / CHUNK_WIRE_BYTES_MIN + 1).min(self.blob.len);
        let bytes = count.saturating_mul(size_of::<Digest>() as u64);
        self.paid = self.budget.try_list(bytes);
        if self.paid.is_none() {
            let limit = self.budget.lists_bytes();
            return Err(SplitError::Memory { bytes, limit, is_for_ever: bytes > limit });
        }
        self.chunks.reserve_exact(usize::try_from(count).unwrap_or_default());
        self.left = Some(len);
        Ok(Some(PREFIX_BYTES))
    }

    fn chunk(&mut self, bytes: &[u8]) -> Result<(), SplitError> {
        let index = self.chunks.len();
        let digest = v2::Digest::decode(bytes).map_err(|_malformed| SplitError::Malformed)?;
        if digest.size_bytes == 0 {
            return Err(SplitError::Empty { index });
        }
        let chunk = from_proto(&digest, self.blob.function)
            .map_err(|error| SplitError::Digest { index, error })?;
        self.sum = self.sum.saturating_add(chunk.len);
        if self.sum > self.blob.len {
            return Err(SplitError::Sum { expected: self.blob.len, actual: self.sum });
        }
        self.chunks.push(chunk);
        Ok(())
    }
}

/// The first field in `bytes`, and its size in bytes; `None` if more bytes must arrive first.
fn field(bytes: &[u8]) -> Result<Option<(Field<'_>, usize)>, SplitError> {
    let Some((key, key_bytes)) = varint(bytes)? else { return Ok(None) };
    let rest = &bytes[key_bytes..];
    match (key >> 3, key & 7) {
        (3.., 1) => Ok(Some((Field::Skip(8), key_bytes))),
        (3.., 5) => Ok(Some((Field::Skip(4), key_bytes))),
        (2.., 0) => {
            let Some((number, used)) = varint(rest)? else { return Ok(None) };
            let field = if key >> 3 == 2 { Field::CutBy(number) } else { Field::Number };
            Ok(Some((field, key_bytes + used)))
        }
        (number @ (1 | 3..), 2) => {
            let Some((len, used)) = varint(rest)? else { return Ok(None) };
            if number != 1 {
                return Ok(Some((Field::Skip(len), key_bytes + used)));
            }
            if len > CHUNK_WIRE_BYTES_MAX {
                return Err(SplitError::Malformed);
            }
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            let chunk = rest[used..].get(..len);
            Ok(chunk.map(|chunk| (Field::Chunk(chunk), key_bytes + used + len)))
        }
        _ => Err(SplitError::Malformed),
    }
}

/// A number (protobuf, "Base 128 Varints") and its size in bytes.
fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, SplitError> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        let part = u64::from(byte & 0x7f);
        if index == 9 && *byte > 1 {
            return Err(SplitError::Malformed);
        }
        value |= part << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some((value, index + 1)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use tidegate_core::digest::DigestFunction;
    use tidegate_reapi::digest::to_proto;

    use super::*;
    use crate::budget::BudgetOptions;

    const MAX: u64 = 8 << 20;

    fn framed(message: &[u8]) -> Vec<u8> {
        let len = u32::try_from(message.len()).unwrap();
        [&[0][..], &len.to_be_bytes(), message].concat()
    }

    fn chunk(text: &str) -> Digest {
        Digest::of(DigestFunction::Sha256, text.as_bytes())
    }

    fn blob(len: u64) -> Digest {
        Digest { len, ..chunk("blob") }
    }

    fn taken(bytes: &[u8], cut: usize, len: u64) -> Result<SplitResponse, SplitError> {
        let mut response = SplitResponse::new(&blob(len), MAX, &Budget::default());
        bytes.chunks(cut).try_for_each(|bytes| response.push(bytes))?;
        Ok(response)
    }

    #[test]
    fn chunks_do_not_depend_on_frames() {
        let chunks = vec![chunk("a"), chunk("bc"), chunk("a")];
        let response = v2::SplitBlobResponse {
            chunk_digests: chunks.iter().map(to_proto).collect(),
            chunking_function: 2,
        };
        // Fields of later versions: bytes, a number, 4 bytes, 8 bytes.
        let later = [0x1a, 2, 1, 2, 0x20, 0x80, 1, 0x2d, 1, 2, 3, 4, 0x31, 1, 2, 3, 4, 5, 6, 7, 8];
        let bytes = framed(&[&later[..], &response.encode_to_vec(), &later].concat());
        for cut in 1..=bytes.len() {
            let response = taken(&bytes, cut, 4).unwrap();
            assert!(response.is_whole(), "{cut}");
            let (actual, cut_by, paid) = response.into_parts();
            assert_eq!((&actual, cut_by), (&chunks, 2), "{cut}");
            assert!(paid.is_some());
        }
        assert!(!taken(&bytes[..bytes.len() - 1], 7, 4).unwrap().is_whole());
    }

    #[test]
    fn the_first_chunk_that_cannot_be_right_ends_it() {
        let of = |len: i64| {
            let digest = v2::Digest { size_bytes: len, ..to_proto(&chunk("a")) };
            let response =
                v2::SplitBlobResponse { chunk_digests: vec![digest; 3], chunking_function: 0 };
            let bytes = framed(&response.encode_to_vec());
            // The rest never arrives.
            taken(&bytes[..bytes.len() - 60], 16, 4).unwrap_err()
        };
        assert_eq!(of(0), SplitError::Empty { index: 0 });
        let error = reapi::Error::NegativeLength(-1);
        assert_eq!(of(-1), SplitError::Digest { index: 0, error });
        assert_eq!(of(3), SplitError::Sum { expected: 4, actual: 6 });
        let empty = framed(&[0x0a, 0].repeat(1000));
        assert_eq!(taken(&empty[..8], 8, 4).unwrap_err(), SplitError::Empty { index: 0 });
    }

    #[test]
    fn what_is_no_list_of_chunks_is_refused() {
        for message in [
            &[0x08, 1][..],
            &[0x12, 1, 0],
            &[0x0b],
            &[0x00, 1],
            &[0x0a, 0xff, 0x7f],
            &[0x0a, 5, 1],
            &[0x1a, 5, 1],
            &[0xff; 11],
        ] {
            let error = taken(&framed(message), 3, 4).unwrap_err();
            assert_eq!(error, SplitError::Malformed, "{message:?}");
        }
        assert_eq!(
            taken(&[1, 0, 0, 0, 0], 5, 4).unwrap_err(),
            SplitError::Framing(reapi::Error::Compressed(1))
        );
        let too_long = reapi::Error::MessageTooLong { len: 1 << 24, max: MAX };
        assert_eq!(taken(&[0, 1, 0, 0, 0], 5, 4).unwrap_err(), SplitError::Framing(too_long));
    }

    #[test]
    fn records_are_paid_before_they_are_made() {
        let budget = Budget::new(BudgetOptions { requests: 1, bytes: 4 << 20 });
        let prefix = |len: u32, budget: &Budget| {
            let mut response = SplitResponse::new(&blob(1 << 40), 8 * MAX, budget);
            response.push(&[&[0][..], &len.to_be_bytes()].concat()).map(|()| response)
        };
        // Lists may take 16 MiB: each of these has room for 228,572 chunks of 48 bytes.
        let held = prefix(16_000_000, &budget).unwrap();
        let full = prefix(16_000_000, &budget).unwrap_err();
        assert!(matches!(full, SplitError::Memory { is_for_ever: false, .. }), "{full}");
        assert!(prefix(5_000_000, &budget).is_ok());
        drop(held);
        assert!(prefix(16_000_000, &budget).is_ok());
        let never = prefix(30_000_000, &budget).unwrap_err();
        assert!(matches!(never, SplitError::Memory { is_for_ever: true, .. }), "{never}");
    }
}
