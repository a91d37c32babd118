//! How a writer tells readers how far it has come, and they it how far they need it to come.
//!
//! # Which order makes a read see a write
//!
//! A slot holds two positions. `published` is moved by its one writer only, with an atomic swap
//! that *releases*: whoever loads it with *acquire* and finds a position sees every byte before it.
//! That is all that reading needs.
//!
//! Waiting needs more: a waiter that looks at `published` just before the writer moves it, and a
//! writer that looks for waiters just before one registers, must not miss each other. So both sides
//! make a read-modify-write of `published`: the writer swaps it and then loads `wanted`; the waiter
//! lowers `wanted` and then adds 0 to `published`. Of two read-modify-writes of one location, one
//! comes first, and the other reads what it left:
//! - the writer's first: the waiter reads the new position, and does not wait;
//! - the waiter's first: the writer reads what the waiter left there, which acquires everything the
//!   waiter did before, so its load of `wanted` sees the wish.
//!
//! Hence neither a fence nor sequential consistency is needed; the model checker agrees.

use std::ops::Range;

use super::sync::{AtomicU64, Ordering};

/// Nobody waits.
const NOBODY: u64 = u64::MAX;

/// The state that a writer of a range shares with its readers. Positions are in the blob. On a
/// cache line of its own, as neighbours are written by other threads.
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
        Self { range, published, wanted: AtomicU64::new(NOBODY) }
    }

    pub(super) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// The writer has written everything before `position`. Returns whether somebody waits for a
    /// position that this reaches. No lock, no wait.
    #[inline]
    pub(super) fn publish(&self, position: u64) -> bool {
        self.published.swap(position, Ordering::AcqRel);
        self.wanted.load(Ordering::Relaxed) <= position
    }

    /// How far the writer has come: every byte before may be read.
    pub(super) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Asks to be told when the writer reaches `position`, and returns how far it has come: where
    /// that is far enough, nobody will be told.
    pub(super) fn want(&self, position: u64) -> u64 {
        self.wanted.fetch_min(position, Ordering::Relaxed);
        self.published.fetch_add(0, Ordering::AcqRel)
    }

    /// Takes every wish back, before those that remain are made again.
    pub(super) fn forget_wishes(&self) {
        self.wanted.store(NOBODY, Ordering::Relaxed);
    }
}
