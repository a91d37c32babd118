//! [`Queue`]: the order of wants, and how they form units. A unit is one request or one run of
//! copies.
//!
//! The size of a batch is decided when it can be sent, not before. The remaining small chunks are
//! spread evenly over the window, between two limits:
//!
//! - A batch is large enough that its bytes take longer than the overhead of its request.
//! - A batch is small enough that two batches would not be faster.
//!
//! With 4 MiB left and a window of 16, a batch holds 256 KiB. Large chunks are fetched alone.
//! Chunks go in the order of the blob.

use std::collections::VecDeque;

use super::plan::PlannedChunk;
use crate::chunked::BatchLimits;

/// Chunks up to this length travel in batches. Longer chunks are fetched alone, so that an
/// interruption costs only the bytes that have not arrived.
const SMALL_BYTES_MAX: u64 = 256 << 10;

/// A batch holds at least this much if enough chunks are left, even if the window has room for more
/// batches. At 10 Gbit/s this takes 50 microseconds, less than the latency of any request.
const BATCH_BYTES_MIN: u64 = 64 << 10;

/// A larger batch gains nothing. With 25 ms of latency, 16 batches of this size give 5 Gbit/s, and
/// the window grows if the link is faster.
const BATCH_BYTES_MAX: u64 = 1 << 20;

/// One run of copies holds at most this much.
const COPY_BYTES_MAX: u64 = 2 << 20;

/// Wants that are fetched or copied together.
#[derive(Debug)]
pub(super) struct ChunkUnit {
    pub(super) plan: Vec<PlannedChunk>,
    pub(super) kind: ChunkUnitKind,
}

/// The source of a unit's chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkUnitKind {
    /// One request to the store.
    Fetch,
    /// Copied from seeds.
    Copy,
}

impl ChunkUnit {
    /// Bytes that the unit holds in memory when all of it has arrived.
    pub(super) fn bytes(&self) -> u64 {
        self.plan.iter().map(|planned| planned.digest.len).sum()
    }
}

/// Wants that have not been started.
#[derive(Debug)]
pub(super) enum Queue {
    /// For targets that take bytes in any order.
    Free(FreeQueue),
    /// For targets that take bytes in order.
    Ordered {
        /// All wants, in the order of the blob.
        plan: VecDeque<PlannedChunk>,
        /// The rules for batches.
        batching: Batching,
    },
}

/// Wants in any order, sorted by their kind of request.
#[derive(Debug)]
pub(super) struct FreeQueue {
    small: VecDeque<PlannedChunk>,
    small_bytes: u64,
    large: VecDeque<PlannedChunk>,
    copies: VecDeque<PlannedChunk>,
    batching: Batching,
}

/// The rules by which chunks form batches and runs of copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batching {
    limits: Option<BatchLimits>,
    /// A longer chunk goes alone.
    held_bytes_max: u64,
}

impl Batching {
    /// `limits` are the limits of the store. A chunk longer than `held_bytes_max` goes alone and is
    /// streamed, not held in memory (see `long`).
    pub(super) fn new(limits: Option<BatchLimits>, held_bytes_max: u64) -> Self {
        Self { limits: limits.filter(|limits| limits.count_max > 0), held_bytes_max }
    }

    /// The most bytes that several chunks hold together. It is at most a quarter of the budget, so
    /// even a small budget grants it in full.
    fn together_bytes_max(&self) -> u64 {
        self.held_bytes_max.saturating_mul(2)
    }

    /// Whether a chunk of `len` bytes can travel in a batch.
    pub(super) fn takes(&self, len: u64) -> bool {
        self.limits.is_some_and(|limits| {
            len <= SMALL_BYTES_MAX.min(self.held_bytes_max)
                && len.saturating_add(limits.overhead_bytes) <= limits.bytes_max
        })
    }

    /// Takes the wants of one batch of about `target_bytes` from the front of `queue`.
    fn batch(&self, queue: &mut VecDeque<PlannedChunk>, target_bytes: u64) -> Vec<PlannedChunk> {
        let Some(limits) = self.limits else { return queue.pop_front().into_iter().collect() };
        if queue.front().is_some_and(|planned| !self.takes(planned.digest.len)) {
            return queue.pop_front().into_iter().collect();
        }
        let (mut bytes, mut loaded) = (0_u64, 0_u64);
        let mut plan = Vec::new();
        while let Some(planned) = queue.front() {
            let len = planned.digest.len;
            let load = len.saturating_add(limits.overhead_bytes);
            let full = plan.len() >= limits.count_max
                || loaded.saturating_add(load) > limits.bytes_max
                || bytes.saturating_add(len) > self.together_bytes_max()
                // Exceeding the target by one chunk is better than less than half of the target.
                || (bytes.saturating_add(len) > target_bytes && bytes >= target_bytes / 2)
                || !self.takes(len)
                || planned.seed.is_some();
            if full && !plan.is_empty() {
                break;
            }
            bytes += len;
            loaded += load;
            plan.extend(queue.pop_front());
        }
        plan
    }

