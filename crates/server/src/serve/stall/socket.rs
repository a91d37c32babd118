//! [`WatchedSocket`]: a client that does not read its socket loses its connection.
//!
//! It lies below TLS and HTTP, so it holds for HTTP/1.1, for HTTP/2 and for a handshake, also when all
//! requests have ended and only their bytes are left.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::timer::{PROGRESS_BYTES_MIN, StallTimer};

/// A socket whose writes fail with `TimedOut` when the client has stalled.
#[derive(Debug)]
pub(in crate::serve) struct WatchedSocket {
    socket: TcpStream,
    writes: StallTimer,
}

impl WatchedSocket {
    pub(in crate::serve) const fn new(socket: TcpStream, stall_time_max: Duration) -> Self {
        Self { socket, writes: StallTimer::new(stall_time_max) }
    }

    fn watched(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<Result<usize>>,
    ) -> Poll<Result<usize>> {
        match polled {
            Poll::Ready(Ok(bytes)) => {
                self.writes.moved(bytes as u64);
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.writes.poll_stalled(cx).map(|()| {
                let seconds = self.writes.time_max().as_secs();
                let message = format!(
                    "the client read less than {PROGRESS_BYTES_MIN} bytes of its socket in {seconds} seconds"
                );
                Err(Error::new(ErrorKind::TimedOut, message))
            }),
        }
    }
}

impl AsyncRead for WatchedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl AsyncWrite for WatchedSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.watched(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write_vectored(cx, pieces);
        self.watched(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
