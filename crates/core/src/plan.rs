//! [`ShardPlan`]: how a blob is cut into shards, and [`split_point`]: where a lagging shard is
//! split.
//!
//! The first request is sent before the size is known, and asks for one smallest shard. It delivers
//! a small blob completely. For a large blob, its response gives the size from which the rest is
//! planned. Shards are then large enough that the overhead of a request does not matter. They are
//! small enough that each place in the window gets several, so that all places finish at about the
//! same time.
//! enough that each place in the window gets several, so that all finish at about one time.

use std::ops::Range;

use crate::extents::Extents;

const MIB: u64 = 1024 * 1024;

/// Shards are cut at multiples of this, so that their edges are aligned with pages and file system
/// blocks.
const SHARD_BYTES_STEP: u64 = MIB;

/// The number of shards for each place in the window. With four, the last shard to finish delays
/// the blob by at most about a quarter of the time, and splitting reduces that further.
const SHARDS_PER_PLACE: u64 = 4;

/// Below this, a shard's request costs more than its bytes. If a window would need smaller shards
/// to stay within its budget, the window is narrowed instead.
const SHARD_BYTES_FLOOR: u64 = MIB;

/// The second half of a split begins at a multiple of this, a page.
const SPLIT_BYTES_STEP: u64 = 4096;

/// The options of a transfer's shards.
///
/// The defaults assume object storage: some 20 ms before a response and some 100 MiB/s per
/// connection. The smallest shard then takes four times as long as its latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// Shards in flight at once; 0 counts as 1. Default 16.
    pub window: u32,
    /// The smallest shard worth its own request, and the length of the first request. Default 8
    /// MiB.
    pub shard_bytes_min: u64,
    /// The largest shard. An interruption costs at most this much of one connection's progress.
    /// Default 64 MiB.
    pub shard_bytes_max: u64,
    /// For a sink that must hold whole shards: window times shard never exceeds this.
    pub bytes_budget: Option<u64>,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { window: 16, shard_bytes_min: 8 * MIB, shard_bytes_max: 64 * MIB, bytes_budget: None }
    }
}

/// The way in which one blob is cut into shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPlan {
    window: u32,
    /// Invariant: `1 <= shard_bytes_min <= shard_bytes_max`, and `window * shard_bytes_max` is
    /// within the budget if there is one (unless that is 0).
    shard_bytes_min: u64,
    shard_bytes_max: u64,
}

impl ShardPlan {
    /// Makes the options consistent. The budget takes precedence over the window, and the window
    /// over the sizes. A budget of 0 counts as 1.
    pub fn new(options: &PlanOptions) -> Self {
        let mut window = options.window.max(1);
        let mut shard_bytes_max = options.shard_bytes_max.max(options.shard_bytes_min).max(1);
        if let Some(budget) = options.bytes_budget {
            let places = u32::try_from((budget / SHARD_BYTES_FLOOR).max(1)).unwrap_or(u32::MAX);
            window = window.min(places);
            let share = (budget / u64::from(window)).max(1);
            shard_bytes_max = shard_bytes_max.min(round_down(share));
        }
        let shard_bytes_min = options.shard_bytes_min.clamp(1, shard_bytes_max);
        Self { window, shard_bytes_min, shard_bytes_max }
    }

    /// Shards in flight at once: as in the options, or fewer if the budget holds no more.
    pub const fn window(&self) -> u32 {
        self.window
    }

    /// The length of the first request, before the size is known. `None` if the window is one: a
    /// single request then fetches the whole blob.
    pub const fn first_shard(&self) -> Option<u64> {
        if self.window > 1 { Some(self.shard_bytes_min) } else { None }
    }

