//! A stream whose first read after a write is short, so that the first bytes of a response are
//! delivered before the rest is copied.
//!
//! hyper reads into a buffer that grew with earlier responses, and delivers the bytes of one read
//! at once. On a connection that has carried large bodies, the next response's head therefore
//! arrives with up to [`read_bytes_max`](super::TransportOptions::read_bytes_max) of its body, and
//! waits until all of that is copied out of the kernel. Here the first read after a write (a
//! request) takes at most [`FIRST_BYTES_MAX`]. Later reads take as much as the caller asks for, so
//! bulk throughput does not change.
//!
//! The short read also opens the receive window earlier. If the window stays small while a response
//! arrives, a sender with Nagle's algorithm (nginx at the end of a response) may hold the last part
//! back until a delayed acknowledgement, some 40 ms later. On loopback, with its segments of 64
//! KiB, this met up to every process in its third or fourth response, and now meets one in a
//! hundred. `TCP_QUICKACK` for each response was measured and is left off. It changed little more,
//! and it delays the first bytes: this side's processor first does the sender's work.
//!
//! Invariants: bytes and errors are those of the stream below, in its order. A read returns no
//! bytes only if the stream below returned none.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

/// A head and some of the body. It is copied in a few microseconds, and the second copy, from the
/// stack, was not visible in any measurement.
const FIRST_BYTES_MAX: usize = 16 << 10;

/// See the module docs.
#[derive(Debug)]
pub(super) struct Prompt<S> {
    stream: S,
    /// Nothing was read since the last write.
    first: bool,
}

impl<S> Prompt<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, first: false }
    }
}

impl<S: Read + Unpin> Prompt<S> {
    fn stream(&mut self) -> Pin<&mut S> {
        Pin::new(&mut self.stream)
    }

    /// Reads into the stack first, because a cursor cannot be shortened without `unsafe`.
    fn poll_read_first(
        &mut self,
        cx: &mut Context<'_>,
        mut target: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut memory = [MaybeUninit::uninit(); FIRST_BYTES_MAX];
        let mut first = ReadBuf::uninit(&mut memory);
        ready!(self.stream().poll_read(cx, first.unfilled()))?;
        target.put_slice(first.filled());
        Poll::Ready(Ok(()))
    }
}

impl<S: Read + Unpin> Read for Prompt<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        target: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first && target.remaining() > FIRST_BYTES_MAX {
            ready!(self.poll_read_first(cx, target))?;
        } else {
            ready!(self.stream().poll_read(cx, target))?;
        }
        self.first = false;
        Poll::Ready(Ok(()))
    }
}

impl<S: Write + Unpin> Write for Prompt<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        source: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.first = true;
        Pin::new(&mut self.stream).poll_write(cx, source)
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
        self.first = true;
        Pin::new(&mut self.stream).poll_write_vectored(cx, sources)
    }
}

impl<S: Connection> Connection for Prompt<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    type Tokio<S> = TokioIo<Prompt<TokioIo<S>>>;

    /// The stream, and the other end, which has sent all of `answer`.
    async fn answered(answer: &[u8]) -> (Tokio<DuplexStream>, DuplexStream) {
        let (near, mut far) = duplex(1 << 20);
        far.write_all(answer).await.unwrap();
        (TokioIo::new(Prompt::new(TokioIo::new(near))), far)
    }

    fn body(len: usize) -> Vec<u8> {
        (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
    }

    async fn tcp() -> (Tokio<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        (TokioIo::new(Prompt::new(TokioIo::new(near))), far)
    }

    #[tokio::test]
    async fn only_the_first_read_after_a_write_is_short() {
        let sent = body(5 * FIRST_BYTES_MAX);
        let (mut stream, mut far) = answered(&sent).await;
        let mut taken = vec![0; 2 * sent.len()];
        stream.write_all(b"a request").await.unwrap();
        assert_eq!(stream.read(&mut taken).await.unwrap(), FIRST_BYTES_MAX);
        assert_eq!(stream.read(&mut taken[FIRST_BYTES_MAX..]).await.unwrap(), 4 * FIRST_BYTES_MAX);
        assert_eq!(taken[..sent.len()], sent);
        far.write_all(&sent).await.unwrap();
        assert_eq!(stream.read(&mut taken).await.unwrap(), sent.len(), "nothing was written");
        far.write_all(&sent).await.unwrap();
        stream.write_all(b"another").await.unwrap();
        assert_eq!(stream.read(&mut taken).await.unwrap(), FIRST_BYTES_MAX);
    }

    #[tokio::test]
    async fn a_read_that_finds_nothing_is_not_the_first() {
        let (mut stream, mut far) = answered(&[]).await;
        let mut taken = vec![0; 4 * FIRST_BYTES_MAX];
        stream.write_all(b"a request").await.unwrap();
        assert!(stream.read(&mut taken).now_or_never().is_none());
        far.write_all(&body(3 * FIRST_BYTES_MAX)).await.unwrap();
        assert_eq!(stream.read(&mut taken).await.unwrap(), FIRST_BYTES_MAX);
    }

    #[tokio::test]
    async fn reads_of_any_length_give_the_same_bytes() {
        let sent = body(3 * FIRST_BYTES_MAX + 17);
        for len in [1, 1000, FIRST_BYTES_MAX - 1, FIRST_BYTES_MAX, FIRST_BYTES_MAX + 1, 1 << 20] {
            let (mut stream, far) = answered(&sent).await;
            stream.write_all(b"a request").await.unwrap();
            drop(far);
            let (mut taken, mut target) = (Vec::new(), vec![0; len]);
            loop {
                let count = stream.read(&mut target).await.unwrap();
                if count == 0 {
                    break;
                }
                taken.extend_from_slice(&target[..count]);
            }
            assert!(taken == sent, "in reads of {len}");
            assert_eq!(stream.read(&mut target).await.unwrap(), 0, "the end lasts");
        }
    }

    #[tokio::test]
    async fn a_request_in_pieces_goes_out_whole_and_its_answer_begins_short() {
        let (mut stream, mut far) = tcp().await;
        assert!(stream.is_write_vectored());
        let pieces = [IoSlice::new(b"head, "), IoSlice::new(b"body")];
        assert_eq!(stream.write_vectored(&pieces).await.unwrap(), 10, "in one call");
        let mut request = [0; 10];
        far.read_exact(&mut request).await.unwrap();
        assert_eq!(&request, b"head, body");
        let sent = body(2 * FIRST_BYTES_MAX);
        let answering = tokio::spawn(async move {
            far.write_all(&sent).await.unwrap();
            (far, sent)
        });
        let mut taken = vec![0; 1 << 20];
        let first = stream.read(&mut taken).await.unwrap();
        assert!((1..=FIRST_BYTES_MAX).contains(&first), "{first}");
        let (_far, sent) = answering.await.unwrap();
        stream.read_exact(&mut taken[first..sent.len()]).await.unwrap();
        assert_eq!(taken[..sent.len()], sent);
    }

    #[tokio::test]
    async fn an_end_of_either_side_reaches_the_other() {
        let (mut stream, mut far) = tcp().await;
        stream.write_all(b"all").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut request = Vec::new();
        far.read_to_end(&mut request).await.unwrap();
        assert_eq!(request, b"all");
        far.write_all(b"answer").await.unwrap();
        drop(far);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"answer");
    }
}
