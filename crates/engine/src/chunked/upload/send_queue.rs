//! [`SendQueue`]: the missing chunks, and which of them go into the next request.
//!
//! Pure. Chunks that fit into a batch share a request, up to the batch limits. Larger chunks get a
//! request each.
//!
//! While at most half of the window is in use, a batch is sent at once, full or not: more chunks
//! may never come. Beyond that, a batch is sent when it is worth a request (see
//! [`SendQueue::has_full`]); until then enough is in flight. At the end, when all remaining chunks are
//! here and slots are free, the chunks are spread over the free slots, but no thinner than 1 MiB a
//! request.

use std::collections::VecDeque;

use super::ledger::UploadChunk;
use crate::chunked::BatchLimits;

/// The largest batch, even if the store takes more: at this size the cost of a request is
/// negligible.
pub(super) const BATCH_BYTES_MAX: u64 = 4 << 20;

/// Chunks are not spread into smaller batches than this: a smaller request costs more than its
/// bytes.
const SPREAD_BYTES_MIN: u64 = 1 << 20;

/// The chunks of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Small chunks that share a request.
    Batch(Vec<UploadChunk>),
    /// One chunk in a request of its own.
    Single(UploadChunk),
}

impl Load {
    /// Its chunks.
    pub(super) fn pieces(&self) -> &[UploadChunk] {
        match self {
            Self::Batch(pieces) => pieces,
            Self::Single(piece) => std::slice::from_ref(piece),
        }
    }

    /// Its bytes.
    pub(super) fn len_bytes(&self) -> u64 {
        self.pieces().iter().map(|piece| piece.digest.len).sum()
    }
}

/// Chunks to be sent.
#[derive(Debug)]
pub(super) struct SendQueue {
    limits: BatchLimits,
    small: VecDeque<UploadChunk>,
    large: VecDeque<UploadChunk>,
    small_bytes: u64,
    large_bytes: u64,
}

impl SendQueue {
    /// Starts empty. Batches stay within `batch` and `held_bytes_max`.
    pub(super) fn new(batch: Option<BatchLimits>, held_bytes_max: u64) -> Self {
        let none = BatchLimits { bytes_max: 0, count_max: 0, overhead_bytes: 0 };
        let mut limits = batch.unwrap_or(none);
        limits.bytes_max = limits.bytes_max.min(BATCH_BYTES_MAX).min(held_bytes_max);
        let (small, large) = (VecDeque::new(), VecDeque::new());
        Self { limits, small, large, small_bytes: 0, large_bytes: 0 }
    }

    /// Adds a chunk.
    pub(super) fn push(&mut self, piece: UploadChunk) {
        if self.limits.count_max > 0 && self.cost(&piece) <= self.limits.bytes_max {
            self.small_bytes += self.cost(&piece);
            self.small.push_back(piece);
        } else {
            self.large_bytes += piece.digest.len;
            self.large.push_back(piece);
        }
    }

    /// From now on each chunk gets a request of its own.
    pub(super) fn end_batches(&mut self) {
        if self.limits.count_max == 0 {
            return;
        }
        self.limits.count_max = 0;
        while let Some(piece) = self.small.pop_back() {
            self.large_bytes += piece.digest.len;
            self.large.push_front(piece);
        }
        self.small_bytes = 0;
        self.large.make_contiguous().sort_unstable_by_key(|piece| piece.id);
    }

    /// The next request's load, from the chunk that has waited longest on. `share_bytes` is the
    /// memory of each request if the whole window is in use. `spread_over` is the number of free
    /// slots, given only if no more chunks will be added.
    pub(super) fn next(&mut self, share_bytes: u64, spread_over: Option<u64>) -> Option<Load> {
        let is_small = match (self.small.front(), self.large.front()) {
            (Some(small), Some(large)) => small.id < large.id,
            (small, _) => small.is_some(),
        };
        if !is_small {
            let piece = self.large.pop_front()?;
            self.large_bytes -= piece.digest.len;
            return Some(Load::Single(piece));
        }
        let spread = spread_over.map_or(u64::MAX, |slots| self.small_bytes.div_ceil(slots.max(1)));
        let most = spread.max(SPREAD_BYTES_MIN).min(self.limits.bytes_max);
        // The last chunk may pass the share: otherwise memory would stay unused.
        let enough = share_bytes.max(SPREAD_BYTES_MIN);
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        while let Some(piece) = self.small.front() {
            let cost = self.cost(piece);
            let is_full =
                pieces.len() >= self.limits.count_max || bytes >= enough || bytes + cost > most;
            // One chunk always fits the store's limit, even if it exceeds the share.
            if is_full && !pieces.is_empty() {
                break;
            }
            bytes += cost;
            pieces.extend(self.small.pop_front());
        }
        self.small_bytes -= bytes;
        Some(Load::Batch(pieces))
    }

    /// Whether there is a load that is worth a request even if no more chunks come: half of what
    /// the store takes in a batch, or one request's share of memory.
    pub(super) fn has_full(&self, share_bytes: u64) -> bool {
        let enough = share_bytes.max(SPREAD_BYTES_MIN).min(self.limits.bytes_max / 2);
        !self.large.is_empty()
            || self.small_bytes >= enough
            || self.small.len() >= self.limits.count_max
    }

