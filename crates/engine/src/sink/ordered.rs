//! An ordered stream: standard output, a pipe, or any writer that takes bytes from first to last.
//!
//! Frames arrive in any order and wait in a map until their turn. A thread of the sink writes them,
//! so a slow reader never blocks the runtime. Shards reserve their bytes in order, before they
//! start, and this bounds the waiting bytes. [`super`] explains why that cannot deadlock.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use super::Batch;
use super::hashers::{Hashers, Sums};
use crate::budget::{Budget, BytesPermit};
use crate::error::{Error, ErrorKind, Operation, Result};

/// The thread takes at most this many ready frames at once.
const FRAMES_MAX: usize = 64;

/// Bytes that a shard's writer holds itself: a batch, and one read that is about to join it.
const GATHERED_BYTES: u64 = 768 << 10;

#[derive(Debug)]
pub(crate) struct OrderedSink {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<Sums>>,
    name: String,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    ready: Condvar,
    failed: Notify,
    drained: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<u64, Bytes>,
    next: u64,
    // End of the last reservation, and the permits for the bytes between `next` and it.
    reserved_end: u64,
    permit: Option<BytesPermit>,
    closed: bool,
    failure: Option<std::io::ErrorKind>,
    failure_text: String,
}

impl OrderedSink {
    /// A sink that delivers from offset `start` on to `writer`, called `name` in errors. `hashers`
    /// see every byte in order. `permit` is the budget's grant for the bytes up to `reserved_end`.
    pub(crate) fn new(
        start: u64,
        permit: impl Into<Option<BytesPermit>>,
        reserved_end: u64,
        writer: Box<dyn Write + Send>,
        hashers: Hashers,
        name: impl Into<String>,
    ) -> Result<Self> {
        let state = State { next: start, reserved_end, permit: permit.into(), ..State::default() };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            ready: Condvar::new(),
            failed: Notify::new(),
            drained: Notify::new(),
        });
        let (theirs, name) = (Arc::clone(&shared), name.into());
        let thread = std::thread::Builder::new()
            .name("tidegate-ordered".to_owned())
            .spawn(move || deliver(&theirs, writer, hashers))
            .map_err(|error| Error::no_thread(Operation::Write, &*name, error))?;
        Ok(Self { shared, thread: Some(thread), name })
    }

    /// Reserves `len` more bytes, from the end of the last reservation. Waits until the reserved
    /// bytes that are not yet delivered stay within `held_bytes_max`, then for the budget. Shards
    /// that have arrived and wait for a slower one count, so one slow shard does not collect the
    /// whole budget behind it. Only one caller may call this, in order.
    pub(crate) async fn reserve(&self, budget: &Budget, len: u64, held_bytes_max: u64) {
        self.reserve_streamed(budget, len, len, held_bytes_max).await;
    }

    /// The same for bytes that arrive as a stream. At most `ahead_bytes` of them may wait here.
    pub(crate) async fn reserve_streamed(
        &self,
        budget: &Budget,
        len: u64,
        ahead_bytes: u64,
        held_bytes_max: u64,
    ) {
        loop {
            let drained = self.shared.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            if self.shared.lock().has_room(len, held_bytes_max) {
                break;
            }
            drained.await;
        }
        let granted = budget.bytes(ahead_bytes.min(len)).await;
        let mut state = self.shared.lock();
        state.reserved_end = state.reserved_end.saturating_add(len);
        match state.permit.as_mut() {
            Some(permit) => permit.merge(granted),
            None => state.permit = Some(granted),
        }
    }

    /// Queues a batch when it lies within the reserved bytes. Cancel-safe: the batch is either
    /// queued or not.
    pub(crate) async fn write(&self, batch: Batch) -> Result<()> {
        let mut batch = batch;
        loop {
            let drained = self.shared.drained.notified();
            tokio::pin!(drained);
            // Registered before the check, so that no drain in between is missed.
            drained.as_mut().enable();
            match self.queue(batch)? {
                None => return Ok(()),
                Some(refused) => batch = refused,
            }
            drained.await;
        }
    }

    /// Queues a batch, or returns it if it lies too far ahead.
    fn queue(&self, batch: Batch) -> Result<Option<Batch>> {
        let mut state = self.shared.lock();
        if let Some(kind) = state.failure {
            return Err(self.failure(kind, &state.failure_text));
        }
        if !state.is_within_reach(batch.offset, batch.offset + batch.len()) {
            return Ok(Some(batch));
        }
        let mut offset = batch.offset;
        for frame in batch.frames {
            let len = frame.len() as u64;
            state.waiting.insert(offset, frame);
            offset += len;
        }
        drop(state);
        self.shared.ready.notify_one();
        Ok(None)
    }

    pub(crate) fn abort(&self) {
        self.shared.fail(&std::io::Error::from(std::io::ErrorKind::Interrupted));
    }

    fn failure(&self, kind: std::io::ErrorKind, text: &str) -> Error {
        let message = match kind {
            std::io::ErrorKind::BrokenPipe => "the reader of the output has closed it",
            std::io::ErrorKind::StorageFull => "no space is left",
            std::io::ErrorKind::FileTooLarge => {
                "the file may not be this large (see ulimit -f, and the limits of the file system)"
            }
            std::io::ErrorKind::Interrupted => "the download was ended",
            _ => "the output cannot be written",
        };
        Error::new(ErrorKind::Storage, Operation::Write, self.name.clone(), message)
            .caused_by(std::io::Error::new(kind, text.to_owned()))
    }

    /// Waits until the sink has failed, and returns the error that every later write also returns.
    pub(crate) async fn failed(&self) -> Error {
        loop {
            let notified = self.shared.failed.notified();
            tokio::pin!(notified);
            // Registered before the check, so that no failure in between is missed.
            notified.as_mut().enable();
            {
                let state = self.shared.lock();
                if let Some(kind) = state.failure {
                    return self.failure(kind, &state.failure_text);
                }
            }
            notified.await;
        }
    }

    /// Waits until all bytes are written and flushed, and returns the checksums of the hashers.
    pub(crate) async fn finish(mut self) -> Result<Sums> {
        self.close();
        let thread = self.thread.take();
        // The thread ends when its queue is empty. The join may block for as long as the reader of
        // the output does not read.
        let sums = tokio::task::spawn_blocking(move || {
            thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
        })
        .await
        .unwrap_or_default();
        let state = self.shared.lock();
        match state.failure {
            Some(kind) => Err(self.failure(kind, &state.failure_text)),
            None => Ok(sums),
        }
    }

    fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.ready.notify_one();
    }
}

