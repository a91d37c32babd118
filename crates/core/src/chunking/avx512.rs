//! Sixteen lanes of bytes hashed in parallel, by the lower halves of their hashes, with AVX-512.
//!
//! The lower 32 bits of a Gear hash depend on the lower halves of the table's entries only. As four
//! planes of bytes, these fit 16 registers. One look-up serves 64 bytes of the blob, where a load
//! serves one. A position whose lower half has its bits of a mask clear is a *candidate*. The
//! caller checks the upper half.
//!
//! `unsafe` is needed only because the processor must have the instructions. A [`Wide`] is evidence
//! that it has them.

#![expect(unsafe_code, reason = "vector instructions; see above")]

use std::arch::x86_64::{
    __m512i, _mm_set_epi8, _mm512_add_epi8, _mm512_add_epi32, _mm512_and_si512,
    _mm512_broadcast_i32x4, _mm512_mask_permutexvar_epi8, _mm512_min_epu32, _mm512_movepi8_mask,
    _mm512_permutexvar_epi8, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_shuffle_epi8,
    _mm512_testn_epi32_mask, _mm512_unpackhi_epi8, _mm512_unpackhi_epi16, _mm512_unpacklo_epi8,
    _mm512_unpacklo_epi16,
};

use super::gear::Table;
use crate::sha256::avx512::{load, load_words, store, transpose};

/// The number of lanes hashed in parallel.
pub(super) const LANES: usize = 16;

/// A lane is hashed in rows of this many bytes.
pub(super) const ROW_BYTES: usize = 64;

/// Bytes of a lane that are tested together.
pub(super) const GROUP: usize = 4;

const GROUPS: usize = ROW_BYTES / GROUP;

pub(super) type Row = [u8; ROW_BYTES];

/// The rows of the first lane, then those of the second, and so on; contiguous in the blob.
pub(super) type Block<const ROWS: usize> = [[Row; ROWS]; LANES];

/// A group of [`GROUP`] bytes in one or more lanes, with a candidate after at least one byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// The index of the group in its lane.
    pub(super) group: usize,
    /// One bit per lane.
    pub(super) lanes: u16,
}

/// The lower halves of a table's entries: the first byte of each entry, then the second, and so on.
/// Each plane is in quarters of one register.
type Planes = [[Row; 4]; 4];

/// The look-up table; and evidence that the processor has the instructions.
#[derive(Clone, Debug)]
pub(super) struct Wide(Box<Planes>);

impl Wide {
    /// `None` if the processor or the system lacks the instructions.
    pub(super) fn detect(gear: &Table) -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi");
        has.then(|| Self(Box::new(planes(gear))))
    }

    /// Finds the candidates of a block, in no particular order. `hash` is the hash before the first
    /// byte. `None` if there are more than `count_max`.
    pub(super) fn candidates<const ROWS: usize>(
        &self,
        mask: u32,
        hash: u32,
        block: &Block<ROWS>,
        count_max: u32,
    ) -> Option<Vec<Candidate>> {
        // SAFETY: `self` is evidence that the processor has the features.
        unsafe { find(&self.0, mask, hash, block, count_max) }
    }
}

fn planes(gear: &Table) -> Planes {
    std::array::from_fn(|plane| {
        std::array::from_fn(|quarter| {
            std::array::from_fn(|index| gear[quarter * ROW_BYTES + index].to_le_bytes()[plane])
        })
    })
}

/// As [`Wide::candidates`].
#[expect(clippy::needless_range_loop, reason = "one index for all lanes")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn find<const ROWS: usize>(
    planes: &Planes,
    mask: u32,
    hash: u32,
    block: &Block<ROWS>,
    count_max: u32,
) -> Option<Vec<Candidate>> {
    let planes = Registers::load(planes);
    let mask = _mm512_set1_epi32(mask.cast_signed());
    let mut hashes = warm(&planes, hash, block);
    let (mut candidates, mut count) = (Vec::new(), 0);
    for row in 0..ROWS {
        let mut words = [_mm512_setzero_si512(); GROUPS];
        for (lane, word) in words.iter_mut().enumerate() {
            *word = load(&block[lane][row]);
        }
        transpose(&mut words);
        for (number, word) in words.iter().enumerate() {
            let mut least = mask;
            for entry in planes.look_up(*word) {
                hashes = step(hashes, entry);
                least = _mm512_min_epu32(least, _mm512_and_si512(hashes, mask));
            }
            let lanes = _mm512_testn_epi32_mask(least, least);
            if lanes != 0 {
                count += lanes.count_ones();
                note(&mut candidates, Candidate { group: row * GROUPS + number, lanes });
            }
        }
        if count > count_max {
            return None;
        }
    }
    Some(candidates)
}

