//! [`BlockingReadChannel`]: a [`ReadChannel`] for code without a runtime.
//!
//! One thread for the whole process, `tidegate-blocking`, waits for the connections and timers of
//! all blocking channels; the calling thread polls the channel itself, its connection included, and
//! sleeps until that thread wakes it. Why not a runtime for each channel: connections are pooled
//! with the remote, and belong to the runtime that made them. One that runs only during calls would
//! leave its connections dead in the pool, for other channels to trip over.

use std::future::poll_fn;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::{Builder, Handle};
use tokio::task::coop;

use super::{ReadChannel, ReadOptions, ReadState, ReadTotals, Verification};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::Location;

/// More polls than tokio lets a task make without a break: see [`refuse_inside_tasks`].
const POLLS_OF_A_TASK: usize = 256;

/// A [`ReadChannel`] as [`std::io`] has it: `Read`, `BufRead` and `Seek`, on any thread that is
/// not running asynchronous tasks (those of `spawn_blocking` are fine).
///
/// ```no_run
/// use std::io::Read;
/// use tidegate::read::{BlockingReadChannel, ReadOptions};
/// # fn example(blob: tidegate::remote::Location) -> Result<(), Box<dyn std::error::Error>> {
/// let mut channel = BlockingReadChannel::open(blob, ReadOptions::default());
/// let mut magic = [0; 8];
/// channel.read_exact(&mut magic)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Those of [`ReadChannel`], inside [`io::Error`] where the traits want one; and `Unsupported`
/// where a call would block a thread that runs asynchronous tasks.
#[derive(Debug)]
pub struct BlockingReadChannel {
    channel: ReadChannel,
    handle: Option<Handle>,
}

impl BlockingReadChannel {
    /// See [`ReadChannel::open`].
    pub fn open(location: Location, options: ReadOptions) -> Self {
        ReadChannel::open(location, options).into()
    }

    /// See [`ReadChannel::restore`].
    pub fn restore(location: Location, state: &ReadState, options: ReadOptions) -> Result<Self> {
        ReadChannel::restore(location, state, options).map(Self::from)
    }

    /// A channel whose connections are driven by a runtime of the caller's. That runtime must run
    /// while the channel is used, which a current-thread one does only inside its `block_on`.
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

    /// The channel, to be read by a task.
    pub fn into_inner(self) -> ReadChannel {
        self.channel
    }

    /// Polls until there is an answer; fails where this thread must not wait.
    fn wait<T>(
        &mut self,
        mut poll: impl FnMut(&mut ReadChannel, &mut Context<'_>) -> Poll<T>,
    ) -> Result<T> {
        let target = self.channel.location().display();
        refuse_inside_tasks(target)?;
        let handle = match &self.handle {
            Some(handle) => handle,
            None => driver().map_err(|message| {
                Error::new(ErrorKind::Unsupported, Operation::Read, target, message)
            })?,
        };
        let _entered = handle.enter();
        let channel = &mut self.channel;
        Ok(parked(poll_fn(|cx| poll(channel, cx))))
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
        // What is in hand needs no waiting.
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

/// The runtime of all blocking channels. It lives as long as the process: its connections are
/// pooled.
fn driver() -> std::result::Result<&'static Handle, String> {
    static DRIVER: OnceLock<std::result::Result<Handle, String>> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| {
        let failed = |error: io::Error| format!("no thread for connections: {error}");
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new()
            .name("tidegate-blocking".to_owned())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))
            .map_err(failed)?;
        Ok(handle)
    });
    driver.as_ref().map_err(Clone::clone)
}

/// Fails on a thread that is running a task, where waiting would keep all its other tasks from
/// running.
///
/// Threads of `spawn_blocking` may wait, but have a runtime just the same; tokio tells them apart
/// only by a panic. What a task does have, and they do not, is a budget of polls between breaks:
/// whoever can use up any number has none.
fn refuse_inside_tasks(target: &str) -> Result<()> {
    if Handle::try_current().is_err() {
        return Ok(());
    }
    let mut cx = Context::from_waker(Waker::noop());
    let mut polls = Vec::with_capacity(POLLS_OF_A_TASK);
    while polls.len() < POLLS_OF_A_TASK {
        match coop::poll_proceed(&mut cx) {
            Poll::Ready(poll) => polls.push(poll),
            Poll::Pending => break,
        }
    }
    let has_budget = polls.len() < POLLS_OF_A_TASK;
    // Each gives back what was left before it, so the first must be the last.
    while polls.pop().is_some() {}
    if has_budget {
        let message = "a blocking read inside an asynchronous task";
        return Err(Error::new(ErrorKind::Unsupported, Operation::Read, target, message)
            .with_hint("use ReadChannel there, or read in spawn_blocking"));
    }
    Ok(())
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls `future` on this thread, which sleeps in between. Unlike a runtime's `block_on` it never
/// panics, wherever it is called.
fn parked<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