    /// Takes the wants of one run of copies from the front of `queue`.
    fn copies(&self, queue: &mut VecDeque<PlannedChunk>) -> Vec<PlannedChunk> {
        let bytes_max = COPY_BYTES_MAX.min(self.together_bytes_max());
        let mut bytes = 0_u64;
        let mut plan = Vec::new();
        while let Some(planned) = queue.front() {
            bytes = bytes.saturating_add(planned.digest.len);
            let is_long = planned.digest.len > self.held_bytes_max;
            if !plan.is_empty() && (is_long || bytes > bytes_max || planned.seed.is_none()) {
                break;
            }
            plan.extend(queue.pop_front());
            if is_long {
                break;
            }
        }
        plan
    }

    /// Takes the wants of one request of the largest useful size from the front of `queue`.
    pub(super) fn request(&self, queue: &mut VecDeque<PlannedChunk>) -> Vec<PlannedChunk> {
        self.batch(queue, BATCH_BYTES_MAX)
    }
}

/// The size of a batch if `left_bytes` are spread over `slots`.
fn batch_target(left_bytes: u64, slots: usize) -> u64 {
    left_bytes.div_ceil(slots.max(1) as u64).clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX)
}

impl Queue {
    /// A queue for a target that takes bytes in any order.
    pub(super) fn free(plan: Vec<PlannedChunk>, batching: Batching) -> Self {
        // Counts first, to allocate once. A queue that grows would hold its old copy and its new
        // copy at once.
        let (mut copies, mut small) = (0, 0);
        for planned in &plan {
            if planned.seed.is_some() {
                copies += 1;
            } else if batching.takes(planned.digest.len) {
                small += 1;
            }
        }
        let mut queue = FreeQueue {
            small: VecDeque::with_capacity(small),
            small_bytes: 0,
            large: VecDeque::with_capacity(plan.len() - small - copies),
            copies: VecDeque::with_capacity(copies),
            batching,
        };
        for planned in plan {
            if planned.seed.is_some() {
                queue.copies.push_back(planned);
            } else if batching.takes(planned.digest.len) {
                queue.small_bytes += planned.digest.len;
                queue.small.push_back(planned);
            } else {
                queue.large.push_back(planned);
            }
        }
        Self::Free(queue)
    }

    /// A queue for a target that takes bytes in order.
    pub(super) fn ordered(plan: Vec<PlannedChunk>, batching: Batching) -> Self {
        Self::Ordered { plan: plan.into(), batching }
    }

    /// Whether all wants have been started.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Free(queue) => {
                queue.small.is_empty() && queue.large.is_empty() && queue.copies.is_empty()
            }
            Self::Ordered { plan, .. } => plan.is_empty(),
        }
    }

    /// Returns the next unit. `window` is the limit on requests in flight. `fetch` and `copy` say
    /// whether there is room for one more fetch and one more copy.
    pub(super) fn next(&mut self, window: usize, fetch: bool, copy: bool) -> Option<ChunkUnit> {
        match self {
            Self::Free(queue) => queue.next(window, fetch, copy),
            Self::Ordered { plan, batching } => {
                let copies = plan.front()?.seed.is_some();
                if copies && copy {
                    return Some(ChunkUnit {
                        plan: batching.copies(plan),
                        kind: ChunkUnitKind::Copy,
                    });
                }
                if copies || !fetch {
                    return None;
                }
                // Looks at 64 wants for each request of the window at most, to bound the cost of
                // each call.
                let near =
                    plan.iter().take(window.saturating_mul(64)).map(|planned| planned.digest.len);
                let target = batch_target(near.sum(), window);
                Some(ChunkUnit { plan: batching.batch(plan, target), kind: ChunkUnitKind::Fetch })
            }
        }
    }
}

impl FreeQueue {
    fn next(&mut self, window: usize, fetch: bool, copy: bool) -> Option<ChunkUnit> {
        if copy && !self.copies.is_empty() {
            return Some(ChunkUnit {
                plan: self.batching.copies(&mut self.copies),
                kind: ChunkUnitKind::Copy,
            });
        }
        if !fetch {
            return None;
        }
        let small_first = match (self.small.front(), self.large.front()) {
            (Some(small), Some(large)) => small.first() < large.first(),
            (small, _) => small.is_some(),
        };
        let plan = if small_first {
            let target = batch_target(self.small_bytes, window);
            let plan = self.batching.batch(&mut self.small, target);
            self.small_bytes -= plan.iter().map(|planned| planned.digest.len).sum::<u64>();
            plan
        } else {
            vec![self.large.pop_front()?]
        };
        Some(ChunkUnit { plan, kind: ChunkUnitKind::Fetch })
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::digest::{Digest, DigestFunction};

    use super::super::plan::Places;
    use super::*;
    use crate::chunked::seed::SeedPlace;

    const LIMITS: BatchLimits =
        BatchLimits { bytes_max: 4 << 20, count_max: 1000, overhead_bytes: 100 };

    fn plan(lens: &[u64]) -> Vec<PlannedChunk> {
        let mut offset = 0;
        let mut plan = Vec::new();
        for (index, len) in lens.iter().enumerate() {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&(index as u64).to_le_bytes());
            let digest = Digest { function: DigestFunction::Sha256, hash, len: *len };
            plan.push(PlannedChunk { digest, places: Places::One(offset), seed: None });
            offset += len;
        }
        plan
    }

