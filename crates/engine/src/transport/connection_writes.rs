//! [`ConnectionWrites`]: how many bytes one connection has handed to the kernel, and when it last did.
//!
//! A request's bytes queue in the connection behind those of other requests, which takes time on a
//! slow link. The caller must distinguish this from a server that has stopped reading. The
//! connection's writes make the difference: a slow link still accepts bytes, a stalled one does
//! not.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::Instant;

use crate::store::Outgoing;

/// Shorter writes are not part of a blob. They are control frames: replies to the server,
/// acknowledgements and keep-alive pings, which are sent even while all uploads stall.
const COUNTED_BYTES_MIN: usize = 1 << 10;

/// The writes of one connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionWrites {
    bytes: AtomicU64,
    last: Mutex<Option<Instant>>,
}

impl ConnectionWrites {
    fn wrote(&self, count: usize) {
        if count >= COUNTED_BYTES_MIN {
            self.bytes.fetch_add(count as u64, Ordering::Relaxed);
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }
}

impl Outgoing for ConnectionWrites {
    fn written(&self) -> (u64, Option<Instant>) {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        (self.bytes.load(Ordering::Relaxed), last)
    }
}

/// A stream whose writes are counted.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    written: Arc<ConnectionWrites>,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, written: &Arc<ConnectionWrites>) -> Self {
        Self { stream, written: Arc::clone(written) }
    }

    fn counted(&self, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = wrote {
            self.written.wrote(count);
        }
        wrote
    }
}

impl<S: Read + Unpin> Read for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        target: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, target)
    }
}

impl<S: Write + Unpin> Write for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        source: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, source);
        self.counted(wrote)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        sources: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, sources);
        self.counted(wrote)
    }
}
