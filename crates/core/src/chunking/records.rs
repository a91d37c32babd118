//! [`records`]: the search for hashes that are larger than all before them.
//!
//! The search runs in lanes (see `lanes`), each with the largest hash before the block. Their finds
//! are then compared in order.

use super::gear::{Table, step};
use super::lanes::{GROUP, LONG, LONG_WORTH, SHORT, SHORT_WORTH, block, warm};

/// The number of parallel lanes; the best of those measured.
const LANES: usize = 4;

/// A position whose hash is larger than that of every position before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The number of bytes before it.
    pub(super) at: u64,
    /// The hash of the last 64 bytes before it.
    pub(super) hash: u64,
}

/// Appends to `records` every position with a hash larger than all before it. The last entry of
/// `records` is the largest so far. `hash` is the hash at the position `start`, before the first
/// byte, and becomes that after the last byte.
pub(super) fn records(
    gear: &Table,
    hash: &mut u64,
    start: u64,
    bytes: &[u8],
    records: &mut Vec<Record>,
) {
    let mut at = 0;
    // One lane until the largest hash is so large that a larger one is rare.
    while at < bytes.len() {
        let best = records.last().map_or(0, |record| record.hash);
        let distance = u64::MAX / (u64::MAX - best).max(1);
        let start = start + at as u64;
        if distance >= LONG_WORTH
            && let Some(block) = block::<LONG, _>(bytes, at)
        {
            records_in_block(gear, hash, start, block, records);
            at += LANES * LONG;
        } else if distance >= SHORT_WORTH
            && let Some(block) = block::<SHORT, _>(bytes, at)
        {
            records_in_block(gear, hash, start, block, records);
            at += LANES * SHORT;
        } else {
            let end = bytes.len().min(at + LANES * SHORT);
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

/// As [`records`].
fn records_in_block<const LANE: usize>(
    gear: &Table,
    hash: &mut u64,
    start: u64,
    block: &[[u8; LANE]; LANES],
    records: &mut Vec<Record>,
) {
    let best = records.last().map_or(0, |record| record.hash);
    let mut hashes = warm(gear, *hash, block);
    let mut found = Vec::new();
    larger_in_block(gear, best, &mut hashes, block, &mut found);
    *hash = hashes[LANES - 1];
    found.sort_unstable_by_key(|(index, _)| *index);
    for (index, hash) in found {
        if records.last().is_none_or(|last| hash > last.hash) {
            records.push(Record { at: start + index as u64 + 1, hash });
        }
    }
}

/// Finds bytes of a block after which the hash is larger than `best`, in any order. A function of
/// its own, so that the loop has all registers.
#[inline(never)]
#[expect(clippy::needless_range_loop, reason = "one index for all lanes")]
fn larger_in_block<const LANE: usize>(
    gear: &Table,
    best: u64,
    hashes: &mut [u64; LANES],
    block: &[[u8; LANE]; LANES],
    found: &mut Vec<(usize, u64)>,
) {
    let mut rolling = *hashes;
    for index in 0..LANE {
        for lane in 0..LANES {
            rolling[lane] = step(gear, rolling[lane], block[lane][index]);
            if rolling[lane] > best {
                keep(found, lane * LANE + index, rolling[lane]);
            }
        }
    }
    *hashes = rolling;
}

/// Rare, and in a function of its own, so that it does not take the loop's registers.
#[cold]
#[inline(never)]
fn keep(found: &mut Vec<(usize, u64)>, index: usize, hash: u64) {
    found.push((index, hash));
}

#[cfg(test)]
mod tests {
    use super::super::gear::GEAR;
    use super::super::noise::bytes;
    use super::*;

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
