//! [`ShardBuffer`]: owns the memory, and creates the writers, the readers and the frozen blob.
//!
//! This file is the public interface. It checks arguments and calls `shared`, which holds the lock.
//! It contains no unsafe code.

use std::ops::Range;

use bytes::Bytes;
use tidegate_core::extents::Extents;

use super::error::BufferError;
use super::memory::Memory;
use super::options::{BufferStats, ShardBufferOptions};
use super::shared::Shared;
use super::sync::Arc;
use super::{Cursor, ShardReader, ShardWriter, WaitFor};
use crate::budget::BytesPermit;

/// A blob in memory that many writers fill at once. See the [module](super) for its guarantees.
#[derive(Debug)]
pub struct ShardBuffer {
    shared: Arc<Shared>,
}

impl ShardBuffer {
    /// An empty buffer. It takes address space only. Memory is committed when a range is reserved.
    ///
    /// # Errors
    ///
    /// `HintBeyondLimit`, `Overflow` if this platform cannot address the hint, and `OutOfMemory` if
    /// [`super::Backing::Reserved`] was requested and the system refuses.
    pub fn new(options: ShardBufferOptions) -> Result<Self, BufferError> {
        Ok(Self { shared: Arc::new(Shared::new(Memory::new(options)?)) })
    }

    /// Reserves a range and returns its writer. The writer of an empty range is full from the
    /// start.
    ///
    /// # Errors
    ///
    /// `Reserved` or `Written` if the range overlaps another (the error names both); `BeyondLimit`,
    /// `BeyondEnd`, `Reversed`; `OverBudget` and `OutOfMemory` if the range cannot be committed;
    /// `Frozen`; and the failure if filling has failed.
    pub fn shard(&self, range: Range<u64>) -> Result<ShardWriter, BufferError> {
        ShardWriter::new(Arc::clone(&self.shared), &range)
    }

