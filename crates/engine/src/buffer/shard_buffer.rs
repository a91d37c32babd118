//! [`ShardBuffer`]: the owner of the memory, from whom writers, readers and the frozen blob come.

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

/// A blob in memory that many writers fill at once. See the [module](super) for what it promises.
#[derive(Debug)]
pub struct ShardBuffer {
    shared: Arc<Shared>,
}

impl ShardBuffer {
    /// An empty buffer. Takes address space only; memory is committed where ranges are reserved.
    ///
    /// # Errors
    ///
    /// `HintBeyondLimit`, `Overflow` for a hint that this platform cannot address, and
    /// `OutOfMemory` where [`super::Backing::Reserved`] is asked for and the system refuses.
    pub fn new(options: ShardBufferOptions) -> Result<Self, BufferError> {
        Ok(Self { shared: Arc::new(Shared::new(Memory::new(options)?)) })
    }

    /// Reserves a range and hands out its writer. An empty range gives a writer that is full.
    ///
    /// # Errors
    ///
    /// `Reserved` or `Written` where the range overlaps another, naming both; `BeyondLimit`,
    /// `BeyondEnd`, `Reversed`; `OverBudget` and `OutOfMemory` where it cannot be committed;
    /// `Frozen`, and the failure where filling has failed.
    pub fn shard(&self, range: Range<u64>) -> Result<ShardWriter, BufferError> {
        ShardWriter::new(Arc::clone(&self.shared), &range)
    }

    /// Reserves, writes and releases: for those who have no plan. All of `data` is written, or
    /// nothing. Takes the lock twice; who has many writes to make should take a
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

    /// Copies bytes out; returns how many: as many as `target` takes, fewer only at the end of a
    /// blob whose length is settled, and 0 from there on.
    ///
    /// # Errors
    ///
    /// `Gap`, with the first run that has not been written, `Overflow`, and the failure where
    /// filling has failed.
    pub fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize, BufferError> {
        let len = target.len() as u64;
        let end = offset.checked_add(len).ok_or(BufferError::Overflow { offset, len })?;
        let end = self.total().map_or(end, |total| end.min(total));
        if offset >= end {
            return Ok(0);
        }
        Ok(self.shared.slice(offset..end)?.copy_to(target))
    }

    /// Bytes that have been written, over the same memory: nothing is copied, unless they lie in
    /// more than one [segment](super::Backing::Segments).
    ///
    /// # Errors
    ///
    /// `Gap`, with the first run that has not been written; `Reversed`; the failure where filling
    /// has failed; `OutOfMemory` and `OverBudget` where bytes have to be joined.
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

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes from position 0 to the first gap.
    pub fn contiguous_len(&self) -> u64 {
        self.shared.look(|state| state.written_until(0, u64::MAX))
    }

    /// What is missing before [`Self::len`], in ascending order.
    pub fn gaps(&self) -> Vec<Range<u64>> {
        let extents = self.extents();
        extents.gaps(0..extents.end()).collect()
    }

    /// What has been written.
    pub fn extents(&self) -> Extents {
        self.shared.look(|state| state.extents())
    }

    /// Whether all of a blob of `total` bytes has been written.
    pub fn is_complete(&self, total: u64) -> bool {
        self.shared.look(|state| state.written_until(0, total) >= total)
    }

    /// The blob's length, once it is settled.
    pub fn total(&self) -> Option<u64> {
        self.shared.look(|state| state.total())
    }

    /// Settles the blob's length, as soon as it is known: readers end there, and nothing is
    /// written beyond.
    ///
    /// # Errors
    ///
    /// `BeyondEnd` where more has been reserved or written, `BeyondLimit`, and `OtherLength`.
    pub fn set_total(&self, total: u64) -> Result<(), BufferError> {
        let limit = self.shared.memory().limit_bytes();
        self.shared.change(|state| state.settle(total, limit))
    }

    /// Says that filling has failed: whoever waits or reads, now or later, is told, and nothing
    /// more can be reserved. The first failure stays.
    pub fn fail(&self, error: impl std::error::Error + Send + Sync + 'static) {
        self.shared.change(|state| state.fail(BufferError::failed(error)));
    }

    /// Waits until a range has been written. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The failure where filling fails, `BeyondEnd` where the range passes a length that is
    /// settled, `BeyondLimit`, `Reversed`, and `Abandoned` where the buffer and its writers are
    /// dropped before it is written.
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

    /// A view of the buffer as a file. It has the buffer to itself for as long as it lives, so it
    /// may overwrite, too, unless a reader, a writer or a slice made earlier is still there.
    pub fn cursor(&mut self) -> Cursor<'_> {
        Cursor::new(self)
    }

    /// The whole blob, over the same memory: nothing is copied, unless the memory is in
    /// [segments](super::Backing::Segments). The memory is given back when the buffer and the last
    /// slice of these bytes are gone. Nothing can be written any more; may be called again.
    ///
    /// # Errors
    ///
    /// `WritersRemain`, `Gap`, `BeyondEnd` where more than `total` has been written,
    /// `OtherLength`, and the failure where filling has failed; the buffer is as it was.
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

    /// Lets go of the budget: from now on the bytes are the caller's to account for.
    pub(crate) fn detach(&self) {
        self.shared.memory().detach();
    }

    /// What the buffer says of itself.
    pub fn stats(&self) -> BufferStats {
        BufferStats {
            committed_bytes: self.shared.memory().committed_bytes(),
            lock_waits: self.shared.lock_waits(),
            backing: self.shared.memory().backing(),
        }
    }

    /// How far from a position on nothing is in the way of writing.
    pub(super) fn free_until(&self, position: u64) -> u64 {
        let limit = self.shared.memory().limit_bytes();
        self.shared.look(|state| state.free_until(position, limit))
    }

    /// The first run of written bytes at or after a position, and whether the position is in it.
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

    /// Replaces bytes that have been written; the buffer must be the caller's alone.
    pub(super) fn overwrite(&mut self, offset: u64, data: &[u8]) -> Result<usize, BufferError> {
        if self.shared.look(|state| state.is_frozen()) {
            return Err(BufferError::Frozen);
        }
        let shared = Arc::get_mut(&mut self.shared).ok_or(BufferError::Shared)?;
        let memory = shared.memory_mut().ok_or(BufferError::Shared)?;
        Ok(memory.overwrite(offset, data))
    }
}

/// A copy of bytes that lay in several segments, and what pays for it.
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
