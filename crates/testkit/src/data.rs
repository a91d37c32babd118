//! Test data that shows its own position.
//!
//! Every 8 bytes are a function of the seed and their position. A piece at a wrong offset, written
//! twice or out of order never compares equal. Any window can be recomputed without the whole.

use bytes::Bytes;

use crate::random::{GOLDEN, mix};

/// Bytes in one word of the data.
const WORD: u64 = 8;

/// `len_bytes` bytes that depend on `seed` and on their position.
///
/// A shorter blob of the same seed is a prefix of a longer one.
pub fn pseudo_random(len_bytes: usize, seed: u64) -> Bytes {
    let mut data = vec![0; len_bytes];
    fill(&mut data, seed, 0);
    Bytes::from(data)
}

/// Fills `window` with the bytes of [`pseudo_random`] of `seed` from `offset` on.
pub fn fill(window: &mut [u8], seed: u64, offset: u64) {
    let skipped = usize::try_from(offset % WORD).unwrap_or(0);
    let lead = if skipped == 0 { 0 } else { (8 - skipped).min(window.len()) };
    let (first, rest) = window.split_at_mut(lead);
    if let Some(source) = word(seed, offset / WORD).get(skipped..skipped + lead) {
        first.copy_from_slice(source);
    }
    let mut index = offset.div_ceil(WORD);
    let mut words = rest.chunks_exact_mut(8);
    for target in &mut words {
        target.copy_from_slice(&word(seed, index));
        index = index.wrapping_add(1);
    }
    let last = words.into_remainder();
    let source = word(seed, index);
    last.copy_from_slice(&source[..last.len()]);
}

fn word(seed: u64, index: u64) -> [u8; 8] {
    let state = mix(seed ^ GOLDEN).wrapping_add(index.wrapping_mul(GOLDEN));
    mix(state).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_window_agrees_with_the_whole() {
        let whole = pseudo_random(100, 3);
        for start in 0..100 {
            for end in start..=100 {
                let mut window = vec![0; end - start];
                fill(&mut window, 3, u64::try_from(start).unwrap());
                assert_eq!(window, whole[start..end], "window {start}..{end}");
            }
        }
    }

    #[test]
    fn shifted_data_differs() {
        let data = pseudo_random(4096, 3);
        for shift in 1..64 {
            assert_ne!(data[..2048], data[shift..2048 + shift]);
        }
        assert_ne!(data, pseudo_random(4096, 4));
    }
}
