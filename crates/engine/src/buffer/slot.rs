//! The two positions by which one writer and its readers signal each other: how far the writer has
//! come, and how far a reader needs it.
//!
//! # Why a read sees a write
//!
//! Only the writer moves `published`, with an atomic swap that *releases*. A reader that loads it
//! with *acquire* sees every byte before the position that it finds. Reading needs no more.
//!
//! Waiting needs more. A waiter can look at `published` just before the writer moves it, while the
//! writer looks for waiters just before one registers. The two must not miss each other. So both
//! sides make a read-modify-write of `published`. The writer swaps it and then loads `wanted`. The
//! waiter lowers `wanted` and then adds 0 to `published`. Of two read-modify-writes of one
//! location, one comes first, and the other reads its result:
//! - If the writer's comes first, the waiter reads the new position and does not wait.
//! - If the waiter's comes first, the writer reads the waiter's result. That acquires everything
//!   the waiter did before, so the writer's load of `wanted` sees the waiter's position.
//!
//! Hence neither a fence nor sequential consistency is needed. The model checker confirms it
//! (`interleavings`).

use std::ops::Range;

use super::sync::{AtomicU64, Ordering};

/// No reader waits.
const NO_READER: u64 = u64::MAX;

/// The state that the writer of a range shares with its readers. Positions are in the blob. Aligned
/// to 128 bytes, so that it shares no cache line with a slot that another thread writes.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Slot {
    range: Range<u64>,
    published: AtomicU64,
    wanted: AtomicU64,
}

impl Slot {
    pub(super) fn new(range: Range<u64>) -> Self {
        let published = AtomicU64::new(range.start);
        Self { range, published, wanted: AtomicU64::new(NO_READER) }
    }

    pub(super) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Publishes everything before `position`. Returns whether a reader waits for a position that
    /// this reaches. Takes no lock and never waits.
    #[inline]
    pub(super) fn publish(&self, position: u64) -> bool {
        self.published.swap(position, Ordering::AcqRel);
        self.wanted.load(Ordering::Relaxed) <= position
    }

    /// The position that the writer has reached: every byte of the range before it may be read.
    pub(super) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Requests a wake-up when the writer reaches `position`. Returns the position that the writer
    /// has reached; if that is far enough, no wake-up follows.
    pub(super) fn want(&self, position: u64) -> u64 {
        self.wanted.fetch_min(position, Ordering::Relaxed);
        self.published.fetch_add(0, Ordering::AcqRel)
    }

    /// Clears the wanted position. The table then registers the remaining waiters again.
    pub(super) fn forget_wishes(&self) {
        self.wanted.store(NO_READER, Ordering::Relaxed);
    }
}
