//! Allocations that double in size: memory for systems that cannot reserve address space.
//!
//! A segment is allocated when a range that touches it is reserved, and it never moves. Growth adds
//! segments. The first segment is as long as the hint, so with a right hint the blob lies in one
//! run.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// The minimum length of the first segment.
const FIRST_BYTES_MIN: u64 = 64 << 10;

/// The maximum first segment from a hint. Some systems commit memory when it is allocated, not when
/// it is touched. There, a wrong hint must not cost more than this.
const FIRST_BYTES_MAX: u64 = 1 << 30;

/// The first segment and its doublings up to 2^64: no buffer needs more.
const SEGMENTS_MAX: usize = 64;

type Cell = UnsafeCell<MaybeUninit<u8>>;

/// The segments of one buffer.
pub(crate) struct Segments {
    first_bytes: u64,
    limit_bytes: u64,
    table: Box<[OnceLock<Box<[Cell]>>]>,
}

// SAFETY: the cells are plain memory. The holders of pointers into them (fills and slices) ensure
// that their accesses do not conflict. `OnceLock` synchronises the table itself.
#[expect(unsafe_code, reason = "cells are not Sync by themselves")]
unsafe impl Sync for Segments {}

impl Segments {
    pub(crate) fn new(len_hint: u64, limit_bytes: u64) -> Self {
        // In whole granules, so that no granule lies in two segments: every byte that is counted as
        // committed is then allocated.
        let believed = len_hint.clamp(FIRST_BYTES_MIN, FIRST_BYTES_MAX);
        let first_bytes = believed.next_multiple_of(FIRST_BYTES_MIN).min(limit_bytes.max(1));
        let table = std::iter::repeat_with(OnceLock::new).take(SEGMENTS_MAX).collect();
        Self { first_bytes, limit_bytes, table }
    }

    /// Allocates the segments that the range touches; `Err` with the length that the system
    /// refused.
    pub(crate) fn commit(&self, start: u64, end: u64) -> Result<(), u64> {
        let mut at = start;
        while at < end {
            let (index, segment) = self.locate(at);
            let bytes = segment.end - segment.start;
            let slot = self.table.get(index).ok_or(bytes)?;
            if slot.get().is_none() {
                let cells = allocate(bytes).ok_or(bytes)?;
                // The caller serialises reservations, so no other thread can have set it.
                let _ = slot.set(cells);
            }
            at = segment.end;
        }
        Ok(())
    }

    /// The run from `start` to `end`, up to the end of its segment; empty if nothing is committed
    /// there.
    pub(crate) fn run(&self, start: u64, end: u64) -> NonNull<[u8]> {
        let (index, segment) = self.locate(start);
        let cells = self.table.get(index).and_then(OnceLock::get);
        let within = |at: u64| usize::try_from(at - segment.start).ok();
        let cells = cells.and_then(|cells| {
            let end = end.clamp(start, segment.end.max(start));
            cells.get(within(start)?..within(end)?)
        });
        // Derived from the shared reference as cells, because fills write through the pointer.
        let cells = cells.unwrap_or_default();
        NonNull::slice_from_raw_parts(NonNull::from(cells).cast::<u8>(), cells.len())
    }

    /// The index of the segment that holds a position, and the segment's range.
    fn locate(&self, at: u64) -> (usize, std::ops::Range<u64>) {
        let doublings = (at / self.first_bytes).checked_ilog2();
        let (index, start, len) = match doublings {
            None => (0, 0, self.first_bytes),
            // Segment i, for i >= 1, begins at the sum of those before it, and is as long as that
            // sum.
            Some(n) => {
                let len = self.first_bytes << n;
                (n as usize + 1, len, len)
            }
        };
        (index, start..start.saturating_add(len).min(self.limit_bytes))
    }
}

fn allocate(bytes: u64) -> Option<Box<[Cell]>> {
    let len = usize::try_from(bytes).ok()?;
    let mut cells: Vec<Cell> = Vec::new();
    cells.try_reserve_exact(len).ok()?;
    // SAFETY: the capacity is at least `len`, and a cell of possibly uninitialised memory needs no
    // initialisation.
    #[expect(unsafe_code, reason = "touching every page would commit it")]
    unsafe {
        cells.set_len(len);
    }
    Some(cells.into_boxed_slice())
}

impl std::fmt::Debug for Segments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.table.iter().filter(|slot| slot.get().is_some()).count();
        f.debug_struct("Segments")
            .field("first_bytes", &self.first_bytes)
            .field("count", &count)
            .finish_non_exhaustive()
    }
}
