//! [`BlockingReadChannel`]: a [`ReadChannel`] for code without a runtime.

use std::future::poll_fn;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::Handle;

use super::{ReadChannel, ReadState, ReadTotals, Verification};
use crate::blocking::Waiting;
use crate::error::{Operation, Result};

/// A [`ReadChannel`] with the traits of [`std::io`]: `Read`, `BufRead` and `Seek`. It works on any
/// thread that does not run asynchronous tasks (those of `spawn_blocking` are fine).
///
/// ```no_run
/// use std::io::Read;
/// # fn example(client: tidegate::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let blob = client.locate("gs://bucket/weights.bin")?;
/// let mut channel = client.read(&blob).open_blocking()?;
/// let mut magic = [0; 8];
/// channel.read_exact(&mut magic)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Those of [`ReadChannel`], inside [`io::Error`] if the trait requires it. `Unsupported` if a call
/// would block a thread that runs asynchronous tasks.
#[derive(Debug)]
pub struct BlockingReadChannel {
    channel: ReadChannel,
    handle: Option<Handle>,
}

impl BlockingReadChannel {
    /// A channel whose connections the caller's runtime drives. That runtime must run while the
    /// channel is used; a current-thread runtime does so only inside its `block_on`.
    pub fn on(handle: Handle, channel: ReadChannel) -> Self {
        Self { channel, handle: Some(handle) }
    }

    /// The next bytes in order, in the transport's own memory; `None` at the end. See
    /// [`ReadChannel::next`].
    pub fn next_bytes(&mut self) -> Result<Option<Bytes>> {
        self.wait(ReadChannel::poll_piece)?
    }

    /// See [`ReadChannel::capture`].
    pub fn capture(&mut self) -> Result<ReadState> {
        self.channel.capture()
    }

    /// See [`ReadChannel::limit`].
    pub fn limit(&mut self, end: u64) {
        self.channel.limit(end);
    }

    /// See [`ReadChannel::suspend`].
    pub fn suspend(&mut self) {
        self.channel.suspend();
    }

    /// See [`ReadChannel::position`].
    pub fn position(&self) -> Option<u64> {
        self.channel.position()
    }

    /// See [`ReadChannel::len_bytes`].
    pub fn len_bytes(&self) -> Option<u64> {
        self.channel.len_bytes()
    }

    /// See [`ReadChannel::verified`].
    pub fn verified(&self) -> Verification {
        self.channel.verified()
    }

    /// See [`ReadChannel::totals`].
    pub fn totals(&self) -> ReadTotals {
        self.channel.totals()
    }

    /// The channel, for use in a task.
    pub fn into_inner(self) -> ReadChannel {
        self.channel
    }

    /// Polls until there is a result; fails if this thread must not wait.
    fn wait<T>(
        &mut self,
        mut poll: impl FnMut(&mut ReadChannel, &mut Context<'_>) -> Poll<T>,
    ) -> Result<T> {
        let Self { channel, handle } = self;
        let target = channel.location().display();
        let waiting = Waiting::begin(handle.as_ref(), Operation::Read, target)?;
        Ok(waiting.wait(poll_fn(|cx| poll(channel, cx))))
    }
}

impl From<ReadChannel> for BlockingReadChannel {
    fn from(channel: ReadChannel) -> Self {
        Self { channel, handle: None }
    }
}

impl Read for BlockingReadChannel {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let in_hand = self.channel.in_hand();
        if let Some(bytes) = in_hand.get(..buf.len())
            && !self.channel.is_seeking()
        {
            buf.copy_from_slice(bytes);
            self.channel.take_out(buf.len());
            return Ok(buf.len());
        }
        let mut buf = ReadBuf::new(buf);
        self.wait(|channel, cx| pin!(channel).poll_read(cx, &mut buf))??;
        Ok(buf.filled().len())
    }
}

impl BufRead for BlockingReadChannel {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // Held bytes need no waiting.
        if !self.channel.is_seeking() && !self.channel.in_hand().is_empty() {
            return Ok(self.channel.in_hand());
        }
        let more = self.wait(ReadChannel::poll_fill)??;
        Ok(if more { self.channel.in_hand() } else { &[] })
    }

    fn consume(&mut self, amount: usize) {
        self.channel.take_out(amount);
    }
}

impl Seek for BlockingReadChannel {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.channel.start_seek_to(to);
        Ok(self.wait(ReadChannel::poll_sought)??)
    }
}
