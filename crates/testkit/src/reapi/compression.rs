//! zstd, of whole blobs.

use std::io::Read as _;

use bytes::Bytes;

use super::{cas::joined, status::GrpcStatus};

/// The number of zstd among the API's compressors.
pub(crate) const ZSTD: i32 = 1;
/// The number of no compression.
pub(crate) const IDENTITY: i32 = 0;

/// Compresses these pieces. It prefers speed to size, because the result is sent only once.
pub(crate) fn compress(pieces: Vec<Bytes>) -> Result<Bytes, GrpcStatus> {
    let compressed = zstd::bulk::compress(&joined(pieces), 1);
    compressed.map(Bytes::from).map_err(|error| GrpcStatus::invalid(error.to_string()))
}

/// Decompresses these pieces. The result has at most `len_bytes` + 1 bytes, for any claimed size.
pub(crate) fn decompress(pieces: Vec<Bytes>, len_bytes: u64) -> Result<Bytes, GrpcStatus> {
    let invalid = |error: std::io::Error| GrpcStatus::invalid(format!("no zstd: {error}"));
    let compressed = joined(pieces);
    let decoder = zstd::stream::read::Decoder::new(&compressed[..]).map_err(invalid)?;
    let mut data = Vec::new();
    decoder.take(len_bytes.saturating_add(1)).read_to_end(&mut data).map_err(invalid)?;
    Ok(data.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_bytes_decompress_to_the_original() {
        let data = crate::pseudo_random(100_000, 1);
        let compressed = compress(vec![data.slice(..1000), data.slice(1000..)]).unwrap();
        assert_eq!(decompress(vec![compressed], 100_000).unwrap(), data);
        assert!(decompress(vec![data], 100_000).is_err());
    }

    #[test]
    fn a_bomb_is_not_unpacked() {
        let compressed = compress(vec![vec![0; 10_000_000].into()]).unwrap();
        assert_eq!(decompress(vec![compressed], 1000).unwrap().len(), 1001);
    }
}