    /// The length of the shards of a blob of `len` bytes, except the last.
    pub fn shard_bytes(&self, len: u64) -> u64 {
        let even = len / (SHARDS_PER_PLACE * u64::from(self.window));
        let clamped = even.clamp(self.shard_bytes_min, self.shard_bytes_max);
        // Rounding up must not exceed the largest shard, which a budget may have set.
        clamped.checked_next_multiple_of(SHARD_BYTES_STEP).map_or(self.shard_bytes_max, |rounded| {
            if rounded <= self.shard_bytes_max { rounded } else { clamped }
        })
    }

    /// The missing ranges of a blob of `len` bytes, cut into shards in ascending order.
    ///
    /// The iterator cuts them as it advances: it holds the gaps of `done`, not the shards.
    pub fn shards(&self, len: u64, done: &Extents) -> Shards {
        let gaps: Vec<Range<u64>> = done.gaps(0..len).collect();
        Shards { gaps: gaps.into_iter(), rest: 0..0, shard_bytes: self.shard_bytes(len) }
    }
}

/// The shards of a [`ShardPlan`]; an iterator that borrows nothing.
#[derive(Clone, Debug)]
pub struct Shards {
    gaps: std::vec::IntoIter<Range<u64>>,
    /// The rest of the gap that is being cut.
    rest: Range<u64>,
    shard_bytes: u64,
}

impl Iterator for Shards {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        if self.rest.is_empty() {
            self.rest = self.gaps.next()?;
        }
        let end = self.rest.start.saturating_add(self.shard_bytes).min(self.rest.end);
        let shard = self.rest.start..end;
        self.rest.start = end;
        Some(shard)
    }
}

impl std::iter::FusedIterator for Shards {}

/// Where to split the rest of a lagging shard, so that another request can take its second half.
/// `None` if a half would have fewer than `min` bytes.
pub fn split_point(remaining: Range<u64>, min: u64) -> Option<u64> {
    let len = remaining.end.checked_sub(remaining.start)?;
    let half = len / 2;
    if half == 0 || half < min {
        return None;
    }
    let middle = remaining.start + half;
    let aligned = middle - middle % SPLIT_BYTES_STEP;
    // Rounding down to the page's start makes the first half the shorter one.
    let fits = aligned > remaining.start && aligned - remaining.start >= min;
    Some(if fits { aligned } else { middle })
}

