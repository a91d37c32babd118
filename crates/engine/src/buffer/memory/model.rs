//! Memory for the model checker: one cell per byte. The checker reports two threads that touch one
//! byte without an order between them.

use loom::cell::UnsafeCell;

use super::Memory;

#[derive(Debug)]
pub(crate) struct Cells(pub(super) Vec<UnsafeCell<u8>>);

// SAFETY: the cells are plain memory; the model checker reports unordered accesses.
#[expect(unsafe_code, reason = "cells are not Sync by themselves")]
unsafe impl Sync for Cells {}

impl Cells {
    pub(crate) fn new(len: u64) -> Self {
        Self((0..len).map(|_| UnsafeCell::new(0xee)).collect())
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        // For race detection, freeing is a write.
        for cell in &self.0 {
            // SAFETY: the model checker verifies that no other thread has access.
            #[expect(unsafe_code, reason = "a tracked access")]
            cell.with_mut(|byte| unsafe { *byte = 0xdd });
        }
    }
}

impl Memory {
    fn cells(&self) -> &[UnsafeCell<u8>] {
        let super::Bytes::Model(cells) = &self.bytes;
        &cells.0
    }

    #[expect(unsafe_code, reason = "as its counterpart outside the model")]
    pub(super) unsafe fn copy_in(&self, at: u64, data: &[u8]) -> usize {
        for (cell, byte) in self.cells().iter().skip(at as usize).zip(data) {
            // SAFETY: the model checker verifies that no other thread has access.
            cell.with_mut(|target| unsafe { *target = *byte });
        }
        data.len()
    }

    /// The bytes of a range, each read as one tracked access.
    pub(super) fn read(&self, start: u64, end: u64) -> Vec<u8> {
        let range = start as usize..end as usize;
        // SAFETY: the model checker verifies that no other thread writes at the same time.
        #[expect(unsafe_code, reason = "a tracked access")]
        self.cells()[range].iter().map(|cell| cell.with(|byte| unsafe { *byte })).collect()
    }
}
