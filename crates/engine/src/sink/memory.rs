//! A blob in memory, filled in place by many shards through a [`ShardBuffer`].
//!
//! Readers that follow the buffer learn the blob's end only when the blob is verified. If the
//! download fails or is dropped, they get an error instead.

use std::sync::Arc;

use bytes::Bytes;

use super::Batch;
use crate::buffer::{BufferError, ShardBuffer};
use crate::error::{Error, Operation, Result};

#[derive(Debug)]
pub(crate) struct MemorySink {
    buffer: Arc<ShardBuffer>,
    /// The grant for the blob also covers the bytes that the shards hold.
    pub(crate) covers_shards: bool,
    finished: bool,
}

impl MemorySink {
    /// Fills `buffer`, which has no other writers.
    pub(crate) fn new(buffer: Arc<ShardBuffer>, covers_shards: bool) -> Self {
        Self { buffer, covers_shards, finished: false }
    }

    pub(crate) fn write(&self, batch: &Batch) -> Result<()> {
        let mut offset = batch.offset;
        for frame in &batch.frames {
            self.buffer.write_at(offset, frame)?;
            offset += frame.len() as u64;
        }
        Ok(())
    }

    /// The buffer that is filled.
    pub(crate) fn buffer(&self) -> &Arc<ShardBuffer> {
        &self.buffer
    }

    /// The blob is complete and verified: readers learn its end.
    pub(crate) fn finish(mut self, len: u64) -> Result<Bytes> {
        let bytes = self.buffer.freeze(len)?;
        self.finished = true;
        Ok(bytes)
    }

    /// The budget no longer accounts for the bytes: they belong to the caller.
    pub(crate) fn detach(&self) {
        self.buffer.detach();
    }

    /// The download has failed with `error`, so the buffer fails, too.
    pub(crate) fn fail(mut self, error: &Error) {
        self.finished = true;
        let (kind, operation) = (error.kind(), Operation::Download);
        self.buffer.fail(Error::new(kind, operation, error.target(), error.chain()));
    }
}

impl Drop for MemorySink {
    fn drop(&mut self) {
        if !self.finished {
            self.buffer.fail(BufferError::Abandoned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::ShardBufferOptions;
    use crate::error::ErrorKind;

    fn sink() -> (Arc<ShardBuffer>, MemorySink) {
        let buffer = Arc::new(ShardBuffer::new(ShardBufferOptions::default()).unwrap());
        (Arc::clone(&buffer), MemorySink::new(buffer, true))
    }

    fn batch(offset: u64, bytes: &[u8]) -> Batch {
        let frames = vec![Bytes::copy_from_slice(bytes)];
        Batch { offset, frames, mark: None, turn: None }
    }

    #[test]
    fn pieces_in_any_order_make_the_blob() {
        let (buffer, sink) = sink();
        sink.write(&batch(3, b"defg")).unwrap();
        sink.write(&batch(0, b"abc")).unwrap();
        assert_eq!(buffer.total(), None, "its end is not reported before it is verified");
        assert_eq!(sink.finish(7).unwrap(), "abcdefg");
        assert_eq!(buffer.total(), Some(7));
    }

    #[test]
    fn a_download_that_is_dropped_fails_those_who_follow() {
        let (buffer, sink) = sink();
        drop(sink);
        assert!(matches!(buffer.shard(0..1), Err(BufferError::Failed { .. })));
    }

    #[test]
    fn a_download_that_fails_says_why() {
        let (buffer, sink) = sink();
        sink.fail(&Error::new(ErrorKind::Changed, Operation::Read, "gs://b/o", "it is another"));
        let error = Error::from(buffer.shard(0..1).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Changed);
        assert!(error.chain().contains("it is another"), "{}", error.chain());
    }
}
