//! The searches of both functions through many bytes: for the first hash that has bits clear, and
//! for hashes that pass all before them.
//!
//! One hash after another is a chain of dependent steps, in which a core does little at once. But
//! a hash depends on the last 64 bytes only, so several *lanes* of one block can be hashed side by
//! side, each warmed up with the 64 bytes before it; what they find is then put in order. Measured
//! on a 4th generation Xeon, six lanes are 2.3 times as fast as one; more do not fit its registers.
//!
//! A block is hashed to its end even where something is found early, so blocks must be short beside
//! the distance of finds; and long beside the warming up. Hence two sizes.

use super::gear::{Table, WINDOW_BYTES, roll, step};

/// A lane is hashed in groups: the hashes within one are each made from that before the group and
/// from the group's own bytes, so that only one step in eight waits for the step before it.
const GROUP: usize = 8;

/// Lanes side by side for [`first_clear`]; measured, as the others here.
const LANES: usize = 6;

/// The same for [`records`], which needs more registers.
const RECORD_LANES: usize = 4;

/// The bytes of a lane of a long block: its warming up costs 1.6 %.
const LONG: usize = 4096;

/// The bytes of a lane of a short block: its warming up costs 13 %, still far less than one lane
/// alone.
const SHORT: usize = 512;

/// Where finds are less than so many bytes apart, one lane is faster than a short block.
const SHORT_WORTH: u64 = 1 << 12;

/// The same for a long block beside short ones.
const LONG_WORTH: u64 = 1 << 15;

/// A place whose hash is larger than that of every place before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The bytes before it.
    pub(super) at: u64,
    /// The hash of the last 64 of them.
    pub(super) hash: u64,
}