/// The hash at the start of each lane: `hash` for the first lane, and for each other lane that of
/// the row before it.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn warm<const ROWS: usize>(planes: &Registers, hash: u32, block: &Block<ROWS>) -> __m512i {
    let mut words = [_mm512_setzero_si512(); GROUPS];
    for (lane, word) in words.iter_mut().enumerate().skip(1) {
        *word = load(&block[lane - 1][ROWS - 1]);
    }
    transpose(&mut words);
    let mut hashes = _mm512_setzero_si512();
    // Bytes that were shifted out of the 32 bits no longer count.
    for word in &words[GROUPS / 2..] {
        for entry in planes.look_up(*word) {
            hashes = step(hashes, entry);
        }
    }
    let mut of_lanes = [0; LANES];
    store(&mut of_lanes, hashes);
    of_lanes[0] = hash;
    load_words(&of_lanes)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline]
fn step(hashes: __m512i, entries: __m512i) -> __m512i {
    _mm512_add_epi32(_mm512_add_epi32(hashes, hashes), entries)
}

/// [`Planes`] in registers.
struct Registers([[__m512i; 4]; 4]);

impl Registers {
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    #[inline]
    fn load(planes: &Planes) -> Self {
        let mut registers = [[_mm512_setzero_si512(); 4]; 4];
        for (registers, plane) in registers.iter_mut().zip(planes) {
            for (register, quarter) in registers.iter_mut().zip(plane) {
                *register = load(quarter);
            }
        }
        Self(registers)
    }

    /// The entries for the first byte of each lane's group, then for the second, and so on.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    #[inline]
    fn look_up(&self, groups: __m512i) -> [__m512i; GROUP] {
        // Within each quarter of the register: the first bytes of its four lanes, then the second,
        // …
        let by_step = _mm512_broadcast_i32x4(_mm_set_epi8(
            15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0,
        ));
        let bytes = _mm512_shuffle_epi8(groups, by_step);
        // The upper two bits of a byte select the quarter of a plane that has its entry.
        let upper = _mm512_movepi8_mask(bytes);
        let lower = _mm512_movepi8_mask(_mm512_add_epi8(bytes, bytes));
        let (second, third, fourth) = (lower & !upper, upper & !lower, upper & lower);
        let mut found = [_mm512_setzero_si512(); 4];
        for (found, plane) in found.iter_mut().zip(&self.0) {
            let entry = _mm512_permutexvar_epi8(bytes, plane[0]);
            let entry = _mm512_mask_permutexvar_epi8(entry, second, bytes, plane[1]);
            let entry = _mm512_mask_permutexvar_epi8(entry, third, bytes, plane[2]);
            *found = _mm512_mask_permutexvar_epi8(entry, fourth, bytes, plane[3]);
        }
        let [first, second, third, fourth] = found;
        let early = (_mm512_unpacklo_epi8(first, second), _mm512_unpacklo_epi8(third, fourth));
        let late = (_mm512_unpackhi_epi8(first, second), _mm512_unpackhi_epi8(third, fourth));
        [
            _mm512_unpacklo_epi16(early.0, early.1),
            _mm512_unpackhi_epi16(early.0, early.1),
            _mm512_unpacklo_epi16(late.0, late.1),
            _mm512_unpackhi_epi16(late.0, late.1),
        ]
    }
}

/// Rare, and in a function of its own, so that it does not take the loop's registers.
#[cold]
#[inline(never)]
fn note(candidates: &mut Vec<Candidate>, candidate: Candidate) {
    candidates.push(candidate);
}
