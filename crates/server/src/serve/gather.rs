//! [`GatheredSocket`]: a socket that sends what its connection writes in one turn together.
//!
//! HTTP/2 writes each frame alone: a short response is two or three writes, and a blob is a write for
//! every 16 KiB, the longest frame that most clients take. Each write would be a segment, a pass
//! through the kernel's TCP, and a wake-up of the client. Here short writes wait in a buffer, and
//! long ones go to the kernel with the word that more follows (`MSG_MORE`). When the connection has
//! nothing left to write, [`Turns::poll`] sends what waits.
//!
//! Memory outside of the budget: [`GATHERED_BYTES_MAX`] for each connection that has written.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::stall::{PROGRESS_BYTES_MIN, StallTimer};

/// Bytes that wait in the buffer.
const GATHERED_BYTES_MAX: usize = 32 << 10;
/// Slices that one write hands over, with what waited.
const SLICES_MAX: usize = 8;

/// A write that the caller expects more writes after.
#[cfg(target_os = "linux")]
const MORE: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::MORE);
#[cfg(not(target_os = "linux"))]
const MORE: SendFlags = SendFlags::empty();
#[cfg(target_os = "linux")]
const LAST: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const LAST: SendFlags = SendFlags::empty();

/// The socket of a connection. Until its turns begin, a flush sends what waits, as usual.
#[derive(Debug)]
pub(super) struct GatheredSocket {
    reading: OwnedReadHalf,
    writing: Arc<Mutex<Writing>>,
}

/// The turns of the connection that has the socket.
#[derive(Debug)]
pub(super) struct Turns(Arc<Mutex<Writing>>);

#[derive(Debug)]
struct Writing {
    socket: OwnedWriteHalf,
    /// Bytes that wait.
    gathered: Vec<u8>,
    /// The kernel may hold back a segment that is not full.
    is_held: bool,
    /// The end of a turn sends; a flush does not.
    has_turns: bool,
    /// The time that the client does not read.
    timer: StallTimer,
}

/// A socket that gathers, and its turns. A write fails with `TimedOut` when the client reads too little
/// of it in `stall_time_max`: with HTTP/1.1, with HTTP/2, in a handshake, and when all requests have
/// ended and only their bytes are left.
pub(super) fn gather(socket: TcpStream, stall_time_max: Duration) -> (GatheredSocket, Turns) {
    let (reading, socket) = socket.into_split();
    let writing = Writing {
        socket,
        gathered: Vec::new(),
        is_held: false,
        has_turns: false,
        timer: StallTimer::new(stall_time_max),
    };
    let writing = Arc::new(Mutex::new(writing));
    (GatheredSocket { reading, writing: Arc::clone(&writing) }, Turns(writing))
}

/// Nothing panics with the lock, so a poisoned lock guards a sound value.
fn lock(writing: &Mutex<Writing>) -> MutexGuard<'_, Writing> {
    writing.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turns {
    /// Polls the connection, and then sends what it wrote. From now on, a flush sends nothing. Fails if
    /// that cannot be sent.
    pub(super) fn poll<C: Future>(
        &self,
        connection: Pin<&mut C>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<C::Output>> {
        lock(&self.0).has_turns = true;
        if let Poll::Ready(ended) = connection.poll(cx) {
            return Poll::Ready(Ok(ended));
        }
        match lock(&self.0).poll_send(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }
}

impl Writing {
    /// Writes `slices` behind what waits, or lets them wait.
    fn poll_write(
        &mut self,
        slices: &[IoSlice<'_>],
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let len = slices.iter().map(|slice| slice.len()).sum::<usize>();
        if self.gathered.len() + len <= GATHERED_BYTES_MAX {
            for slice in slices {
                self.gathered.extend_from_slice(slice);
            }
            return Poll::Ready(Ok(len));
        }
        loop {
            let waiting = self.gathered.len();
            let sent = ready!(self.poll_sendmsg(slices, MORE, cx))?;
            self.is_held = true;
            if sent > waiting {
                self.gathered.clear();
                return Poll::Ready(Ok(sent - waiting));
            }
            self.gathered.drain(..sent);
        }
    }

    /// Sends what waits, and what the kernel holds back.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.gathered.is_empty() {
            let sent = ready!(self.poll_sendmsg(&[], LAST, cx))?;
            self.gathered.drain(..sent);
            self.is_held = false;
        }
        if self.is_held {
            // Setting it sends the segment that is held back (tcp(7)).
            self.socket.as_ref().set_nodelay(true)?;
            self.is_held = false;
        }
        Poll::Ready(Ok(()))
    }

    /// One write of what waits and of `slices`. At least one of them is not empty.
    fn poll_sendmsg(
        &mut self,
        slices: &[IoSlice<'_>],
        flags: SendFlags,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match self.poll_sendmsg_unwatched(slices, flags, cx) {
            Poll::Ready(sent) => {
                self.timer.moved(sent.as_ref().map_or(0, |sent| *sent as u64));
                Poll::Ready(sent)
            }
            Poll::Pending => self.timer.poll_stalled(cx).map(|()| {
                let seconds = self.timer.time_max().as_secs();
                let message = format!(
                    "the client read less than {PROGRESS_BYTES_MIN} bytes of its socket in {seconds} seconds"
                );
                Err(io::Error::new(io::ErrorKind::TimedOut, message))
            }),
        }
    }

    fn poll_sendmsg_unwatched(
        &self,
        slices: &[IoSlice<'_>],
        flags: SendFlags,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut all = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let gathered = IoSlice::new(&self.gathered);
        for slice in std::iter::once(&gathered).chain(slices).filter(|slice| !slice.is_empty()) {
            let Some(place) = all.get_mut(count) else { break };
            *place = *slice;
            count += 1;
        }
        let socket = self.socket.as_ref();
        loop {
            ready!(socket.poll_write_ready(cx))?;
            let sent = socket.try_io(Interest::WRITABLE, || {
                let mut none = SendAncillaryBuffer::default();
                Ok(sendmsg(socket, &all[..count], &mut none, flags)?)
            });
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                sent => return Poll::Ready(sent),
            }
        }
    }
}

impl AsyncRead for GatheredSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reading).poll_read(cx, buf)
    }
}

