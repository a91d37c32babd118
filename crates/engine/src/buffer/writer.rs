//! [`ShardWriter`]: the owner of one range of a buffer.
//!
//! It writes in order, from the start of its range to the end. For writes at any position use
//! [`super::ShardBuffer::write_at`] or a [`super::Cursor`].

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::error::BufferError;
use super::memory::Fill;
use super::shared::Shared;
use super::sync::Arc;

/// Writes one range of a [`super::ShardBuffer`] from its start to its end. Written bytes can be
/// read at once. When the writer is dropped, the unwritten rest of its range becomes free again. A
/// writer that is dropped by a panic fails the buffer.
///
/// Writing takes no lock, allocates nothing, and never waits. It never writes beyond the range:
/// like that of a slice, its [`io::Write`] writes as much as fits and returns 0 when the range is
/// full.
#[derive(Debug)]
pub struct ShardWriter {
    shared: Arc<Shared>,
    // `None` only during drop.
    fill: Option<Fill>,
}

impl ShardWriter {
    pub(super) fn new(shared: Arc<Shared>, range: &Range<u64>) -> Result<Self, BufferError> {
        let fill = shared.reserve(range)?;
        Ok(Self { shared, fill: Some(fill) })
    }

    /// The unwritten rest: from the position of the next byte to the end of the range.
    pub fn rest(&self) -> Range<u64> {
        self.fill.as_ref().map_or(0..0, Fill::rest)
    }

    /// Bytes that still fit.
    pub fn room_bytes(&self) -> u64 {
        let rest = self.rest();
        rest.end - rest.start
    }

    /// Writes as much of `data` as fits, and returns that count.
    #[inline]
    pub fn put(&mut self, data: &[u8]) -> usize {
        let Some(fill) = self.fill.as_mut() else { return 0 };
        let (count, awaited) = fill.write(data);
        if awaited {
            self.shared.passed();
        }
        count
    }
}

impl Drop for ShardWriter {
    /// Releases the unwritten rest. After a panic no other writer will fill it, so the buffer fails
    /// and its readers get the error.
    fn drop(&mut self) {
        let Some(fill) = self.fill.take() else { return };
        let rest = fill.rest();
        if !rest.is_empty() && std::thread::panicking() {
            let error = BufferError::failed(WriterPanicked { rest });
            self.shared.change(|state| state.fail(error));
        }
        self.shared.release(fill);
    }
}

/// The failure of a buffer whose writer was dropped by a panic.
#[derive(Debug, thiserror::Error)]
#[error("its writer panicked before it had written {}..{}", rest.start, rest.end)]
struct WriterPanicked {
    rest: Range<u64>,
}

impl io::Write for ShardWriter {
    #[inline]
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        Ok(self.put(data))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl tokio::io::AsyncWrite for ShardWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(self.put(data)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Lends the memory after the written bytes, so that a socket can read straight into it:
/// `socket.read_buf(&mut writer)`.
// SAFETY: `chunk_mut` lends memory that this writer alone may touch, the same until `advance_mut`
// moves it on, which it does by no more than the range has left.
#[cfg(not(tidegate_loom))]
#[expect(unsafe_code, reason = "the trait is unsafe")]
unsafe impl bytes::BufMut for ShardWriter {
    fn remaining_mut(&self) -> usize {
        usize::try_from(self.room_bytes()).unwrap_or(usize::MAX)
    }

    unsafe fn advance_mut(&mut self, count: usize) {
        let Some(fill) = self.fill.as_mut() else { return };
        // SAFETY: the caller of this function guarantees that these bytes are initialised.
        if unsafe { fill.advance(count) } {
            self.shared.passed();
        }
    }

    fn chunk_mut(&mut self) -> &mut bytes::buf::UninitSlice {
        match self.fill.as_mut() {
            Some(fill) => fill.spare().into(),
            None => bytes::buf::UninitSlice::new(&mut []),
        }
    }
}
