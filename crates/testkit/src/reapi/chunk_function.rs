//! A second implementation of the two chunking functions, as simple as their rules.
//!
//! It exists so that a client and its test server do not share an error. It processes each byte
//! separately and keeps no state between chunks, so it is slow. The tables are
//! those of the reference vectors.

use std::sync::OnceLock;

use md5::{Digest as _, Md5};

/// The chunking function with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChunkFunction {
    /// `FastCDC` 2020 with normalization 2, chunks from a quarter of the average to four times it.
    FastCdc2020 {
        /// A power of two from 1 KiB to 1 MiB.
        avg_bytes: u64,
        /// The seed, which changes every entry of the table.
        seed: u32,
    },
    /// `RepMaxCDC`: chunks from the minimum to just below twice it.
    RepMaxCdc {
        /// At least 64.
        min_bytes: u64,
        /// How far beyond two minimal chunks the function searches for a cut.
        horizon_bytes: u64,
    },
}

impl ChunkFunction {
    /// What the API recommends.
    pub const FAST_CDC_2020: Self = Self::FastCdc2020 { avg_bytes: 512 * 1024, seed: 0 };
    /// What the API recommends.
    pub const REP_MAX_CDC: Self =
        Self::RepMaxCdc { min_bytes: 256 * 1024, horizon_bytes: 2 * 1024 * 1024 };

    /// The maximum length of a chunk in bytes.
    pub fn chunk_bytes_max(self) -> u64 {
        match self {
            Self::FastCdc2020 { avg_bytes, .. } => avg_bytes.saturating_mul(4),
            Self::RepMaxCdc { min_bytes, .. } => min_bytes.saturating_mul(2).saturating_sub(1),
        }
    }

    /// Its number in the API.
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::FastCdc2020 { .. } => 1,
            Self::RepMaxCdc { .. } => 2,
        }
    }

    /// The lengths of the chunks of `data`, in order; none for no data.
    pub fn cut(self, data: &[u8]) -> Vec<usize> {
        let mut lengths = Vec::new();
        let mut rest = data;
        while !rest.is_empty() {
            let length = match self {
                Self::FastCdc2020 { avg_bytes, seed } => fast_cdc(rest, index(avg_bytes), seed),
                Self::RepMaxCdc { min_bytes, horizon_bytes } => {
                    rep_max(rest, index(min_bytes), index(horizon_bytes))
                }
            };
            // A cut of no bytes would never end.
            let length = length.clamp(1, rest.len());
            lengths.push(length);
            rest = &rest[length..];
        }
        lengths
    }
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn fast_cdc(data: &[u8], avg: usize, seed: u32) -> usize {
    let (min, max) = (avg / 4, avg.saturating_mul(4));
    if data.len() <= min {
        return data.len();
    }
    let bits = avg.checked_ilog2().and_then(|bits| usize::try_from(bits).ok()).unwrap_or(0);
    let mask_at = |bits: usize| MASKS.get(bits).copied().unwrap_or(0);
    let (mask_small, mask_large) = (mask_at(bits + 2), mask_at(bits.saturating_sub(2)));
    let end = data.len().min(max);
    let centre = end.min(avg);
    let gear = gear();
    let mut hash = 0_u64;
    for i in (min & !1)..(end & !1) {
        hash = (hash << 1).wrapping_add(gear[usize::from(data[i])] ^ u64::from(seed));
        let mask = if i < (centre & !1) { mask_small } else { mask_large };
        if hash & mask == 0 {
            return i;
        }
    }
    end
}

fn rep_max(data: &[u8], min: usize, horizon: usize) -> usize {
    // Below 64 bytes the hash has no window; the API does not allow it.
    let min = min.max(64);
    let seen = data.len().min(min.saturating_mul(2).saturating_add(horizon));
    if seen < min.saturating_mul(2) {
        return data.len();
    }
    let hashes = window_hashes(&data[..seen - min], min);
    let mut limit = seen - min;
    loop {
        let mut best = min;
        for cut in min..=limit {
            if hashes[cut - min] > hashes[best - min] {
                best = cut;
            }
        }
        if best < 2 * min {
            return best;
        }
        limit = best - min;
    }
}

/// The hash of the 64 bytes that end at each offset from `first` to the end of `data`.
fn window_hashes(data: &[u8], first: usize) -> Vec<u64> {
    let gear = gear();
    let mut hash = 0_u64;
    let mut hashes = Vec::with_capacity(data.len() - first + 1);
    for (offset, byte) in data.iter().enumerate().skip(first - 64) {
        hash = (hash << 1).wrapping_add(gear[usize::from(*byte)]);
        if offset + 1 >= first {
            hashes.push(hash);
        }
    }
    hashes
}

/// Entry `i` is the first 8 bytes of the MD5 of byte `i` repeated 64 times.
fn gear() -> &'static [u64; 256] {
    static GEAR: OnceLock<[u64; 256]> = OnceLock::new();
    GEAR.get_or_init(|| {
        let mut table = [0; 256];
        for (byte, entry) in (0..=u8::MAX).zip(&mut table) {
            let hash = Md5::digest([byte; 64]);
            let mut first = [0; 8];
            first.copy_from_slice(&hash[..8]);
            *entry = u64::from_be_bytes(first);
        }
        table
    })
}

/// `FastCDC`'s masks by the number of their bits.
const MASKS: [u64; 26] = [
    0,
    0,
    0,
    0,
    0,
    0x180_4110,
    0x180_3110,
    0x1803_5100,
    0x18_0003_5300,
    0x190_0035_3000,
    0x5900_0353_0000,
    0xd900_0353_0000,
    0xd901_0353_0000,
    0xd903_0353_0000,
    0xd903_1353_0000,
    0xd90f_0353_0000,
    0xd903_0353_7000,
    0xd907_0353_7000,
    0xd907_0753_7000,
    0xd917_0753_7000,
    0xd917_4753_7000,
    0xd917_6753_7000,
    0xd937_6753_7000,
    0xd937_7753_7000,
    0xd937_7757_7000,
    0xdb37_7757_7000,
];
