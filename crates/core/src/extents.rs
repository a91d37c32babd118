//! [`Extents`]: which bytes of a sink have been written.
//!
//! Writers finish in any order. The set returns how many bytes are written, how far they reach
//! without a gap, and which ranges are missing. It is kept sorted, disjoint and merged. So its size
//! is the number of separate runs, not the number of writes: a sequential writer costs one entry.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of byte positions, kept as disjoint ranges that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    /// The start of each run mapped to its end. Invariant: runs are not empty, and at least one
    /// byte lies between the end of a run and the start of the next.
    runs: BTreeMap<u64, u64>,
    /// The sum of the runs' lengths.
    total: u64,
}

impl Extents {
    /// The empty set.
    pub const fn new() -> Self {
        Self { runs: BTreeMap::new(), total: 0 }
    }

    /// Adds a range and returns how many of its bytes were not in the set before. An empty (or
    /// reversed) range adds nothing. Takes O(log n), plus O(log n) for each run that it merges.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.start >= range.end {
            return 0;
        }
        let mut merged = range;
        let mut swallowed = 0;
        // Walks back from the last run that starts at or before the end. Runs that overlap or touch
        // the range are merged into the new run. The first run that does neither ends the walk.
        while let Some((&start, &end)) = self.runs.range(..=merged.end).next_back() {
            if end < merged.start {
                break;
            }
            self.runs.remove(&start);
            swallowed += end - start;
            merged = merged.start.min(start)..merged.end.max(end);
        }
        let added = merged.end - merged.start - swallowed;
        self.runs.insert(merged.start, merged.end);
        self.total += added;
        added
    }

    /// Removes a range and returns how many of its bytes were in the set. An empty (or reversed)
    /// range removes nothing. Takes O(log n), plus O(log n) for each run that it cuts.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        if range.start >= range.end {
            return 0;
        }
        let mut removed = 0;
        // Walks back from the last run that starts before the end. The parts outside the range
        // stay.
        while let Some((&start, &end)) = self.runs.range(..range.end).next_back() {
            if end <= range.start {
                break;
            }
            self.runs.remove(&start);
            if end > range.end {
                self.runs.insert(range.end, end);
            }
            if start < range.start {
                self.runs.insert(start, range.start);
            }
            removed += end.min(range.end) - start.max(range.start);
        }
        self.total -= removed;
        removed
    }

    /// Bytes from position 0 to the first gap.
    pub fn contiguous_len(&self) -> u64 {
        self.runs.get(&0).copied().unwrap_or(0)
    }

    /// The position after the furthest byte; 0 when the set is empty.
    pub fn end(&self) -> u64 {
        self.runs.last_key_value().map_or(0, |(_, &end)| end)
    }

    /// The number of bytes in the set.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether every byte of the range is in the set; always true for an empty range.
    pub fn contains(&self, range: &Range<u64>) -> bool {
        if range.start >= range.end {
            return true;
        }
        self.runs.range(..=range.start).next_back().is_some_and(|(_, &end)| end >= range.end)
    }

    /// Whether every byte of a blob of `total` bytes is in the set.
    pub fn is_complete(&self, total: u64) -> bool {
        self.contains(&(0..total))
    }

    /// The runs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.runs.iter().map(|(&start, &end)| start..end)
    }

    /// The runs that share a byte with a range, not clipped to it, in ascending order.
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let before = self.runs.range(..range.start).next_back();
        let before = before.filter(|(_, end)| **end > range.start && !range.is_empty());
        let within = self.runs.range(range.start..range.end.max(range.start));
        before.into_iter().chain(within).map(|(&start, &end)| start..end)
    }

    /// The missing runs within a range, in ascending order, computed as the iterator advances.
    pub fn gaps(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        // A run that begins before the range may reach into it. The others begin inside it.
        let reached = self.runs.range(..=within.start).next_back().map_or(0, |(_, &end)| end);
        let mut at = within.start.max(reached);
        let mut runs = self.runs.range(at..within.end.max(at));
        std::iter::from_fn(move || {
            while at < within.end {
                let (next_start, next_end) = match runs.next() {
                    Some((&start, &end)) => (start, end),
                    None => (within.end, within.end),
                };
                let gap = at..next_start;
                at = next_end;
                if !gap.is_empty() {
                    return Some(gap);
                }
            }
            None
        })
    }
}

impl FromIterator<Range<u64>> for Extents {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut extents = Self::new();
        extents.extend(ranges);
        extents
    }
}

