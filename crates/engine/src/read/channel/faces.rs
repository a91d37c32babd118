//! The channel as tokio's traits and as a stream. Reads copy once, from the transport's memory into
//! the caller's; the stream copies nothing.

use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncSeek, ReadBuf};

use super::ReadChannel;
use crate::error::Result;

/// Frames in the transport's own memory, as [`ReadChannel::next`] returns them. The stream may
/// continue after an error, as `next` does.
impl Stream for ReadChannel {
    type Item = Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_piece(cx).map(Result::transpose)
    }
}

/// Fills the caller's buffer with the bytes that have arrived, and waits only for the first. Errors
/// are those of [`ReadChannel::next`], inside [`io::Error`].
impl AsyncRead for ReadChannel {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let span = this.span();
        let _entered = span.enter();
        let before = buf.filled().len();
        while buf.remaining() > 0 {
            let empty = buf.filled().len() == before;
            match this.poll_held(cx, Some(buf.remaining())) {
                Poll::Ready(Ok(true)) => this.copy_to(buf),
                Poll::Ready(Err(error)) if empty => return Poll::Ready(Err(error.into())),
                Poll::Ready(Err(error)) => {
                    // The error is returned after the bytes that came before it.
                    this.held.error = Some(error);
                    break;
                }
                Poll::Pending if empty => return Poll::Pending,
                Poll::Pending | Poll::Ready(Ok(false)) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl ReadChannel {
    fn copy_to(&mut self, buf: &mut ReadBuf<'_>) {
        let room = usize::try_from(self.room()).unwrap_or(usize::MAX);
        let rest = self.held.rest();
        let count = rest.len().min(room).min(buf.remaining());
        buf.put_slice(rest.get(..count).unwrap_or_default());
        self.take_out(count);
    }

    /// Counts held bytes as delivered.
    pub(in crate::read) fn take_out(&mut self, count: usize) {
        self.held.consume(count);
        if self.held.rest().is_empty() {
            self.sum_up();
        }
    }

    /// Held bytes that may be delivered.
    pub(in crate::read) fn in_hand(&self) -> &[u8] {
        let room = usize::try_from(self.room()).unwrap_or(usize::MAX);
        let rest = self.held.rest();
        rest.get(..room.min(rest.len())).unwrap_or_default()
    }

    /// Like [`AsyncBufRead::poll_fill_buf`], without the bytes: false at the end.
    pub(in crate::read) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        let span = self.span();
        let _entered = span.enter();
        self.poll_held(cx, Some(0))
    }
}

/// The rest of a frame, or of several small frames that arrived together.
impl AsyncBufRead for ReadChannel {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        let more = ready!(this.poll_fill(cx))?;
        Poll::Ready(Ok(if more { this.in_hand() } else { &[] }))
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        self.get_mut().take_out(amount);
    }
}

/// See [`ReadChannel::seek`].
impl AsyncSeek for ReadChannel {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        let this = self.get_mut();
        if this.is_seeking() {
            return Err(io::Error::other("another seek is under way"));
        }
        this.start_seek_to(position);
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.get_mut().poll_sought(cx).map_err(io::Error::from)
    }
}
