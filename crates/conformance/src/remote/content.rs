//! Bytes for blobs, and their checksums.

use bytes::Bytes;
use tidegate::{Checksum, ChecksumAlgorithm};
use tidegate_core::checksum::Checksummer;

/// `len` bytes that differ from position to position and from seed to seed, so that swapped or
/// misplaced bytes are detected.
pub fn content(len: usize, seed: u64) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        // Marsaglia, "Xorshift RNGs", 2003.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// The checksum of these bytes.
///
/// # Panics
///
/// For an algorithm that the library does not compute.
pub fn checksum(algorithm: ChecksumAlgorithm, bytes: &[u8]) -> Checksum {
    match Checksummer::of(algorithm, bytes) {
        Ok(checksum) => checksum,
        Err(error) => panic!("{error}"),
    }
}
