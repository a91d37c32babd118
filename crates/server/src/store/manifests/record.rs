//! The bytes of manifests and slices in the store.
//!
//! ```text
//! manifest  version u8, chunking (tag u8 and its parameters), then each chunk: hash 32, length u64
//! slice     version u8, blob: hash 32, length u64; offset u64
//! ```
//!
//! Numbers are little-endian. The hash function is that of the blob in the key. The store checks the
//! bytes with a CRC; what does not decode is treated as damaged.

use bytes::{Buf as _, BufMut as _, Bytes};
use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams};
use tidegate_core::digest::{Digest, DigestFunction};

const VERSION: u8 = 1;

/// The bytes of a hash and a length.
const CHUNK_BYTES: usize = 40;

const UNKNOWN: u8 = 0;
const FAST_CDC_2020: u8 = 1;
const REP_MAX_CDC: u8 = 2;

/// The chunks of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManifestRecord {
    /// How the blob was cut, if it is known.
    pub(crate) chunking: Option<Chunking>,
    pub(crate) chunks: Vec<Digest>,
}

impl ManifestRecord {
    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(64 + CHUNK_BYTES * self.chunks.len());
        bytes.put_u8(VERSION);
        match &self.chunking {
            Some(Chunking::FastCdc2020(params)) => {
                bytes.put_u8(FAST_CDC_2020);
                bytes.put_u64_le(params.avg_bytes());
                bytes.put_u64_le(params.min_bytes());
                bytes.put_u64_le(params.max_bytes());
                bytes.put_u32_le(params.normalization());
                bytes.put_u32_le(params.seed());
            }
            Some(Chunking::RepMaxCdc(params)) => {
                bytes.put_u8(REP_MAX_CDC);
                bytes.put_u64_le(params.min_bytes());
                bytes.put_u64_le(params.horizon_bytes());
            }
            _ => bytes.put_u8(UNKNOWN),
        }
        for chunk in &self.chunks {
            bytes.put_slice(&chunk.hash);
            bytes.put_u64_le(chunk.len);
        }
        bytes.into()
    }

    /// `None` if the bytes are not a manifest of `blob`.
    pub(crate) fn decode(blob: &Digest, mut bytes: &[u8]) -> Option<Self> {
        if bytes.try_get_u8().ok()? != VERSION {
            return None;
        }
        let chunking = match bytes.try_get_u8().ok()? {
            UNKNOWN => None,
            FAST_CDC_2020 => Some(fast_cdc(&mut bytes)?),
            REP_MAX_CDC => {
                let min = bytes.try_get_u64_le().ok()?;
                let horizon = bytes.try_get_u64_le().ok()?;
                Some(Chunking::RepMaxCdc(RepMaxCdcParams::new(min, horizon).ok()?))
            }
            _ => return None,
        };
        let mut chunks = Vec::with_capacity(bytes.len() / CHUNK_BYTES);
        let mut sum = 0_u64;
        while !bytes.is_empty() {
            let chunk = digest(blob.function, &mut bytes)?;
            sum = sum.checked_add(chunk.len).filter(|_| chunk.len > 0)?;
            chunks.push(chunk);
        }
        (sum == blob.len).then_some(Self { chunking, chunks })
    }
}

fn fast_cdc(bytes: &mut &[u8]) -> Option<Chunking> {
    let avg = bytes.try_get_u64_le().ok()?;
    let min = bytes.try_get_u64_le().ok()?;
    let max = bytes.try_get_u64_le().ok()?;
    let normalization = bytes.try_get_u32_le().ok()?;
    let seed = bytes.try_get_u32_le().ok()?;
    let params = FastCdc2020Params::new(avg, seed).ok()?.with_chunk_bytes(min..=max).ok()?;
    Some(Chunking::FastCdc2020(params.with_normalization(normalization).ok()?))
}

fn digest(function: DigestFunction, bytes: &mut &[u8]) -> Option<Digest> {
    let mut hash = [0; 32];
    bytes.try_copy_to_slice(&mut hash).ok()?;
    Some(Digest { function, hash, len: bytes.try_get_u64_le().ok()? })
}

/// Where a blob lies in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) blob: Digest,
    pub(crate) offset: u64,
}

impl Slice {
    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(1 + CHUNK_BYTES + 8);
        bytes.put_u8(VERSION);
        bytes.put_slice(&self.blob.hash);
        bytes.put_u64_le(self.blob.len);
        bytes.put_u64_le(self.offset);
        bytes.into()
    }

    /// `None` if the bytes are not the place of `slice`.
    pub(crate) fn decode(slice: &Digest, mut bytes: &[u8]) -> Option<Self> {
        if bytes.try_get_u8().ok()? != VERSION {
            return None;
        }
        let blob = digest(slice.function, &mut bytes)?;
        let offset = bytes.try_get_u64_le().ok()?;
        let end = offset.checked_add(slice.len)?;
        (bytes.is_empty() && end <= blob.len).then_some(Self { blob, offset })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(len: u64) -> Digest {
        Digest { len, ..Digest::of(DigestFunction::Sha256, &len.to_le_bytes()) }
    }

    fn chunkings() -> impl Strategy<Value = Option<Chunking>> {
        prop_oneof![
            Just(None),
            (10_u32..=20, any::<u32>(), 0_u32..=3).prop_map(|(bits, seed, normalization)| {
                let params = FastCdc2020Params::new(1 << bits, seed).unwrap();
                let params = params.with_normalization(normalization).unwrap();
                Some(Chunking::FastCdc2020(params))
            }),
            (64_u64..1 << 20, 0_u64..1 << 20).prop_filter_map("parameters", |(min, horizon)| {
                Some(Some(Chunking::RepMaxCdc(RepMaxCdcParams::new(min, horizon).ok()?)))
            }),
        ]
    }

    proptest! {
        #[test]
        fn manifests_come_back(
            lens in prop::collection::vec(1_u64..1 << 40, 1..50),
            chunking in chunkings(),
            cut in any::<prop::sample::Index>(),
        ) {
            let blob = of(lens.iter().sum());
            let chunks = lens.into_iter().map(of).collect();
            let record = ManifestRecord { chunking, chunks };
            let bytes = record.encode();
            prop_assert_eq!(ManifestRecord::decode(&blob, &bytes), Some(record));
            prop_assert_eq!(ManifestRecord::decode(&blob, &bytes[..cut.index(bytes.len())]), None);
            prop_assert_eq!(ManifestRecord::decode(&of(blob.len + 1), &bytes), None);
        }

        #[test]
        fn slices_come_back(len in 1_u64..1 << 40, offset in 0_u64..1 << 40, rest in 0_u64..1 << 40) {
            let slice = Slice { blob: of(offset + len + rest), offset };
            let bytes = slice.encode();
            prop_assert_eq!(Slice::decode(&of(len), &bytes), Some(slice));
            prop_assert_eq!(Slice::decode(&of(len + rest + 1), &bytes), None);
            prop_assert_eq!(Slice::decode(&of(len), &bytes[1..]), None);
        }

        #[test]
        fn arbitrary_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let tagged = [&[VERSION], &bytes[..]].concat();
            for bytes in [&bytes, &tagged] {
                let _ = ManifestRecord::decode(&of(1000), bytes);
                let _ = Slice::decode(&of(1000), bytes);
            }
        }
    }
}