/// Rounded down to a whole number of steps, or unchanged if less than one step.
const fn round_down(bytes: u64) -> u64 {
    if bytes < SHARD_BYTES_STEP { bytes } else { bytes - bytes % SHARD_BYTES_STEP }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{MIB, PlanOptions, ShardPlan, split_point};
    use crate::extents::Extents;

    fn plan(window: u32, bytes_budget: Option<u64>) -> ShardPlan {
        ShardPlan::new(&PlanOptions { window, bytes_budget, ..PlanOptions::default() })
    }

    #[test]
    fn a_window_of_one_asks_for_all_at_once() {
        assert_eq!(plan(1, None).first_shard(), None);
        assert_eq!(plan(0, None).first_shard(), None);
        assert_eq!(plan(2, None).first_shard(), Some(8 * MIB));
    }

    #[test]
    fn shards_grow_with_the_blob_within_bounds() {
        let plan = plan(16, None);
        assert_eq!(plan.shard_bytes(100 * MIB), 8 * MIB);
        assert_eq!(plan.shard_bytes(1024 * MIB), 16 * MIB);
        assert_eq!(plan.shard_bytes(1025 * MIB), 17 * MIB);
        assert_eq!(plan.shard_bytes(1024 * 1024 * MIB), 64 * MIB);
        assert_eq!(plan.shard_bytes(u64::MAX), 64 * MIB);
    }

    #[test]
    fn what_is_done_is_not_asked_for_again() {
        let mut done = Extents::new();
        done.insert(0..8 * MIB);
        done.insert(20 * MIB..21 * MIB);
        let shards: Vec<_> = plan(4, None).shards(30 * MIB, &done).collect();
        assert_eq!(
            shards,
            [8 * MIB..16 * MIB, 16 * MIB..20 * MIB, 21 * MIB..29 * MIB, 29 * MIB..30 * MIB]
        );
        done.insert(0..30 * MIB);
        assert_eq!(plan(4, None).shards(30 * MIB, &done).next(), None);
        assert_eq!(plan(4, None).shards(0, &Extents::new()).next(), None);
    }

    /// The iterator creates only as many shards as are taken.
    #[test]
    fn the_largest_blob_is_planned_lazily() {
        let shards = plan(16, None).shards(u64::MAX, &Extents::new());
        assert_eq!(shards.take(2).collect::<Vec<_>>(), [0..64 * MIB, 64 * MIB..128 * MIB]);
    }

    #[test]
    fn a_small_budget_shrinks_shards_and_then_the_window() {
        let tight = plan(16, Some(64 * MIB));
        assert_eq!((tight.window(), tight.first_shard()), (16, Some(4 * MIB)));
        let tighter = plan(16, Some(8 * MIB));
        assert_eq!((tighter.window(), tighter.first_shard()), (8, Some(MIB)));
        let tightest = plan(16, Some(1000));
        assert_eq!((tightest.window(), tightest.shard_bytes(1 << 40)), (1, 1000));
    }

    #[test]
    fn splitting_halves_what_is_worth_it() {
        assert_eq!(split_point(0..16 * MIB, 4 * MIB), Some(8 * MIB));
        assert_eq!(split_point(0..8 * MIB, 4 * MIB), Some(4 * MIB));
        assert_eq!(split_point(0..8 * MIB - 1, 4 * MIB), None);
        // The page boundary is ignored if a half would be too small.
        assert_eq!(split_point(0..10_000, 4_000), Some(4096));
        assert_eq!(split_point(0..10_000, 5_000), Some(5_000));
        assert_eq!(split_point(0..1, 0), None);
        assert_eq!(split_point(5..5, 0), None);
        assert_eq!(split_point(std::ops::Range { start: 9, end: 2 }, 0), None);
    }

    proptest! {
        #[test]
        fn shards_are_exactly_the_gaps(
            window in 0..40_u32,
            len in 0..400 * MIB,
            runs in proptest::collection::vec((0..400 * MIB, 0..60 * MIB), 0..6),
            budget in proptest::option::of(1..300 * MIB),
        ) {
            // The test above covers budgets so small that shards would be bytes; here they would be
            // slow.
            let budget = budget.map(|budget| budget.max(MIB / 8));
            let done: Extents = runs.into_iter().map(|(start, n)| start..start + n).collect();
            let plan = plan(window, budget);
            let mut covered = done.clone();
            let mut position = 0;
            for shard in plan.shards(len, &done) {
                prop_assert!(shard.start >= position && shard.start < shard.end && shard.end <= len);
                position = shard.end;
                let shard_len = shard.end - shard.start;
                prop_assert!(shard_len <= plan.shard_bytes(len));
                prop_assert_eq!(covered.insert(shard), shard_len);
            }
            prop_assert!(covered.is_complete(len));
        }

        #[test]
        fn the_budget_holds_whatever_is_chosen(
            window in any::<u32>(), budget in 1..=u64::MAX, len in any::<u64>(),
            shard_bytes_min in any::<u64>(), shard_bytes_max in any::<u64>(),
        ) {
            let plan = ShardPlan::new(&PlanOptions {
                window, shard_bytes_min, shard_bytes_max, bytes_budget: Some(budget),
            });
            let largest = plan.shard_bytes(len).max(plan.first_shard().unwrap_or(0));
            prop_assert!(largest >= 1);
            prop_assert!(u128::from(largest) * u128::from(plan.window()) <= u128::from(budget));
        }

        #[test]
        fn both_halves_are_large_enough(start in any::<u64>(), end in any::<u64>(), min in 0..1_u64 << 40) {
            if let Some(middle) = split_point(start..end, min) {
                prop_assert!(start < middle && middle < end);
                prop_assert!(middle - start >= min && end - middle >= min);
            }
        }
    }
}