impl Drop for OrderedSink {
    /// Signals the thread to end. The thread is not joined: it may be blocked in a write to a pipe
    /// that no process reads. It holds only the frames that it writes.
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.shared.lock().waiting.clear();
            self.close();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the frames that are next in order; empty when the sink is closed.
    fn take_ready(&self, frames: &mut Vec<Bytes>) {
        let mut state = self.lock();
        loop {
            let mut next = state.next;
            while frames.len() < FRAMES_MAX
                && let Some(frame) = state.waiting.remove(&next)
            {
                next += frame.len() as u64;
                frames.push(frame);
            }
            if !frames.is_empty() || state.closed {
                return;
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn written(&self, len: u64) {
        let mut state = self.lock();
        state.next += len;
        let held = state.reserved_end.saturating_sub(state.next);
        if let Some(permit) = state.permit.as_mut() {
            permit.shrink(held);
        }
        drop(state);
        self.drained.notify_waiters();
    }

    fn fail(&self, error: &std::io::Error) {
        let mut state = self.lock();
        if state.failure.is_none() {
            state.failure = Some(error.kind());
            state.failure_text = error.to_string();
        }
        state.waiting.clear();
        drop(state);
        self.failed.notify_waiters();
        self.drained.notify_waiters();
    }
}

impl State {
    /// Whether `len` more bytes may be reserved. Always true if nothing is held, or if the sink has
    /// failed.
    fn has_room(&self, len: u64, held_bytes_max: u64) -> bool {
        let held = self.reserved_end.saturating_sub(self.next);
        self.failure.is_some() || held == 0 || held.saturating_add(len) <= held_bytes_max
    }

    /// Whether bytes up to `end` may wait here. The bytes at the head always may. Other bytes may
    /// lie ahead of the head by as much as was granted.
    fn is_within_reach(&self, offset: u64, end: u64) -> bool {
        let granted = self.permit.as_ref().map_or(0, BytesPermit::bytes);
        // If less was granted than reserved, the bytes that a writer gathers meanwhile count, too.
        let covered = self.reserved_end.saturating_sub(self.next) <= granted;
        let room = if covered { granted } else { granted.saturating_sub(GATHERED_BYTES) };
        offset <= self.next || end <= self.next.saturating_add(room)
    }
}

fn deliver(shared: &Shared, mut writer: Box<dyn Write + Send>, mut hashers: Hashers) -> Sums {
    let mut frames = Vec::new();
    loop {
        shared.take_ready(&mut frames);
        if frames.is_empty() {
            break;
        }
        for frame in frames.drain(..) {
            hashers.update(&frame);
            if let Err(error) = writer.write_all(&frame) {
                shared.fail(&error);
                return Sums::default();
            }
            shared.written(frame.len() as u64);
        }
    }
    if let Err(error) = writer.flush() {
        shared.fail(&error);
    }
    hashers.finish()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::budget::BudgetOptions;

    #[derive(Clone, Default)]
    struct Collect(Arc<Mutex<Vec<u8>>>);

    impl Write for Collect {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn batch(offset: u64, text: &'static str) -> Batch {
        Batch { offset, frames: vec![Bytes::from_static(text.as_bytes())], mark: None, turn: None }
    }

    #[tokio::test]
    async fn what_arrives_out_of_order_leaves_in_order() {
        let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 << 20 });
        let collect = Collect::default();
        let permit = budget.bytes(6).await;
        let sink =
            OrderedSink::new(0, permit, 6, Box::new(collect.clone()), Hashers::default(), "t")
                .unwrap();
        sink.reserve(&budget, 3, u64::MAX).await;
        sink.write(batch(6, "ghi")).await.unwrap();
        sink.write(batch(3, "def")).await.unwrap();
        sink.write(batch(0, "abc")).await.unwrap();
        sink.finish().await.unwrap();
        assert_eq!(*collect.0.lock().unwrap(), b"abcdefghi");
        assert_eq!(budget.held_bytes(), 0, "delivered bytes go back to the budget");
    }

    #[tokio::test]
    async fn a_closed_reader_is_an_error_and_is_reported() {
        let permit = Budget::default().bytes(6).await;
        let sink =
            OrderedSink::new(0, permit, 6, Box::new(Broken), Hashers::default(), "test").unwrap();
        sink.write(batch(0, "abc")).await.unwrap();
        assert_eq!(sink.failed().await.kind(), ErrorKind::Storage);
        let error = sink.write(batch(3, "d")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert!(sink.finish().await.is_err());
    }

    #[tokio::test]
    async fn what_lies_too_far_ahead_waits_until_it_does_not() {
        let budget = Budget::default();
        let permit = budget.bytes(GATHERED_BYTES + 4096).await;
        let collect = Collect::default();
        let sink = OrderedSink::new(
            0,
            permit,
            u64::MAX,
            Box::new(collect.clone()),
            Hashers::default(),
            "t",
        )
        .unwrap();
        let mut ahead = Box::pin(sink.write(batch(4096, "x")));
        assert!(futures_util::poll!(&mut ahead).is_pending());
        let frames = vec![Bytes::from(vec![b'a'; 4096])];
        sink.write(Batch { offset: 0, frames, mark: None, turn: None }).await.unwrap();
        ahead.await.unwrap();
        sink.finish().await.unwrap();
        assert_eq!(collect.0.lock().unwrap().len(), 4097);
    }

    #[tokio::test]
    async fn a_slow_head_keeps_others_from_gathering_behind_it() {
        let budget = Budget::default();
        let permit = budget.bytes(4096).await;
        let sink =
            OrderedSink::new(0, permit, 4096, Box::new(io::sink()), Hashers::default(), "test")
                .unwrap();
        sink.reserve(&budget, 4096, 8192).await;
        let mut third = Box::pin(sink.reserve(&budget, 4096, 8192));
        let behind = vec![Bytes::from(vec![b'b'; 4096])];
        let behind = Batch { offset: 4096, frames: behind, mark: None, turn: None };
        sink.write(behind).await.unwrap();
        assert!(futures_util::poll!(&mut third).is_pending(), "the head has not arrived");
        assert_eq!(budget.held_bytes(), 8192);
        let head = vec![Bytes::from(vec![b'a'; 4096])];
        sink.write(Batch { offset: 0, frames: head, mark: None, turn: None }).await.unwrap();
        third.await;
        assert!(budget.held_bytes_peak() <= 12_288);
    }

    #[tokio::test]
    async fn an_abort_ends_a_wait() {
        let permit = Budget::default().bytes(1).await;
        let sink =
            OrderedSink::new(0, permit, 1, Box::new(io::sink()), Hashers::default(), "t").unwrap();
        let waiting = sink.write(batch(100_000, "x"));
        let (outcome, ()) = tokio::join!(waiting, async { sink.abort() });
        assert!(outcome.is_err());
    }
}
