//! Test data for both searches.

/// Pseudo-random bytes, with stretches in which every position has the same hash.
pub(super) fn bytes(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    });
    let mut bytes: Vec<u8> = noise.take(len).collect();
    bytes[len / 3..len / 2].fill(7);
    bytes
}
