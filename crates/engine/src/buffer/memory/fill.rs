//! [`Fill`]: the right to write one range, from its start to its end.
//!
//! Invariant: a byte is published only after it was written, and is never written again by the
//! fill. Several fills never overlap: the table in `state` ensures that, not this file.

use std::ops::Range;

use super::Memory;
use crate::buffer::slot::Slot;
use crate::buffer::sync::Arc;

/// Owns a range that no other thread can write. Bytes before the slot's position are published;
/// bytes from there on belong to this fill alone.
#[derive(Debug)]
pub(crate) struct Fill {
    memory: Arc<Memory>,
    slot: Arc<Slot>,
    // The position of the next byte. Equal to the slot's published position, which only this fill
    // moves.
    at: u64,
}

impl Fill {
    /// The right to write the slot's range.
    ///
    /// # Safety
    ///
    /// The range is committed in `memory`, no other fill overlaps it, and none of it is published.
    /// This must hold until the fill is dropped.
    #[expect(unsafe_code, reason = "that the range is free is the caller's to prove")]
    pub(crate) unsafe fn new(memory: Arc<Memory>, slot: Arc<Slot>) -> Self {
        let at = slot.range().start;
        Self { memory, slot, at }
    }

    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// The unwritten rest of the range.
    pub(crate) fn rest(&self) -> Range<u64> {
        self.at..self.slot.range().end
    }

    fn room(&self) -> usize {
        let rest = self.rest();
        usize::try_from(rest.end - rest.start).unwrap_or(usize::MAX)
    }

    /// Writes as much of `data` as fits, and publishes it. Returns that count, and whether a reader
    /// waits for it.
    #[inline]
    pub(crate) fn write(&mut self, data: &[u8]) -> (usize, bool) {
        let data = &data[..data.len().min(self.room())];
        // SAFETY: these bytes lie in our range, after the published part: only this fill touches
        // them.
        #[expect(unsafe_code, reason = "the fill is the proof")]
        let count = unsafe { self.memory.copy_in(self.at, data) };
        (count, self.publish(count))
    }

    fn publish(&mut self, count: usize) -> bool {
        if count == 0 {
            return false;
        }
        self.at += count as u64;
        self.slot.publish(self.at)
    }
}

#[cfg(not(tidegate_loom))]
impl Fill {
    /// The memory of the next bytes, up to the end of its contiguous piece.
    pub(crate) fn spare(&mut self) -> &mut [std::mem::MaybeUninit<u8>] {
        let run = self.memory.run(self.at, self.slot.range().end);
        let mut run = std::ptr::NonNull::slice_from_raw_parts(
            run.cast::<std::mem::MaybeUninit<u8>>(),
            run.len(),
        );
        // SAFETY: these bytes lie in our range, after the published part: only this fill touches
        // them, and the borrow of `self` keeps it so. `MaybeUninit` bytes may be uninitialised.
        #[expect(unsafe_code, reason = "the fill is the proof")]
        unsafe {
            run.as_mut()
        }
    }

    /// Publishes `count` bytes of [`Self::spare`], at most up to the end of the range. Returns
    /// whether a reader waits for them.
    ///
    /// # Safety
    ///
    /// The caller must have initialised these bytes.
    #[expect(unsafe_code, reason = "that they are initialised is the caller's to prove")]
    pub(crate) unsafe fn advance(&mut self, count: usize) -> bool {
        self.publish(count.min(self.room()))
    }
}