    fn drain(mut queue: Queue, window: usize) -> Vec<Vec<u64>> {
        let mut units = Vec::new();
        while let Some(unit) = queue.next(window, true, true) {
            units.push(unit.plan.iter().map(|planned| planned.digest.len).collect());
        }
        assert!(queue.is_empty());
        units
    }

    fn batching(limits: Option<BatchLimits>) -> Batching {
        Batching::new(limits, 4 << 20)
    }

    #[test]
    fn few_small_chunks_are_one_request() {
        let units = drain(Queue::free(plan(&[1024; 32]), batching(Some(LIMITS))), 16);
        assert_eq!(units.len(), 1);
    }

    #[test]
    fn many_are_spread_over_the_window() {
        let batching = batching(Some(LIMITS));
        let units = drain(Queue::free(plan(&[4096; 1024]), batching), 16);
        assert!((16..=40).contains(&units.len()), "{}", units.len());
        let units = drain(Queue::ordered(plan(&[4096; 1024]), batching), 16);
        assert!((16..=40).contains(&units.len()), "{}", units.len());
    }

    /// The size of a batch follows from the bytes that are left. So batches become smaller, and the
    /// last ones arrive at about the same time.
    #[test]
    fn batches_become_smaller_towards_the_end() {
        let plan = plan(&[4096; 1024]);
        for queue in
            [Queue::free, Queue::ordered].map(|of| of(plan.clone(), batching(Some(LIMITS))))
        {
            let counts: Vec<usize> = drain(queue, 16).iter().map(Vec::len).collect();
            assert_eq!(counts[0], 1024 / 16, "{counts:?}");
            assert!(counts.is_sorted_by(|one, next| one >= next), "{counts:?}");
            let least = usize::try_from(BATCH_BYTES_MIN / 4096).unwrap();
            assert!(counts.iter().rev().skip(1).take(8).all(|n| *n == least), "{counts:?}");
        }
    }

    #[test]
    fn large_ones_go_alone_and_what_is_first_goes_first() {
        let lens = [1000, 2 << 20, 1000, 2 << 20];
        let units = drain(Queue::free(plan(&lens), batching(Some(LIMITS))), 16);
        assert_eq!(units, [vec![1000, 1000], vec![2 << 20], vec![2 << 20]]);
        let units = drain(Queue::ordered(plan(&lens), batching(Some(LIMITS))), 16);
        assert_eq!(units, [vec![1000], vec![2 << 20], vec![1000], vec![2 << 20]]);
        let units = drain(Queue::ordered(plan(&[300_000, 10]), batching(Some(LIMITS))), 1);
        assert_eq!(units, [vec![300_000], vec![10]]);
        let units = drain(Queue::ordered(plan(&[10, 300_000]), batching(Some(LIMITS))), 1);
        assert_eq!(units, [vec![10], vec![300_000]]);
    }

    #[test]
    fn no_batch_passes_what_the_store_takes() {
        let limits = BatchLimits { bytes_max: 10_000, count_max: 3, overhead_bytes: 1000 };
        let units = drain(Queue::free(plan(&[2000; 10]), batching(Some(limits))), 1);
        assert_eq!(units.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 3, 1]);
        let limits = BatchLimits { count_max: 100, ..limits };
        for unit in drain(Queue::free(plan(&[4000; 10]), batching(Some(limits))), 1) {
            assert!(unit.iter().map(|len| len + 1000).sum::<u64>() <= 10_000);
        }
    }

    #[test]
    fn a_store_without_batches_is_asked_one_by_one() {
        let units = drain(Queue::free(plan(&[10; 5]), batching(None)), 16);
        assert_eq!(units.len(), 5);
        assert_eq!(drain(Queue::ordered(plan(&[10; 5]), batching(None)), 16).len(), 5);
    }

    /// With any budget, several chunks together stay within the budget's grant, and longer chunks
    /// go alone.
    #[test]
    fn what_is_put_together_is_bounded_and_what_is_long_goes_alone() {
        let lens = [3000, 2000, 2000, 3001, 1000, 100];
        let batching = Batching::new(Some(LIMITS), 3000);
        let expected = [vec![3000, 2000], vec![2000], vec![3001], vec![1000, 100]];
        let units = drain(Queue::ordered(plan(&lens), batching), 1);
        assert_eq!(units, expected);
        let file = std::sync::Arc::new(tempfile::tempfile().unwrap());
        let mut copies = plan(&lens);
        for planned in &mut copies {
            planned.seed = Some(SeedPlace::in_file(&file, 0));
        }
        for queue in [Queue::free(copies.clone(), batching), Queue::ordered(copies, batching)] {
            assert_eq!(drain(queue, 1), expected);
        }
    }
}
