//! [`ShardReader`]: reads a blob while it is being written.
//!
//! It delivers the bytes in order, so that a blob can be served before it is complete. For a range
//! in any order use [`super::ShardBuffer::wait_for`] and [`super::ShardBuffer::read_at`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_core::Stream;
use tokio::io::{AsyncRead, ReadBuf};

use super::error::BufferError;
use super::shared::Shared;
use super::sync::Arc;

/// The most bytes in one item of the stream. A reader that is far behind can pass on its first MiB
/// before it gets the rest.
const PIECE_BYTES_MAX: u64 = 1 << 20;

/// Follows the writers of a [`super::ShardBuffer`] in order, from a position to the blob's end. It
/// is a stream of slices of the same memory, or an [`AsyncRead`], which copies.
///
/// [`super::ShardBuffer::set_total`] or `freeze` sets the end. Until then, a reader that has caught
/// up waits. If filling fails, or if the buffer and its writers are dropped before the blob is
/// complete, the stream returns that error and then ends; an [`AsyncRead`] returns it on every
/// later call. The error comes at once, before the bytes that are left: they may belong to a blob
/// that turned out to be damaged.
#[derive(Debug)]
pub struct ShardReader {
    shared: Arc<Shared>,
    position: u64,
    id: Option<u64>,
    failure: Option<BufferError>,
    // The part of the last piece that `AsyncRead` has not copied yet.
    piece: Bytes,
}

impl ShardReader {
    pub(super) fn new(shared: Arc<Shared>, position: u64) -> Self {
        Self { shared, position, id: None, failure: None, piece: Bytes::new() }
    }

    /// The position of the next byte.
    pub fn position(&self) -> u64 {
        self.position - self.piece.len() as u64
    }

    /// The next run of bytes; `None` at the end.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BufferError>>> {
        if let Some(failure) = &self.failure {
            return Poll::Ready(Some(Err(failure.clone())));
        }
        let (position, id) = (self.position, &mut self.id);
        let mut waker = Some(cx.waker().clone());
        let mut forgotten = None;
        let found = self.shared.look(|state| {
            let total = state.total();
            if total.is_some_and(|total| position >= total) && state.failure().is_none() {
                forgotten = state.forget(id);
                return Poll::Ready(Ok(None));
            }
            // The range is never empty: at the very last position it makes the reader wait for the
            // end.
            let next = position.min(u64::MAX - 1)..position.saturating_add(1);
            match state.wait(id, &next, &mut waker) {
                None => Poll::Pending,
                Some(Err(error)) => Poll::Ready(Err(error)),
                Some(Ok(())) => {
                    let max = position.saturating_add(PIECE_BYTES_MAX);
                    Poll::Ready(Ok(Some(state.written_until(position, max))))
                }
            }
        });
        drop((waker, forgotten));
        let piece = match ready!(found) {
            Ok(None) => return Poll::Ready(None),
            Ok(Some(until)) => self.shared.slice(position..until),
            Err(error) => Err(error),
        };
        Poll::Ready(Some(match piece {
            Ok(slice) => {
                let bytes = slice.into_bytes();
                self.position += bytes.len() as u64;
                Ok(bytes)
            }
            Err(error) => {
                self.failure = Some(error.clone());
                Err(error)
            }
        }))
    }
}

impl Stream for ShardReader {
    type Item = Result<Bytes, BufferError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.piece.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.piece))));
        }
        if self.failure.is_some() {
            return Poll::Ready(None);
        }
        self.poll_piece(cx)
    }
}

impl AsyncRead for ShardReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        target: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if target.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if self.piece.is_empty() {
            match ready!(self.poll_piece(cx)).transpose()? {
                Some(piece) => self.piece = piece,
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = self.piece.len().min(target.remaining());
        target.put_slice(&self.piece[..count]);
        self.piece.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl Drop for ShardReader {
    fn drop(&mut self) {
        if self.id.is_some() {
            drop(self.shared.look(|state| state.forget(&mut self.id)));
        }
    }
}
