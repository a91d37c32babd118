//! A blob in memory, filled in place by many shards.
//!
//! One allocation is cut into blocks that can be joined again without a copy; each block has a
//! lock of its own, which only the two shards that meet in it can ever contend for.

use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

use super::Batch;
use crate::budget::BytesPermit;
use crate::error::{Error, ErrorKind, Operation, Result};

/// One block: large enough that blocks are few, small enough that two shards rarely meet in one.
const BLOCK_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct MemorySink {
    blocks: Vec<Mutex<BytesMut>>,
    len: usize,
    permit: BytesPermit,
}

impl MemorySink {
    /// Room for `len` bytes; `permit` is what the budget granted for them. The pages are committed
    /// as they are written.
    pub(crate) fn new(len: usize, permit: BytesPermit) -> Self {
        let mut rest = BytesMut::zeroed(len);
        let mut blocks = Vec::with_capacity(len.div_ceil(BLOCK_BYTES));
        while !rest.is_empty() {
            let at = rest.len().min(BLOCK_BYTES);
            let after = rest.split_off(at);
            blocks.push(Mutex::new(rest));
            rest = after;
        }
        Self { blocks, len, permit }
    }

    pub(crate) fn write(&self, batch: &Batch) -> Result<()> {
        let mut offset = usize::try_from(batch.offset).unwrap_or(usize::MAX);
        for frame in &batch.frames {
            let mut left = frame.as_ref();
            while !left.is_empty() {
                let (index, within) = (offset / BLOCK_BYTES, offset % BLOCK_BYTES);
                let block = self.blocks.get(index).ok_or_else(|| self.beyond(offset))?;
                let mut block = block.lock().unwrap_or_else(PoisonError::into_inner);
                let count = left.len().min(block.len().saturating_sub(within));
                if count == 0 {
                    return Err(self.beyond(offset));
                }
                let (now, later) = left.split_at(count);
                block[within..within + count].copy_from_slice(now);
                (left, offset) = (later, offset + count);
            }
        }
        Ok(())
    }

    fn beyond(&self, offset: usize) -> Error {
        Error::new(
            ErrorKind::Invalid,
            Operation::Write,
            "memory",
            format!("offset {offset} lies beyond the {} bytes expected", self.len),
        )
    }

    /// The blob's bytes, joined without a copy, and the permit that stands for them.
    pub(crate) fn finish(self) -> (Bytes, BytesPermit) {
        let mut whole = BytesMut::new();
        for block in self.blocks {
            whole.unsplit(block.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
        (whole.freeze(), self.permit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[tokio::test]
    async fn pieces_in_any_order_make_the_blob() {
        let expected: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
        let permit = Budget::default().bytes(expected.len() as u64).await;
        let sink = MemorySink::new(expected.len(), permit);
        let cuts = [0, 5, 1 << 20, (1 << 20) + 7, 2_500_000, expected.len()];
        for pair in cuts.windows(2).rev() {
            let frames = vec![Bytes::copy_from_slice(&expected[pair[0]..pair[1]])];
            sink.write(&Batch { offset: pair[0] as u64, frames, mark: None, turn: None }).unwrap();
        }
        let before = sink.blocks[0].lock().unwrap().as_ptr();
        let (whole, _permit) = sink.finish();
        assert_eq!(whole, expected);
        assert_eq!(whole.as_ptr(), before, "joined without a copy");
    }

    #[tokio::test]
    async fn bytes_beyond_the_end_are_refused() {
        let sink = MemorySink::new(10, Budget::default().bytes(10).await);
        let frames = vec![Bytes::from_static(b"abc")];
        assert!(sink.write(&Batch { offset: 8, frames, mark: None, turn: None }).is_err());
    }
}