    /// Whether there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        self.small.is_empty() && self.large.is_empty()
    }

    /// The bytes that wait.
    pub(super) fn len_bytes(&self) -> u64 {
        self.small_bytes.saturating_add(self.large_bytes)
    }

    fn cost(&self, piece: &UploadChunk) -> u64 {
        piece.digest.len.saturating_add(self.limits.overhead_bytes)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::digest::{Digest, DigestFunction};

    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const LIMITS: BatchLimits =
        BatchLimits { bytes_max: 4 * MIB, count_max: 1000, overhead_bytes: 100 };

    fn send_queue(limits: BatchLimits, lens: &[u64]) -> SendQueue {
        let mut send_queue = SendQueue::new(Some(limits), u64::MAX);
        for (id, len) in lens.iter().enumerate() {
            let digest = Digest { function: DigestFunction::Sha256, hash: [0; 32], len: *len };
            send_queue.push(UploadChunk { id, offset: 0, digest });
        }
        send_queue
    }

    fn counts(send_queue: &mut SendQueue, spread_over: Option<u64>) -> Vec<usize> {
        std::iter::from_fn(|| send_queue.next(u64::MAX, spread_over))
            .map(|load| load.pieces().len())
            .collect()
    }

    #[test]
    fn small_ones_travel_together_within_the_stores_limits() {
        assert_eq!(counts(&mut send_queue(LIMITS, &vec![KIB; 2500]), None), [1000, 1000, 500]);
        assert_eq!(counts(&mut send_queue(LIMITS, &[MIB; 8]), None), [3, 3, 2]);
        let tight = BatchLimits { overhead_bytes: 0, ..LIMITS };
        assert_eq!(counts(&mut send_queue(tight, &[MIB; 8]), None), [4, 4]);
    }

    #[test]
    fn large_ones_travel_alone_and_in_turn() {
        let mut send_queue = send_queue(LIMITS, &[KIB, 4 * MIB, KIB]);
        assert!(
            matches!(send_queue.next(u64::MAX, None), Some(Load::Batch(pieces)) if pieces.len() == 2)
        );
        assert!(
            matches!(send_queue.next(u64::MAX, None), Some(Load::Single(piece)) if piece.id == 1)
        );
        assert_eq!((send_queue.next(u64::MAX, None), send_queue.len_bytes()), (None, 0));
    }

    #[test]
    fn what_is_left_is_spread_over_free_slots_but_not_thinly() {
        assert_eq!(counts(&mut send_queue(LIMITS, &[256 * KIB; 16]), Some(2)), [8, 4, 3, 1]);
        assert_eq!(counts(&mut send_queue(LIMITS, &[KIB; 32]), Some(16)), [32]);
        assert_eq!(counts(&mut send_queue(LIMITS, &[2 * MIB; 3]), Some(16)), [1, 1, 1]);
    }

    #[test]
    fn a_share_of_memory_makes_batches_smaller_but_not_small() {
        for (share, expected) in [(2 * MIB, vec![8, 8]), (1, vec![4, 4, 4, 4])] {
            let mut send_queue = send_queue(LIMITS, &[256 * KIB; 16]);
            let loads = std::iter::from_fn(|| send_queue.next(share, None));
            assert_eq!(loads.map(|load| load.pieces().len()).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_load_is_full_where_nothing_more_would_go_with_it() {
        let is_full = |lens: &[u64], share| send_queue(LIMITS, lens).has_full(share);
        assert!(!is_full(&[], u64::MAX) && !is_full(&[256 * KIB; 7], u64::MAX));
        assert!(is_full(&[256 * KIB; 8], u64::MAX) && is_full(&[5 * MIB], u64::MAX));
        assert!(is_full(&[256 * KIB; 4], MIB) && !is_full(&[256 * KIB; 3], 1));
        assert!(!is_full(&[1; 999], 1) && is_full(&[1; 1000], 1));
    }

    #[test]
    fn batches_may_end() {
        let mut send_queue = send_queue(LIMITS, &[KIB, 4 * MIB, KIB, KIB]);
        send_queue.end_batches();
        let order = std::iter::from_fn(|| send_queue.next(u64::MAX, None));
        let order: Vec<_> = order.map(|load| load.pieces().to_vec()).collect();
        assert!(order.iter().all(|pieces| pieces.len() == 1));
        assert!(order.iter().map(|pieces| pieces[0].id).eq(0..4));
        assert!(send_queue.is_empty() && send_queue.len_bytes() == 0);
    }

    #[test]
    fn a_store_without_batches_and_a_small_budget_are_obeyed() {
        let mut none = SendQueue::new(None, u64::MAX);
        let digest = Digest { function: DigestFunction::Sha256, hash: [0; 32], len: 1 };
        none.push(UploadChunk { id: 0, offset: 0, digest });
        assert!(matches!(none.next(u64::MAX, None), Some(Load::Single(_))));
        let mut small = SendQueue::new(Some(LIMITS), 4096);
        small.push(UploadChunk { id: 0, offset: 0, digest: Digest { len: 4096, ..digest } });
        assert!(matches!(small.next(u64::MAX, None), Some(Load::Single(_))));
    }
}
