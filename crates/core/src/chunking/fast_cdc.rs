//! [`FastCdc2020`]: a chunk ends where the Gear hash has the bits of a mask clear. The mask is
//! stricter up to the average length, and looser beyond it.
//!
//! Xia et al., "The Design of Fast Content-Defined Chunking for Data Deduplication Based Storage
//! Systems", IEEE TPDS 2020; the cut points are those of the Remote Execution API:
//!
//! ```text
//! cut(data, len):
//!   if len <= min: return len
//!   n = min(len, max); hash = 0
//!   for i in (min & !1) .. (n & !1):
//!     hash = (hash << 1) + (GEAR[data[i]] ^ seed)
//!     mask = mask_small if i < avg else mask_large
//!     if hash & mask == 0: return i           # byte i belongs to the next chunk
//!   return n
//! ```
//!
//! The original loops over pairs of bytes. Only the `& !1` remains of that: an even position is
//! tested only if the byte after it also belongs to the chunk's range. In a stream that byte may
//! not have arrived yet; the decision then waits for it.

use std::vec::Drain;

use super::clear::ClearSearch;
use super::{FastCdc2020Params, gear};

/// The masks, indexed by their number of bits, spread over the hash as the original's authors and
/// restic found good. No mask has a bit above 47. The first five are never used.
#[rustfmt::skip]
const MASKS: [u64; 26] = [
    0, 0, 0, 0, 0,
    0x0000_0180_4110, 0x0000_0180_3110, 0x0000_1803_5100,
    0x0018_0003_5300, 0x0190_0035_3000, 0x5900_0353_0000, 0xd900_0353_0000,
    0xd901_0353_0000, 0xd903_0353_0000, 0xd903_1353_0000, 0xd90f_0353_0000,
    0xd903_0353_7000, 0xd907_0353_7000, 0xd907_0753_7000, 0xd917_0753_7000,
    0xd917_4753_7000, 0xd917_6753_7000, 0xd937_6753_7000, 0xd937_7753_7000,
    0xd937_7757_7000, 0xdb37_7757_7000,
];

/// Cuts by `FastCDC` 2020, incrementally.
#[derive(Clone, Debug)]
pub struct FastCdc2020 {
    search: ClearSearch,
    judged_from: u64,
    avg: u64,
    /// If the maximum is odd, its last byte is not tested.
    judged_to: u64,
    max: u64,
    mask_small: u64,
    mask_large: u64,
    /// The bytes of the current chunk that were fed.
    at: u64,
    hash: u64,
    /// The byte before `at` is the first of the next chunk, if a byte at `at` follows.
    is_cut_pending: bool,
    lengths: Vec<u64>,
}

impl FastCdc2020 {
    /// A cutter at the start of a blob.
    pub fn new(params: &FastCdc2020Params) -> Self {
        let bits = params.avg_bytes().ilog2();
        let mask = |bits: u32| MASKS.get(bits as usize).copied().unwrap_or(u64::MAX);
        Self {
            search: ClearSearch::new(Box::new(gear::seeded(params.seed()))),
            judged_from: params.min_bytes() & !1,
            avg: params.avg_bytes(),
            judged_to: params.max_bytes() & !1,
            max: params.max_bytes(),
            mask_small: mask(bits + params.normalization()),
            mask_large: mask(bits - params.normalization()),
            at: 0,
            hash: 0,
            is_cut_pending: false,
            lengths: Vec::new(),
        }
    }

    /// As [`Cutter::feed`](super::Cutter::feed).
    pub fn feed(&mut self, mut bytes: &[u8]) -> Drain<'_, u64> {
        while !bytes.is_empty() {
            if self.is_cut_pending {
                self.cut(self.at - 1, 1);
            }
            let taken = self.take(bytes);
            bytes = bytes.get(taken..).unwrap_or_default();
            if self.at == self.max {
                self.cut(self.max, 0);
            }
        }
        self.lengths.drain(..)
    }

    /// As [`Cutter::pass`](super::Cutter::pass).
    pub fn pass(&mut self, count_max: u64) -> u64 {
        let passed = self.judged_from.saturating_sub(self.at).min(count_max);
        self.at += passed;
        passed
    }

    /// As [`Cutter::finish`](super::Cutter::finish).
    pub fn finish(&mut self) -> Drain<'_, u64> {
        if self.at > 0 {
            self.cut(self.at, 0);
        }
        self.lengths.drain(..)
    }

    /// Ends a chunk; `at` bytes of the next one were fed already.
    fn cut(&mut self, len: u64, at: u64) {
        self.lengths.push(len);
        self.at = at;
        self.hash = 0;
        self.is_cut_pending = false;
    }

    /// Takes some of the bytes: at least one, and never more than fit the chunk.
    fn take(&mut self, bytes: &[u8]) -> usize {
        let (end, mask) = match self.at {
            at if at < self.judged_from => return self.leave(bytes, self.judged_from),
            at if at < self.avg => (self.avg, self.mask_small),
            at if at < self.judged_to => (self.judged_to, self.mask_large),
            _ => return self.leave(bytes, self.max),
        };
        let bytes = &bytes[..self.ahead(bytes, end)];
        let found = self.search.first_clear(mask, &mut self.hash, bytes);
        let taken = found.map_or(bytes.len(), |index| index + 1);
        self.at += taken as u64;
        if found.is_some() {
            let position = self.at - 1;
            if position.is_multiple_of(2) {
                self.is_cut_pending = true;
            } else {
                self.cut(position, 1);
            }
        }
        taken
    }

    /// Takes bytes up to the position `end` without hashing them.
    fn leave(&mut self, bytes: &[u8], end: u64) -> usize {
        let taken = self.ahead(bytes, end);
        self.at += taken as u64;
        taken
    }

    /// The number of `bytes` before the position `end`.
    fn ahead(&self, bytes: &[u8], end: u64) -> usize {
        usize::try_from(end - self.at).map_or(bytes.len(), |ahead| ahead.min(bytes.len()))
    }
}
