//! The searches of both functions through many bytes: for the first hash that has bits clear, and
//! for hashes that pass all before them.

use super::gear::{Table, step};

/// A place whose hash is larger than that of every place before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The bytes before it.
    pub(super) at: u64,
    /// The hash of the last 64 of them.
    pub(super) hash: u64,
}

/// The index of the first byte after which the hash has all bits of `mask` clear. `hash` is that
/// before the first byte, and becomes that after the byte found or after the last.
pub(super) fn first_clear(gear: &Table, mask: u64, hash: &mut u64, bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| {
        *hash = step(gear, *hash, *byte);
        *hash & mask == 0
    })
}

/// Appends to `records`, which ends with the largest so far, every place with a still larger hash.
/// `hash` is that at the place `at`, before the first byte, and becomes that after the last.
pub(super) fn records(
    gear: &Table,
    hash: &mut u64,
    at: u64,
    bytes: &[u8],
    records: &mut Vec<Record>,
) {
    let mut best = records.last().map_or(0, |record| record.hash);
    for (at, byte) in (at + 1..).zip(bytes) {
        *hash = step(gear, *hash, *byte);
        if *hash > best {
            best = *hash;
            records.push(Record { at, hash: best });
        }
    }
}