    /// Reserves, writes and releases in one call, for callers without a plan. Writes all of `data`
    /// or nothing. Takes the lock twice, so a caller with many writes should take a
    /// [shard](Self::shard).
    ///
    /// # Errors
    ///
    /// As [`Self::shard`], and `Overflow`.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), BufferError> {
        let len = data.len() as u64;
        let end = offset.checked_add(len).ok_or(BufferError::Overflow { offset, len })?;
        if self.shard(offset..end)?.put(data) < data.len() {
            return Err(BufferError::OutOfMemory { bytes: len });
        }
        Ok(())
    }

    /// Copies bytes into `target` and returns their count. The count is `target.len()`, except at
    /// the end of a blob whose length is settled: there it is smaller, and 0 beyond the end.
    ///
    /// # Errors
    ///
    /// `Gap`, with the first run that has not been written, `Overflow`, and the failure if filling
    /// has failed.
    pub fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize, BufferError> {
        let len = target.len() as u64;
        let end = offset.checked_add(len).ok_or(BufferError::Overflow { offset, len })?;
        let end = self.total().map_or(end, |total| end.min(total));
        if offset >= end {
            return Ok(0);
        }
        Ok(self.shared.slice(offset..end)?.copy_to(target))
    }

    /// Written bytes, over the same memory. Nothing is copied, unless the range spans several
    /// [segments](super::Backing::Segments).
    ///
    /// # Errors
    ///
    /// `Gap`, with the first run that has not been written; `Reversed`; the failure if filling has
    /// failed; `OutOfMemory` and `OverBudget` if the bytes must be joined into a copy.
    pub fn slice(&self, range: Range<u64>) -> Result<Bytes, BufferError> {
        let len = range.end.checked_sub(range.start);
        let len = len.ok_or(BufferError::Reversed { start: range.start, end: range.end })?;
        if len == 0 {
            return Ok(Bytes::new());
        }
        let slice = self.shared.slice(range)?;
        if slice.is_one_run() {
            return Ok(slice.into_bytes());
        }
        let permit = self.shared.memory().pay_for_copy(len)?;
        let refused = BufferError::OutOfMemory { bytes: len };
        let len = usize::try_from(len).map_err(|_too_large| refused.clone())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_full| refused)?;
        slice.append_to(&mut bytes);
        Ok(Bytes::from_owner(Joined { bytes, _permit: permit }))
    }

    /// The position after the furthest byte written.
    pub fn len(&self) -> u64 {
        self.shared.look(|state| state.len())
    }

    /// Whether no byte has been written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes from position 0 to the first gap.
    pub fn contiguous_len(&self) -> u64 {
        self.shared.look(|state| state.written_until(0, u64::MAX))
    }

    /// The ranges that are missing before [`Self::len`], in ascending order.
    pub fn gaps(&self) -> Vec<Range<u64>> {
        let extents = self.extents();
        extents.gaps(0..extents.end()).collect()
    }

    /// The ranges that have been written.
    pub fn extents(&self) -> Extents {
        self.shared.look(|state| state.extents())
    }

    /// Whether every byte of a blob of `total` bytes has been written.
    pub fn is_complete(&self, total: u64) -> bool {
        self.shared.look(|state| state.written_until(0, total) >= total)
    }

    /// The blob's length, once it is settled.
    pub fn total(&self) -> Option<u64> {
        self.shared.look(|state| state.total())
    }

    /// Settles the blob's length. Call it as soon as the length is known. Readers end there, and
    /// writes beyond it are refused.
    ///
    /// # Errors
    ///
    /// `BeyondEnd` if a range beyond `total` is reserved or written, `BeyondLimit`, and
    /// `OtherLength`.
    pub fn set_total(&self, total: u64) -> Result<(), BufferError> {
        let limit = self.shared.memory().limit_bytes();
        self.shared.change(|state| state.settle(total, limit))
    }

    /// Marks filling as failed. Every current and later wait and read returns the error, and no
    /// range can be reserved any more. The first failure stays.
    pub fn fail(&self, error: impl std::error::Error + Send + Sync + 'static) {
        self.shared.change(|state| state.fail(BufferError::failed(error)));
    }

    /// Waits until a range has been written. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The failure if filling fails, `BeyondEnd` if the range passes a settled length,
    /// `BeyondLimit`, `Reversed`, and `Abandoned` if the buffer and its writers are dropped before
    /// the range is written.
    pub fn wait_for(&self, range: Range<u64>) -> WaitFor {
        WaitFor::new(Arc::clone(&self.shared), range)
    }

    /// A reader that follows the writers from the beginning.
    pub fn reader(&self) -> ShardReader {
        self.reader_at(0)
    }

    /// A reader that follows the writers from a position.
    pub fn reader_at(&self, position: u64) -> ShardReader {
        ShardReader::new(Arc::clone(&self.shared), position)
    }

    /// A view of the buffer as a file. It borrows the buffer exclusively, so it can also overwrite
    /// bytes. Overwriting is refused while an earlier reader, writer or slice is alive.
    pub fn cursor(&mut self) -> Cursor<'_> {
        Cursor::new(self)
    }

    /// The whole blob, over the same memory. Nothing is copied, unless the memory is in several
    /// [segments](super::Backing::Segments). The memory is released when the buffer and the last
    /// slice of these bytes are dropped. After `freeze`, no range can be written. It may be called
    /// again.
    ///
    /// # Errors
    ///
    /// `WritersRemain`, `Gap`, `BeyondEnd` if more than `total` bytes have been written,
    /// `OtherLength`, and the failure if filling has failed. On an error the buffer is unchanged.
    pub fn freeze(&self, total: u64) -> Result<Bytes, BufferError> {
        let limit = self.shared.memory().limit_bytes();
        self.shared.change(|state| {
            if let Some(failure) = state.failure() {
                return Err(failure.clone());
            }
            if let Some(held) = state.first_held() {
                return Err(BufferError::WritersRemain { held });
            }
            let until = state.written_until(0, total);
            if until < total {
                let gap = state.extents().gaps(0..total).next();
                return Err(BufferError::Gap { gap: gap.unwrap_or(until..total) });
            }
            state.settle(total, limit)?;
            state.freeze();
            Ok(())
        })?;
        self.slice(0..total)
    }

    /// Releases the charge on the budget: from now on the caller accounts for the bytes.
    pub(crate) fn detach(&self) {
        self.shared.memory().detach();
    }

    /// Memory and contention figures of this buffer.
    pub fn stats(&self) -> BufferStats {
        BufferStats {
            committed_bytes: self.shared.memory().committed_bytes(),
            lock_waits: self.shared.lock_waits(),
            backing: self.shared.memory().backing(),
        }
    }

    /// The end of the range from `position` that can be reserved.
    pub(super) fn free_until(&self, position: u64) -> u64 {
        let limit = self.shared.memory().limit_bytes();
        self.shared.look(|state| state.free_until(position, limit))
    }

    /// The first run of written bytes at or after a position. It starts at `position` if that byte
    /// is written.
    pub(super) fn run_at(&self, position: u64) -> Range<u64> {
        self.shared.look(|state| {
            let until = state.written_until(position, u64::MAX);
            if until > position {
                return position..until;
            }
            let extents = state.extents();
            let next = extents.gaps(position..u64::MAX).next();
            let start = next.map_or(u64::MAX, |gap| gap.end);
            start..state.written_until(start, u64::MAX)
        })
    }

    /// Replaces written bytes. Fails with `Shared` while another handle on the buffer is alive.
    pub(super) fn overwrite(&mut self, offset: u64, data: &[u8]) -> Result<usize, BufferError> {
        if self.shared.look(|state| state.is_frozen()) {
            return Err(BufferError::Frozen);
        }
        let shared = Arc::get_mut(&mut self.shared).ok_or(BufferError::Shared)?;
        let memory = shared.memory_mut().ok_or(BufferError::Shared)?;
        Ok(memory.overwrite(offset, data))
    }
}

/// A copy of bytes that lay in several segments, with the permit that pays for it.
#[derive(Debug)]
struct Joined {
    bytes: Vec<u8>,
    _permit: Option<BytesPermit>,
}

impl AsRef<[u8]> for Joined {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for ShardBuffer {
    fn drop(&mut self) {
        self.shared.change(super::state::State::orphan);
    }
}
