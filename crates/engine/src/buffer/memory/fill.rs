//! The right to write one range, from its start to its end, publishing as it goes.

use std::ops::Range;

use super::Memory;
use crate::buffer::slot::Slot;
use crate::buffer::sync::Arc;

/// Owns a range that nobody else can touch: what lies before the slot's position is published,
/// what lies behind it is this fill's alone.
#[derive(Debug)]
pub(crate) struct Fill {
    memory: Arc<Memory>,
    slot: Arc<Slot>,
    // Where the next byte goes; the slot's published position, which only we move.
    at: u64,
}

impl Fill {
    /// The right to write the slot's range.
    ///
    /// # Safety
    ///
    /// The range is committed in `memory`, no other fill overlaps it, and none of it is published;
    /// and this stays so until the fill is dropped.
    #[expect(unsafe_code, reason = "that the range is free is the caller's to prove")]
    pub(crate) unsafe fn new(memory: Arc<Memory>, slot: Arc<Slot>) -> Self {
        let at = slot.range().start;
        Self { memory, slot, at }
    }

    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// What is still to be written.
    pub(crate) fn rest(&self) -> Range<u64> {
        self.at..self.slot.range().end
    }

    fn room(&self) -> usize {
        let rest = self.rest();
        usize::try_from(rest.end - rest.start).unwrap_or(usize::MAX)
    }

    /// Writes as much as there is room for and publishes it. Returns how much that was, and
    /// whether somebody waits for it.
    #[inline]
    pub(crate) fn write(&mut self, data: &[u8]) -> (usize, bool) {
        let data = &data[..data.len().min(self.room())];
        // SAFETY: these bytes lie in our range, behind what is published: they are ours alone.
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
    /// The memory that the next bytes go to, as far as it lies in one piece.
    pub(crate) fn spare(&mut self) -> &mut [std::mem::MaybeUninit<u8>] {
        let run = self.memory.run(self.at, self.slot.range().end);
        let mut run = std::ptr::NonNull::slice_from_raw_parts(
            run.cast::<std::mem::MaybeUninit<u8>>(),
            run.len(),
        );
        // SAFETY: these bytes lie in our range, behind what is published: they are ours alone, and
        // the borrow of `self` keeps it so. They need not be initialised.
        #[expect(unsafe_code, reason = "the fill is the proof")]
        unsafe {
            run.as_mut()
        }
    }

    /// Publishes `count` bytes of [`Self::spare`]; returns whether somebody waits for them. Counts
    /// no further than the range.
    ///
    /// # Safety
    ///
    /// They must have been initialised.
    #[expect(unsafe_code, reason = "that they are initialised is the caller's to prove")]
    pub(crate) unsafe fn advance(&mut self, count: usize) -> bool {
        self.publish(count.min(self.room()))
    }
}
