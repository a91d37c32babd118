//! [`Board`]: the pending work, its order and the results. The worker threads and the stream share
//! it.
//!
//! Order of urgency:
//!
//! - The whole comes first. It runs on one thread at a time, so a delay there delays the end.
//! - Cutting comes next, while fewer chunks wait than all threads together hash at a time.
//! - Digesting comes last.
//!
//! Cutting pauses while it is far ahead of the caller. The whole pauses while it is far ahead of
//! cutting. So the page cache still holds the bytes that one kind of work has read when another
//! kind needs them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tidegate_core::checksum::Checksummer;
use tidegate_core::chunking::Cutter;
use tidegate_core::digest::Digest;
use tidegate_core::sha256::LANES;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::CutOptions;
use super::room::Room;
use super::stream::CutChunk;
use crate::error::Error;

/// Cutting pauses when it is ahead of the caller by this many chunks for each thread and also by
/// this many bytes. With 8 threads that is 512 chunks and 8 MiB. So there are enough chunks for all
/// threads even if some chunks are much longer than others.
const AHEAD_CHUNKS: usize = 4 * LANES;
const AHEAD_BYTES: u64 = 8 << 20;

/// The whole may be ahead of cutting by this much.
const LEAD_BYTES: u64 = 64 << 20;

/// A chunk that is not yet hashed.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// Its index among the chunks of the file.
    pub(super) index: u64,
    /// Its position in the file.
    pub(super) range: Range<u64>,
}

/// The state of cutting: it reads the file in order and finds the ends of chunks.
#[derive(Debug)]
pub(super) struct Cutting {
    pub(super) cutter: Cutter,
    /// Bytes read so far.
    pub(super) at: u64,
    /// Lengths of chunks that are cut but not yet on the board.
    pub(super) lengths: Vec<u64>,
}

/// The state of the whole: it reads the file in order and hashes all of it.
#[derive(Debug)]
pub(super) struct WholeHashing {
    pub(super) hasher: Checksummer,
    /// Bytes read so far.
    pub(super) at: u64,
}

/// A task for one thread. The thread owns its state until it returns it.
#[derive(Debug)]
pub(super) enum Task {
    Cut(Cutting),
    /// More chunks, in addition to those that the thread already has.
    Digest(Vec<Piece>),
    Whole(WholeHashing),
    /// No new work: the thread continues with its own chunks.
    Advance,
}

/// The result of [`Board::take`].
#[derive(Debug)]
pub(super) enum Taken {
    Chunks(Vec<CutChunk>),
    NotYet,
    /// With the digest of the whole file, if requested.
    End(Option<Digest>),
    Failed(Error),
}

#[derive(Debug)]
pub(super) struct Board {
    state: Mutex<State>,
    /// Notified when there may be work.
    work: Condvar,
    /// Notified when there may be a result.
    news: Notify,
    len: u64,
    threads: usize,
    stopped: CancellationToken,
}

#[derive(Debug)]
struct State {
    /// `None` while a thread has it, and after the end.
    cutting: Option<Cutting>,
    /// Position of cutting when a thread last returned it.
    cut_at: u64,
    is_cut: bool,
    whole: Option<WholeHashing>,
    is_whole_due: bool,
    whole_digest: Option<Digest>,
    /// Chunks that no thread has claimed.
    queue: VecDeque<Piece>,
    /// Chunks that the stream has not taken, in order; `None` if a chunk is not yet hashed.
    done: VecDeque<Option<CutChunk>>,
    /// The index and the offset of the first entry in `done`.
    taken: u64,
    taken_at: u64,
    /// The offset of the next chunk.
    chunk_at: u64,
    failure: Option<Error>,
}

