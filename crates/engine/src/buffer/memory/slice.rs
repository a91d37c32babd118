//! [`Slice`]: the right to read published bytes, for an unlimited time.
//!
//! It holds a reference on the memory, so the bytes stay valid after the buffer is dropped.

use std::ops::Range;

use super::Memory;
use crate::buffer::sync::Arc;

/// Keeps the memory alive and its bytes unchanged: overwriting needs exclusive access to the
/// memory.
#[derive(Debug)]
pub(crate) struct Slice {
    memory: Arc<Memory>,
    range: Range<u64>,
}

impl Slice {
    /// The bytes of a range.
    ///
    /// # Safety
    ///
    /// All of them are published, and the caller has seen that with acquire.
    #[expect(unsafe_code, reason = "that they are published is the caller's to prove")]
    pub(crate) unsafe fn new(memory: Arc<Memory>, range: Range<u64>) -> Self {
        Self { memory, range }
    }
}

#[cfg(not(tidegate_loom))]
impl Slice {
    /// The part of the range that lies in its first contiguous piece.
    fn first(&self) -> &[u8] {
        // SAFETY: the range is published (see `new`), and `self` holds a shared reference on
        // `memory`.
        #[expect(unsafe_code, reason = "the slice is the proof")]
        unsafe {
            self.memory.bytes(self.range.start, self.range.end)
        }
    }

    /// Copies the bytes into `target`, as many as fit; returns their count.
    pub(crate) fn copy_to(mut self, target: &mut [u8]) -> usize {
        let mut done = 0;
        while done < target.len() {
            let run = self.first();
            let count = run.len().min(target.len() - done);
            if count == 0 {
                break;
            }
            target[done..done + count].copy_from_slice(&run[..count]);
            done += count;
            self.range.start += count as u64;
        }
        done
    }

    /// Appends all bytes to `target`.
    pub(crate) fn append_to(mut self, target: &mut Vec<u8>) {
        while !self.first().is_empty() {
            let run = self.first();
            target.extend_from_slice(run);
            self.range.start += run.len() as u64;
        }
    }

    /// The first run as `Bytes` over the same memory: all of the range if it lies in one piece.
    pub(crate) fn into_bytes(self) -> bytes::Bytes {
        bytes::Bytes::from_owner(self)
    }

    /// Whether [`Self::into_bytes`] returns all of the range.
    pub(crate) fn is_one_run(&self) -> bool {
        self.memory.is_one_run(self.range.start, self.range.end)
    }
}

#[cfg(not(tidegate_loom))]
impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self.first()
    }
}

/// The model tracks every read, so these functions copy the bytes out.
#[cfg(tidegate_loom)]
impl Slice {
    pub(crate) fn copy_to(self, target: &mut [u8]) -> usize {
        let bytes = self.memory.read(self.range.start, self.range.end);
        let count = bytes.len().min(target.len());
        target[..count].copy_from_slice(&bytes[..count]);
        count
    }

    pub(crate) fn append_to(self, target: &mut Vec<u8>) {
        target.extend(self.memory.read(self.range.start, self.range.end));
    }

    pub(crate) fn into_bytes(self) -> bytes::Bytes {
        self.memory.read(self.range.start, self.range.end).into()
    }

    pub(crate) fn is_one_run(&self) -> bool {
        true
    }
}
