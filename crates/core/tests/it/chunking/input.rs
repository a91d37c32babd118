//! Test data to cut.

/// The pseudo-random bytes of `SplitMix64`, little-endian.
pub(super) fn splitmix64(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bytes.extend_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The alphabet, repeated.
pub(super) fn alphabet(len: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(len).collect()
}
