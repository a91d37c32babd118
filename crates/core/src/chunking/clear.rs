//! [`ClearSearch`]: the search for the first hash that has the bits of a mask clear.
//!
//! The search runs in lanes (see `lanes`), each with the whole hash. With AVX-512, and a mask with
//! enough bits in its lower half, it runs in sixteen lanes with the lower half of the hash. These
//! find candidates. Candidates are rare, so the whole hash is then recomputed from the window of
//! each one. That is 1.6 times as fast.

#[cfg(target_arch = "x86_64")]
use super::avx512 as wide;
use super::gear::{Table, WINDOW_BYTES, roll, step};
use super::lanes::{GROUP, LONG, LONG_WORTH, SHORT, SHORT_WORTH, block, warm};
#[cfg(not(target_arch = "x86_64"))]
use super::narrow as wide;
use wide::Wide;

/// The number of parallel lanes; the best of those measured.
const LANES: usize = 6;

/// The rows of each of sixteen lanes of a long block: its warm-up costs 1.5 %. The number is odd,
/// so that only few lanes compete for one cache set.
const WIDE_LONG: usize = 33;

/// The rows of each of sixteen lanes of a short block: its warm-up costs 10 %.
const WIDE_SHORT: usize = 5;

/// A mask with fewer bits in its lower half has too many candidates.
const WIDE_BITS_MIN: u32 = 9;

/// The most candidates in a block. That is four times as many as in noise: a long block has 33,792
/// bytes, so a mask of 9 bits has some 66 candidates there. Bytes with more are not random, and the
/// narrow search is better for them.
const CANDIDATES_MAX: u32 = 256;

/// The search for the first hash with certain bits clear, with its own table.
#[derive(Clone, Debug)]
pub(super) struct ClearSearch {
    gear: Box<Table>,
    wide: Option<Wide>,
}

impl ClearSearch {
    pub(super) fn new(gear: Box<Table>) -> Self {
        Self { wide: Wide::detect(&gear), gear }
    }

    /// The index of the first byte after which the hash has all bits of `mask` clear. `hash` is the
    /// hash before the first byte, and becomes that after the last. It has no meaning after a find.
    pub(super) fn first_clear(&self, mask: u64, hash: &mut u64, bytes: &[u8]) -> Option<usize> {
        let lower = low_half(mask);
        let mut at = 0;
        if let Some(wide) = self.wide.as_ref().filter(|_| lower.count_ones() >= WIDE_BITS_MIN) {
            while let Some(block) = wide_block(bytes, at) {
                if let Some(index) =
                    self.first_clear_in_wide_block::<WIDE_LONG>(wide, mask, hash, block)
                {
                    return Some(at + index);
                }
                at += block.as_flattened().as_flattened().len();
            }
            while let Some(block) = wide_block(bytes, at) {
                if let Some(index) =
                    self.first_clear_in_wide_block::<WIDE_SHORT>(wide, mask, hash, block)
                {
                    return Some(at + index);
                }
                at += block.as_flattened().as_flattened().len();
            }
        }
        first_clear(&self.gear, mask, hash, &bytes[at..]).map(|index| at + index)
    }

    /// As [`Self::first_clear`].
    fn first_clear_in_wide_block<const ROWS: usize>(
        &self,
        wide: &Wide,
        mask: u64,
        hash: &mut u64,
        block: &wide::Block<ROWS>,
    ) -> Option<usize> {
        let bytes = block.as_flattened().as_flattened();
        match wide.candidates(low_half(mask), low_half(*hash), block, CANDIDATES_MAX) {
            Some(candidates) => self.confirm(mask, hash, bytes, &candidates),
            None => first_clear(&self.gear, mask, hash, bytes),
        }
    }

    /// The first candidate whose whole hash has all bits of `mask` clear. `hash` as in
    /// [`Self::first_clear`].
    fn confirm(
        &self,
        mask: u64,
        hash: &mut u64,
        bytes: &[u8],
        candidates: &[wide::Candidate],
    ) -> Option<usize> {
        let lane_bytes = bytes.len() / wide::LANES;
        let before = |at: usize| match at.checked_sub(WINDOW_BYTES) {
            None => roll(&self.gear, *hash, &bytes[..at]),
            Some(from) => roll_window(&self.gear, &bytes[from..at]),
        };
        let mut first = None;
        for candidate in candidates {
            let mut lanes = candidate.lanes;
            while lanes != 0 {
                let lane = lanes.trailing_zeros() as usize;
                lanes &= lanes - 1;
                let at = lane * lane_bytes + candidate.group * wide::GROUP;
                if first.is_some_and(|first| first < at) {
                    continue;
                }
                let mut rolling = before(at);
                let index = bytes[at..at + wide::GROUP].iter().position(|byte| {
                    rolling = step(&self.gear, rolling, *byte);
                    rolling & mask == 0
                });
                first = index.map(|index| at + index).or(first);
            }
        }
        *hash = before(bytes.len());
        first
    }
}