impl Extend<Range<u64>> for Extents {
    fn extend<I: IntoIterator<Item = Range<u64>>>(&mut self, ranges: I) {
        for range in ranges {
            self.insert(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Extents;

    #[test]
    fn neighbours_merge_and_only_new_bytes_count() {
        let mut extents = Extents::new();
        assert_eq!(extents.insert(10..20), 10);
        assert_eq!(extents.insert(30..40), 10);
        assert_eq!(extents.contiguous_len(), 0);
        assert_eq!(extents.insert(0..10), 10);
        assert_eq!(extents.contiguous_len(), 20);
        assert_eq!(extents.insert(15..35), 10);
        assert_eq!((extents.iter().next(), extents.iter().count()), (Some(0..40), 1));
        assert_eq!(extents.insert(5..30), 0);
        assert!(extents.is_complete(40));
        assert!(!extents.is_complete(41));
    }

    #[test]
    fn the_ends_of_the_position_space_are_no_exception() {
        let mut extents = Extents::new();
        assert_eq!(extents.insert(u64::MAX - 1..u64::MAX), 1);
        assert_eq!(extents.insert(0..u64::MAX), u64::MAX - 1);
        assert_eq!(extents.total(), u64::MAX);
        assert_eq!(extents.gaps(0..u64::MAX).count(), 0);
        assert_eq!(extents.insert(7..7), 0);
    }

    const UNIVERSE: u64 = 64;

    fn any_ranges() -> impl Strategy<Value = Vec<(u64, u64)>> {
        proptest::collection::vec((0..UNIVERSE, 0..=UNIVERSE), 0..24)
    }

    fn bitmap_runs(bitmap: &[bool], wanted: bool, within: std::ops::Range<u64>) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for at in within {
            let index = usize::try_from(at).unwrap();
            if bitmap[index] != wanted {
                continue;
            }
            match runs.last_mut() {
                Some((_, end)) if *end == at => *end += 1,
                _ => runs.push((at, at + 1)),
            }
        }
        runs
    }

    proptest! {
        #[test]
        fn removal_behaves_like_a_bitmap(
            edits in proptest::collection::vec((any::<bool>(), 0..UNIVERSE, 0..=UNIVERSE), 0..24),
        ) {
            let mut extents = Extents::new();
            let mut bitmap = vec![false; usize::try_from(UNIVERSE).unwrap()];
            for (add, start, end) in edits {
                let mut changed = 0;
                for at in start..end {
                    let bit = &mut bitmap[usize::try_from(at).unwrap()];
                    changed += u64::from(*bit != add);
                    *bit = add;
                }
                let said = if add { extents.insert(start..end) } else { extents.remove(start..end) };
                prop_assert_eq!(said, changed);
                let pairs = |range: std::ops::Range<u64>| (range.start, range.end);
                let runs = bitmap_runs(&bitmap, true, 0..UNIVERSE);
                prop_assert_eq!(extents.iter().map(pairs).collect::<Vec<_>>(), runs.clone());
                prop_assert_eq!(extents.total(), runs.iter().map(|(a, b)| b - a).sum::<u64>());
            }
        }

        #[test]
        fn behaves_like_a_bitmap(ranges in any_ranges(), a in 0..=UNIVERSE, b in 0..=UNIVERSE) {
            let mut extents = Extents::new();
            let mut bitmap = vec![false; usize::try_from(UNIVERSE).unwrap()];
            for (start, end) in ranges {
                let mut added = 0;
                for at in start..end {
                    let bit = &mut bitmap[usize::try_from(at).unwrap()];
                    added += u64::from(!*bit);
                    *bit = true;
                }
                prop_assert_eq!(extents.insert(start..end), added);
            }
            let pairs = |range: std::ops::Range<u64>| (range.start, range.end);
            let runs = bitmap_runs(&bitmap, true, 0..UNIVERSE);
            prop_assert_eq!(extents.iter().map(pairs).collect::<Vec<_>>(), runs.clone());
            prop_assert_eq!(extents.total(), runs.iter().map(|(start, end)| end - start).sum::<u64>());
            prop_assert_eq!(extents.end(), runs.last().map_or(0, |run| run.1));
            let prefix = bitmap.iter().take_while(|bit| **bit).count() as u64;
            prop_assert_eq!(extents.contiguous_len(), prefix);
            prop_assert_eq!(extents.is_complete(a), a <= prefix);

            let shares = |run: &(u64, u64)| run.0.max(a) < run.1.min(b);
            let overlapping: Vec<_> = runs.iter().copied().filter(shares).collect();
            prop_assert_eq!(extents.overlapping(a..b).map(pairs).collect::<Vec<_>>(), overlapping);

            let missing = bitmap_runs(&bitmap, false, a..b);
            prop_assert_eq!(extents.contains(&(a..b)), missing.is_empty());
            prop_assert_eq!(extents.gaps(a..b).map(pairs).collect::<Vec<_>>(), missing);
        }
    }
}