impl AsyncWrite for GatheredSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        lock(&self.writing).poll_write(&[IoSlice::new(bytes)], cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        lock(&self.writing).poll_write(slices, cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut writing = lock(&self.writing);
        if writing.has_turns { Poll::Ready(Ok(())) } else { writing.poll_send(cx) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut writing = lock(&self.writing);
        ready!(writing.poll_send(cx))?;
        Pin::new(&mut writing.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tidegate_testkit::SplitMix64;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (near.unwrap(), far.unwrap().0)
    }

    #[tokio::test]
    async fn the_short_writes_of_a_turn_arrive_together() {
        let (near, mut far) = pair().await;
        let (mut socket, turns) = gather(near, HOUR);
        let connection = async move {
            for part in [&b"head"[..], b"body", b"end"] {
                socket.write_all(part).await.unwrap();
                socket.flush().await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        let mut connection = std::pin::pin!(connection);
        let mut arrived = [0; 64];
        tokio::select! {
            _ = poll_fn(|cx| turns.poll(connection.as_mut(), cx)) => unreachable!(),
            read = far.read(&mut arrived) => assert_eq!(&arrived[..read.unwrap()], b"headbodyend"),
        }
    }

    #[tokio::test]
    async fn before_the_turns_a_flush_sends() {
        let (near, mut far) = pair().await;
        let (mut socket, _turns) = gather(near, HOUR);
        socket.write_all(b"hello").await.unwrap();
        socket.flush().await.unwrap();
        let mut arrived = [0; 5];
        far.read_exact(&mut arrived).await.unwrap();
        assert_eq!(&arrived, b"hello");
    }

    /// Writes of all lengths into a socket that blocks, read slowly: the bytes are those written.
    #[tokio::test]
    async fn bytes_arrive_in_order() {
        for seed in 0..8 {
            let (near, mut far) = pair().await;
            let (mut socket, turns) = gather(near, HOUR);
            let mut random = SplitMix64::new(seed);
            let mut sent = Vec::new();
            let bits = (0..400).map(|_| random.below(19)).collect::<Vec<_>>();
            let lens = bits.into_iter().map(|bits| 1 + random.below(1 << bits));
            let parts = lens.map(|len| {
                let first = sent.len() as u64;
                let part = (0..len).map(|at| ((first + at) % 251) as u8).collect::<Vec<_>>();
                sent.extend_from_slice(&part);
                part
            });
            let parts = parts.collect::<Vec<_>>();
            let connection = async move {
                for (index, part) in parts.iter().enumerate() {
                    let (head, tail) = part.split_at(part.len() / 3);
                    let mut left = part.len();
                    let mut slices = &mut [IoSlice::new(head), IoSlice::new(tail)][..];
                    while left > 0 {
                        let written = socket.write_vectored(slices).await.unwrap();
                        left -= written;
                        IoSlice::advance_slices(&mut slices, written);
                    }
                    socket.flush().await.unwrap();
                    if index % 7 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                socket.shutdown().await.unwrap();
            };
            let mut connection = std::pin::pin!(connection);
            let mut arrived = Vec::new();
            let ended = poll_fn(|cx| turns.poll(connection.as_mut(), cx));
            let (ended, read) = tokio::join!(ended, far.read_to_end(&mut arrived));
            ended.unwrap();
            read.unwrap();
            assert!(arrived == sent, "seed {seed}: {} of {} bytes", arrived.len(), sent.len());
        }
    }
}