/// The lower half.
fn low_half(value: u64) -> u32 {
    // The masked value fits.
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or(0)
}

/// The bytes from `at` on as the lanes of a block, if there are enough.
fn wide_block<const ROWS: usize>(bytes: &[u8], at: usize) -> Option<&wide::Block<ROWS>> {
    let (rows, _) = bytes.get(at..)?.as_chunks::<{ wide::ROW_BYTES }>();
    rows.as_chunks::<ROWS>().0.first_chunk()
}

/// The hash of a window's bytes, computed in four parallel parts.
fn roll_window(gear: &Table, window: &[u8]) -> u64 {
    const PART: usize = WINDOW_BYTES / 4;
    let mut hashes = [0; 4];
    for index in 0..PART {
        for (part, hash) in hashes.iter_mut().enumerate() {
            *hash = step(gear, *hash, window[part * PART + index]);
        }
    }
    hashes.iter().fold(0, |hash, part| (hash << PART).wrapping_add(*part))
}

/// As [`ClearSearch::first_clear`].
fn first_clear(gear: &Table, mask: u64, hash: &mut u64, bytes: &[u8]) -> Option<usize> {
    let distance = 1_u64.checked_shl(mask.count_ones()).unwrap_or(u64::MAX);
    let mut at = 0;
    if distance >= LONG_WORTH {
        while let Some(block) = block::<LONG, _>(bytes, at) {
            if let Some(index) = first_clear_in_block(gear, mask, hash, block) {
                return Some(at + index);
            }
            at += LANES * LONG;
        }
    }
    if distance >= SHORT_WORTH {
        while let Some(block) = block::<SHORT, _>(bytes, at) {
            if let Some(index) = first_clear_in_block(gear, mask, hash, block) {
                return Some(at + index);
            }
            at += LANES * SHORT;
        }
    }
    first_clear_in_one_lane(gear, mask, hash, &bytes[at..]).map(|index| at + index)
}

/// As [`first_clear`].
fn first_clear_in_one_lane(gear: &Table, mask: u64, hash: &mut u64, bytes: &[u8]) -> Option<usize> {
    let (groups, rest) = bytes.as_chunks::<GROUP>();
    let mut rolling = *hash;
    for (number, group) in groups.iter().enumerate() {
        let (before, mut of_group) = (rolling, 0);
        for (index, byte) in group.iter().enumerate() {
            of_group = step(gear, of_group, *byte);
            rolling = (before << (index + 1)).wrapping_add(of_group);
            if rolling & mask == 0 {
                return Some(number * GROUP + index);
            }
        }
    }
    let index = rest.iter().position(|byte| {
        rolling = step(gear, rolling, *byte);
        rolling & mask == 0
    });
    *hash = rolling;
    index.map(|index| groups.len() * GROUP + index)
}

/// As [`first_clear`].
fn first_clear_in_block<const LANE: usize>(
    gear: &Table,
    mask: u64,
    hash: &mut u64,
    block: &[[u8; LANE]; LANES],
) -> Option<usize> {
    let mut hashes = warm(gear, *hash, block);
    let first = clear_in_block(gear, mask, &mut hashes, block);
    *hash = hashes[LANES - 1];
    let mut first = first.iter().enumerate();
    first.find_map(|(lane, first)| Some(lane * LANE + (*first)?))
}

/// The first index in each lane after which the hash has all bits of `mask` clear. A function of
/// its own, so that the loop has all registers.
#[inline(never)]
#[expect(clippy::needless_range_loop, reason = "one index for all lanes")]
fn clear_in_block<const LANE: usize>(
    gear: &Table,
    mask: u64,
    hashes: &mut [u64; LANES],
    block: &[[u8; LANE]; LANES],
) -> [Option<usize>; LANES] {
    let mut rolling = *hashes;
    let mut first = [None; LANES];
    for index in 0..LANE {
        for lane in 0..LANES {
            rolling[lane] = step(gear, rolling[lane], block[lane][index]);
            if rolling[lane] & mask == 0 {
                note(&mut first[lane], index);
            }
        }
    }
    *hashes = rolling;
    first
}