/// The index of the first byte after which the hash has all bits of `mask` clear. `hash` is that
/// before the first byte, and becomes that after the last; it has no meaning after a find.
pub(super) fn first_clear(gear: &Table, mask: u64, hash: &mut u64, bytes: &[u8]) -> Option<usize> {
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

/// Appends to `records`, which ends with the largest so far, every place with a still larger hash.
/// `hash` is that at the place `start`, before the first byte, and becomes that after the last.
pub(super) fn records(
    gear: &Table,
    hash: &mut u64,
    start: u64,
    bytes: &[u8],
    records: &mut Vec<Record>,
) {
    let mut at = 0;
    // One lane until the largest is so large that a larger one is rare.
    while at < bytes.len() {
        let best = records.last().map_or(0, |record| record.hash);
        let distance = u64::MAX / (u64::MAX - best).max(1);
        let start = start + at as u64;
        if distance >= LONG_WORTH
            && let Some(block) = block::<LONG, _>(bytes, at)
        {
            records_in_block(gear, hash, start, block, records);
            at += RECORD_LANES * LONG;
        } else if distance >= SHORT_WORTH
            && let Some(block) = block::<SHORT, _>(bytes, at)
        {
            records_in_block(gear, hash, start, block, records);
            at += RECORD_LANES * SHORT;
        } else {
            let end = bytes.len().min(at + RECORD_LANES * SHORT);
            records_in_one_lane(gear, hash, start, &bytes[at..end], records);
            at = end;
        }
    }
}

/// As [`records`].
fn records_in_one_lane(
    gear: &Table,
    hash: &mut u64,
    start: u64,
    bytes: &[u8],
    records: &mut Vec<Record>,
) {
    let mut best = records.last().map_or(0, |record| record.hash);
    let mut rolling = *hash;
    let mut judge = |at: u64, hash: u64| {
        if hash > best {
            best = hash;
            records.push(Record { at, hash });
        }
    };
    let (groups, rest) = bytes.as_chunks::<GROUP>();
    let mut at = start;
    for group in groups {
        let (before, mut of_group) = (rolling, 0);
        for (index, byte) in group.iter().enumerate() {
            of_group = step(gear, of_group, *byte);
            rolling = (before << (index + 1)).wrapping_add(of_group);
            at += 1;
            judge(at, rolling);
        }
    }
    for byte in rest {
        rolling = step(gear, rolling, *byte);
        at += 1;
        judge(at, rolling);
    }
    *hash = rolling;
}

/// The bytes from `at` on as the lanes of a block, one after another, where there are so many.
fn block<const LANE: usize, const LANES: usize>(
    bytes: &[u8],
    at: usize,
) -> Option<&[[u8; LANE]; LANES]> {
    bytes.get(at..)?.as_chunks().0.first_chunk()
}

/// The hash at the beginning of each lane.
fn warm<const LANE: usize, const LANES: usize>(
    gear: &Table,
    hash: u64,
    block: &[[u8; LANE]; LANES],
) -> [u64; LANES] {
    std::array::from_fn(|lane| match lane.checked_sub(1) {
        None => hash,
        Some(before) => roll(gear, 0, &block[before][LANE - WINDOW_BYTES..]),
    })
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
/// its own, so that nothing else takes its registers.
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

/// Rare, and out of the way of the loop's registers.
#[cold]
#[inline(never)]
fn note(first: &mut Option<usize>, index: usize) {
    first.get_or_insert(index);
}

/// As [`records`].
fn records_in_block<const LANE: usize>(
    gear: &Table,
    hash: &mut u64,
    start: u64,
    block: &[[u8; LANE]; RECORD_LANES],
    records: &mut Vec<Record>,
) {
    let best = records.last().map_or(0, |record| record.hash);
    let mut hashes = warm(gear, *hash, block);
    let mut found = Vec::new();
    larger_in_block(gear, best, &mut hashes, block, &mut found);
    *hash = hashes[RECORD_LANES - 1];
    found.sort_unstable_by_key(|(index, _)| *index);
    for (index, hash) in found {
        if records.last().is_none_or(|last| hash > last.hash) {
            records.push(Record { at: start + index as u64 + 1, hash });
        }
    }
}

/// Finds bytes of a block after which the hash is larger than `best`, in any order. A function of
/// its own, so that nothing else takes its registers.
#[inline(never)]
#[expect(clippy::needless_range_loop, reason = "one index for all lanes")]
fn larger_in_block<const LANE: usize>(
    gear: &Table,
    best: u64,
    hashes: &mut [u64; RECORD_LANES],
    block: &[[u8; LANE]; RECORD_LANES],
    found: &mut Vec<(usize, u64)>,
) {
    let mut rolling = *hashes;
    for index in 0..LANE {
        for lane in 0..RECORD_LANES {
            rolling[lane] = step(gear, rolling[lane], block[lane][index]);
            if rolling[lane] > best {
                keep(found, lane * LANE + index, rolling[lane]);
            }
        }
    }
    *hashes = rolling;
}

/// Rare, and out of the way of the loop's registers.
#[cold]
#[inline(never)]
fn keep(found: &mut Vec<(usize, u64)>, index: usize, hash: u64) {
    found.push((index, hash));
}

#[cfg(test)]
mod tests {
    use super::super::gear::GEAR;
    use super::*;

    /// Bytes without order, and stretches where every place has the same hash.
    fn bytes(len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        });
        let mut bytes: Vec<u8> = noise.take(len).collect();
        bytes[len / 3..len / 2].fill(7);
        bytes
    }

    #[test]
    fn lanes_find_what_one_by_one_finds() {
        let bytes = bytes(200_000);
        // Common enough to be found in every lane, rare enough for blocks.
        for mask in [0xfff << 20, 0xffff << 8, 0x1_ffff << 30] {
            let (mut hash, mut expected) = (5, Vec::new());
            for (index, byte) in bytes.iter().enumerate() {
                hash = step(&GEAR, hash, *byte);
                if hash & mask == 0 {
                    expected.push(index);
                }
            }
            assert!(!expected.is_empty());
            let (mut at, mut found) = (0, Vec::new());
            while at < bytes.len() {
                let mut hash = roll(&GEAR, 5, &bytes[..at]);
                let Some(index) = first_clear(&GEAR, mask, &mut hash, &bytes[at..]) else { break };
                found.push(at + index);
                at += index + 1;
            }
            assert_eq!(found, expected, "{mask:x}");
        }
    }

    #[test]
    fn the_hash_goes_on_after_a_block() {
        let bytes = bytes(50_000);
        let mut hash = 9;
        assert_eq!(first_clear(&GEAR, u64::MAX, &mut hash, &bytes), None);
        assert_eq!(hash, roll(&GEAR, 9, &bytes));
    }

    #[test]
    fn records_of_lanes_are_those_of_one() {
        let bytes = bytes(300_000);
        for first in [0, u64::MAX / 10_000 * 9_999, u64::MAX / 100_000 * 99_999] {
            let first = Record { at: 1000, hash: first };
            let (mut expected, mut found) = (vec![first], vec![first]);
            let (mut one, mut lanes) = (3, 3);
            for (at, byte) in (1001..).zip(&bytes) {
                one = step(&GEAR, one, *byte);
                if one > expected.last().unwrap().hash {
                    expected.push(Record { at, hash: one });
                }
            }
            records(&GEAR, &mut lanes, 1000, &bytes, &mut found);
            assert_eq!((found, lanes), (expected, one));
        }
    }
}
