//! [`Board`]: what is to be done, by whom, and what was found; shared by the threads and the stream.
//!
//! What is urgent: the whole first, since nothing can make up for time lost there; then cutting,
//! while fewer chunks wait than all threads together hash at a time; then digesting. Cutting stops
//! while it is far ahead of whoever takes the chunks, and the whole while it is far ahead of
//! cutting, so that what one of them has brought into the page cache is still there for the others.

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

/// Cutting may be ahead of whoever takes the chunks by so many for each thread, enough for some to
/// be far longer than others; and by so many bytes in any case.
const AHEAD_CHUNKS: usize = 4 * LANES;
const AHEAD_BYTES: u64 = 8 << 20;

/// The whole is at most so far ahead of cutting.
const LEAD_BYTES: u64 = 64 << 20;

/// A chunk to be digested.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// Its place in the order of chunks.
    pub(super) index: u64,
    /// Where it is in the file.
    pub(super) range: Range<u64>,
}

/// Reading in order and finding ends of chunks.
#[derive(Debug)]
pub(super) struct Cutting {
    pub(super) cutter: Cutter,
    /// Bytes that were read.
    pub(super) at: u64,
    /// Chunks whose ends are known and that nobody was told of yet.
    pub(super) lengths: Vec<u64>,
}

/// Reading in order and hashing all of it.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) hasher: Checksummer,
    /// Bytes that were read.
    pub(super) at: u64,
}

/// Something to be done, by whoever has it.
#[derive(Debug)]
pub(super) enum Task {
    Cut(Cutting),
    /// More chunks, beside those that the thread has.
    Digest(Vec<Piece>),
    Whole(Whole),
    /// Nothing but what the thread has already.
    Advance,
}

/// What the stream finds.
#[derive(Debug)]
pub(super) enum Taken {
    Chunks(Vec<CutChunk>),
    NotYet,
    /// With the digest of the whole, where that was asked for.
    End(Option<Digest>),
    Failed(Error),
}

#[derive(Debug)]
pub(super) struct Board {
    state: Mutex<State>,
    /// There may be something to do.
    work: Condvar,
    /// There may be something to take.
    news: Notify,
    len: u64,
    threads: usize,
    stopped: CancellationToken,
}

#[derive(Debug)]
struct State {
    /// None while a thread has it, and at the end.
    cutting: Option<Cutting>,
    /// Where it was last.
    cut_at: u64,
    is_cut: bool,
    whole: Option<Whole>,
    is_whole_due: bool,
    whole_digest: Option<Digest>,
    /// Chunks that nobody digests yet.
    queue: VecDeque<Piece>,
    /// What became of the chunks that were not taken, in order.
    done: VecDeque<Option<CutChunk>>,
    /// The index of the first of them, and where it begins.
    taken: u64,
    taken_at: u64,
    /// Where the next chunk begins.
    chunk_at: u64,
    failure: Option<Error>,
}

impl Board {
    pub(super) fn new(options: &CutOptions, threads: usize) -> Self {
        let cutter = Cutter::new(&options.chunking);
        let algorithm = options.digest_function.algorithm();
        // Both functions can be computed.
        let whole = options.whole.then(|| Checksummer::new(algorithm).ok()).flatten();
        let state = State {
            cutting: Some(Cutting { cutter, at: 0, lengths: Vec::new() }),
            cut_at: 0,
            is_cut: false,
            is_whole_due: options.whole,
            whole: whole.map(|hasher| Whole { hasher, at: 0 }),
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

    /// Bytes of the file.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The most urgent thing to do, for a thread that can take `free` chunks more. Where there is
    /// nothing, it waits, without the buffer, unless it `has_chunks`. `None` when nothing will come.
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
        // One thread alone goes on with what is in its cache.
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
        // At the end every thread has its share.
        let count = state.queue.len().div_ceil(self.threads).min(free);
        (count > 0).then(|| Task::Digest(state.queue.drain(..count).collect()))
    }

    fn has_room(&self, state: &State) -> bool {
        state.done.len() < self.threads * AHEAD_CHUNKS
            || state.cut_at - state.taken_at < AHEAD_BYTES
    }

    /// Gives cutting back after a piece.
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
            // There may be no chunk at all.
            self.news.notify_one();
        }
    }

    /// Gives the whole back after a piece.
    pub(super) fn put_whole(&self, whole: Whole) {
        self.lock().whole = Some(whole);
        self.work.notify_one();
    }

    /// The whole is hashed.
    pub(super) fn whole_done(&self, digest: Digest) {
        self.lock().whole_digest = Some(digest);
        self.work.notify_all();
        self.news.notify_one();
    }

    /// Chunks were digested.
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

    /// Nothing more is to be done; the first reason stays.
    pub(super) fn fail(&self, error: Error) {
        self.lock().failure.get_or_insert(error);
        self.stop();
    }

    /// Nothing more is to be done.
    pub(super) fn stop(&self) {
        self.stopped.cancel();
        // Whoever is about to wait has looked at the token before that, under the lock.
        drop(self.lock());
        self.work.notify_all();
        self.news.notify_one();
    }

    /// Cancelled when nothing more is to be done.
    pub(super) fn stopped(&self) -> &CancellationToken {
        &self.stopped
    }

    /// What there is to take now.
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

    /// Waits until there may be something to take.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Nothing will be to do any more, but for what others have claimed already.
    fn is_over(&self) -> bool {
        self.is_cut && self.queue.is_empty() && self.whole.is_none()
    }
}