/// Rare, and in a function of its own, so that it does not take the loop's registers.
#[cold]
#[inline(never)]
fn note(first: &mut Option<usize>, index: usize) {
    first.get_or_insert(index);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::gear::GEAR;
    use super::super::noise::bytes;
    use super::*;

    /// With the wide instructions if the processor has them, and without.
    fn searches() -> [ClearSearch; 2] {
        [ClearSearch::new(Box::new(GEAR)), ClearSearch { gear: Box::new(GEAR), wide: None }]
    }

    /// Every index after which the hash has the bits clear, if it is `hash` before the first byte.
    fn one_by_one(mask: u64, mut hash: u64, bytes: &[u8]) -> Vec<usize> {
        let clear = |(index, byte): (usize, &u8)| {
            hash = step(&GEAR, hash, *byte);
            (hash & mask == 0).then_some(index)
        };
        bytes.iter().enumerate().filter_map(clear).collect()
    }

    #[test]
    fn lanes_find_what_one_by_one_finds() {
        let bytes = bytes(200_000);
        // Common enough to be found in every lane, rare enough for blocks. The bits are in the
        // lower half of the hash, in both halves, or almost all in the upper.
        for mask in [0xfff << 20, 0xffff << 8, 0x1001_0353_7000, 0x1_ffff << 30] {
            let expected = one_by_one(mask, 5, &bytes);
            assert!(!expected.is_empty());
            for search in searches() {
                let (mut at, mut found) = (0, Vec::new());
                while at < bytes.len() {
                    let mut hash = roll(&GEAR, 5, &bytes[..at]);
                    let Some(index) = search.first_clear(mask, &mut hash, &bytes[at..]) else {
                        break;
                    };
                    found.push(at + index);
                    at += index + 1;
                }
                assert_eq!(found, expected, "{mask:x}, wide: {}", search.wide.is_some());
            }
        }
    }

    /// Every position of a stretch has the right lower half and the wrong upper half.
    #[test]
    fn candidates_without_number_are_no_find() {
        let mut bytes = bytes(300_000);
        bytes[70_000..170_000].fill(7);
        let constant = roll(&GEAR, 0, &[7; WINDOW_BYTES]);
        let lower_clear = !constant & u64::from(u32::MAX);
        let mask = lower_clear | 1 << constant.ilog2();
        assert!(mask > u64::from(u32::MAX) && lower_clear.count_ones() >= WIDE_BITS_MIN);
        let expected = one_by_one(mask, 5, &bytes).first().copied();
        for search in searches() {
            assert_eq!(search.first_clear(mask, &mut 5, &bytes), expected);
        }
    }

    #[test]
    fn the_hash_goes_on_after_a_block() {
        let bytes = bytes(50_000);
        for search in searches() {
            // No hash of these bytes has all of the bits clear.
            for mask in [u64::MAX, 0xffff_ffff] {
                let mut hash = 9;
                assert_eq!(search.first_clear(mask, &mut hash, &bytes), None);
                assert_eq!(hash, roll(&GEAR, 9, &bytes));
            }
        }
    }

    proptest! {
        #[test]
        fn wide_or_not_the_same_is_found(
            lower in prop::collection::btree_set(0..32_u32, 9..13),
            upper in prop::collection::btree_set(32..48_u32, 0..3),
            before in any::<u64>(),
            len in 0..150_000_usize,
            run in (0..150_000_usize, 0..60_000_usize, any::<u8>()),
        ) {
            let mask = lower.iter().chain(&upper).fold(0, |mask, bit| mask | 1 << bit);
            let mut bytes = bytes(len);
            let (start, run_len, byte) = run;
            bytes.iter_mut().skip(start).take(run_len).for_each(|at| *at = byte);
            let [wide, narrow] = searches();
            let mut at = 0;
            loop {
                let hash = roll(&GEAR, before, &bytes[..at]);
                let (mut hash_wide, mut hash_narrow) = (hash, hash);
                let found = wide.first_clear(mask, &mut hash_wide, &bytes[at..]);
                prop_assert_eq!(found, narrow.first_clear(mask, &mut hash_narrow, &bytes[at..]));
                let Some(index) = found else {
                    prop_assert_eq!(hash_wide, hash_narrow);
                    break;
                };
                // At another position of its block each time.
                at += index + 1 + (index * 7 + at) % 5000;
                at = at.min(bytes.len());
            }
        }
    }
}