impl Board {
    pub(super) fn new(options: &CutOptions, threads: usize) -> Self {
        let cutter = Cutter::new(&options.chunking);
        let algorithm = options.digest_function.algorithm();
        // Both hash functions are supported, so `new` does not fail.
        let whole = options.whole.then(|| Checksummer::new(algorithm).ok()).flatten();
        let state = State {
            cutting: Some(Cutting { cutter, at: 0, lengths: Vec::new() }),
            cut_at: 0,
            is_cut: false,
            is_whole_due: options.whole,
            whole: whole.map(|hasher| WholeHashing { hasher, at: 0 }),
            whole_digest: None,
            queue: VecDeque::new(),
            done: VecDeque::new(),
            taken: 0,
            taken_at: 0,
            chunk_at: 0,
            failure: None,
        };
        Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            news: Notify::new(),
            len: options.len,
            threads,
            stopped: options.cancel.child_token(),
        }
    }

    /// Length of the file in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the most urgent task for a thread that can take `free` more chunks. If there is none
    /// and the thread `has_chunks`, returns [`Task::Advance`]. Otherwise drops the thread's buffers
    /// and waits. Returns `None` when no more work will come.
    pub(super) fn claim(
        &self,
        room: &mut Option<Room>,
        free: usize,
        has_chunks: bool,
    ) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if self.stopped.is_cancelled() {
                return None;
            }
            if let Some(task) = self.pick(&mut state, free) {
                return Some(task);
            }
            if has_chunks {
                return Some(Task::Advance);
            }
            if state.is_over() {
                return None;
            }
            *room = None;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn pick(&self, state: &mut State, free: usize) -> Option<Task> {
        // A single thread hashes what cutting has just read, which is still in its cache.
        let lead = if self.threads > 1 { LEAD_BYTES } else { 0 };
        let (is_cut, whole_end) = (state.is_cut, state.cut_at + lead);
        if let Some(whole) = state.whole.take_if(|whole| is_cut || whole.at < whole_end) {
            return Some(Task::Whole(whole));
        }
        if self.has_room(state)
            && state.queue.len() < self.threads * LANES
            && let Some(cutting) = state.cutting.take()
        {
            return Some(Task::Cut(cutting));
        }
        // Near the end this spreads the remaining chunks evenly over the threads.
        let count = state.queue.len().div_ceil(self.threads).min(free);
        (count > 0).then(|| Task::Digest(state.queue.drain(..count).collect()))
    }

    fn has_room(&self, state: &State) -> bool {
        state.done.len() < self.threads * AHEAD_CHUNKS
            || state.cut_at - state.taken_at < AHEAD_BYTES
    }

    /// Returns cutting to the board after one step.
    pub(super) fn put_cutting(&self, mut cutting: Cutting, is_cut: bool) {
        let mut state = self.lock();
        for len in cutting.lengths.drain(..) {
            let index = state.taken + state.done.len() as u64;
            let range = state.chunk_at..state.chunk_at + len;
            state.chunk_at = range.end;
            state.queue.push_back(Piece { index, range });
            state.done.push_back(None);
        }
        state.cut_at = cutting.at;
        state.is_cut = is_cut;
        state.cutting = Some(cutting).filter(|_| !is_cut);
        drop(state);
        self.work.notify_all();
        if is_cut {
            // An empty file has no chunks, so only this notifies the stream.
            self.news.notify_one();
        }
    }

    /// Returns the whole to the board after one step.
    pub(super) fn put_whole(&self, whole: WholeHashing) {
        self.lock().whole = Some(whole);
        self.work.notify_one();
    }

    /// Records the digest of the whole file.
    pub(super) fn whole_done(&self, digest: Digest) {
        self.lock().whole_digest = Some(digest);
        self.work.notify_all();
        self.news.notify_one();
    }

    /// Records hashed chunks.
    pub(super) fn digested(&self, chunks: impl IntoIterator<Item = (u64, CutChunk)>) {
        let mut state = self.lock();
        for (index, chunk) in chunks {
            let place = usize::try_from(index - state.taken).ok();
            if let Some(done) = place.and_then(|place| state.done.get_mut(place)) {
                *done = Some(chunk);
            }
        }
        let has_news = state.done.front().is_some_and(Option::is_some);
        drop(state);
        if has_news {
            self.news.notify_one();
        }
    }

    /// Stops all work. The first error is kept.
    pub(super) fn fail(&self, error: Error) {
        self.lock().failure.get_or_insert(error);
        self.stop();
    }

    /// Stops all work.
    pub(super) fn stop(&self) {
        self.stopped.cancel();
        // A thread checks the token under this lock before it waits. After the lock is free, each
        // thread has seen the token or is waiting.
        drop(self.lock());
        self.work.notify_all();
        self.news.notify_one();
    }

    /// Cancelled when all work has to stop.
    pub(super) fn stopped(&self) -> &CancellationToken {
        &self.stopped
    }

    /// Returns the results that are ready.
    pub(super) fn take(&self) -> Taken {
        let mut state = self.lock();
        if let Some(error) = state.failure.take() {
            return Taken::Failed(error);
        }
        let had_room = self.has_room(&state);
        let ready = state.done.iter().take_while(|done| done.is_some()).count();
        if ready > 0 {
            let chunks: Vec<CutChunk> = state.done.drain(..ready).flatten().collect();
            state.taken += ready as u64;
            state.taken_at += chunks.iter().map(|chunk| chunk.digest.len).sum::<u64>();
            if !had_room && self.has_room(&state) {
                self.work.notify_all();
            }
            return Taken::Chunks(chunks);
        }
        let is_whole = !state.is_whole_due || state.whole_digest.is_some();
        if state.is_cut && state.done.is_empty() && is_whole {
            return Taken::End(state.whole_digest);
        }
        Taken::NotYet
    }

    /// Waits until there may be a result.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether no more work will come, except what other threads have claimed.
    fn is_over(&self) -> bool {
        self.is_cut && self.queue.is_empty() && self.whole.is_none()
    }
}
