//! [`Board`]: what is to be done, by whom, and what was found; shared by the threads and the stream.
//!
//! What is urgent: the whole first, since nothing can make up for time lost there; then cutting,
//! while there are fewer jobs than threads; then digesting. Cutting stops while many jobs wait to
//! be taken, done or not, and the whole while it is far ahead of cutting, so that what one of them
//! has brought into the page cache is still there for the others.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tidegate_core::checksum::Checksummer;
use tidegate_core::chunking::Cutter;
use tidegate_core::digest::Digest;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::CutOptions;
use super::room::Room;
use super::stream::CutChunk;
use crate::error::Error;

/// Chunks are digested together until they have so many bytes: two at a time are faster than one,
/// and the smallest must not cost more to hand out than to hash. Less where the file is so short
/// that some threads would have none.
const JOB_BYTES: u64 = 4 << 20;
const JOB_BYTES_MIN: u64 = 512 << 10;

/// Jobs that each thread should get, so that all end at about one time.
const JOBS_EACH: u64 = 4;

/// Jobs that may wait to be taken, for each thread: enough for some to be far larger than others.
const JOBS_PER_THREAD: usize = 4;

/// The whole is at most so far ahead of cutting.
const LEAD_BYTES: u64 = 64 << 20;

/// Chunks that follow each other.
#[derive(Debug)]
pub(super) struct Job {
    /// Its place in the order of jobs.
    index: u64,
    /// Where the first chunk begins.
    offset: u64,
    /// Their lengths.
    pub(super) lengths: Vec<u64>,
}

impl Job {
    /// Where each chunk is in the file.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.lengths.iter().scan(self.offset, |at, len| {
            let start = *at;
            *at += len;
            Some(start..*at)
        })
    }
}

/// Reading in order and finding ends of chunks.
#[derive(Debug)]
pub(super) struct Cutting {
    pub(super) cutter: Cutter,
    /// Bytes that were read.
    pub(super) at: u64,
    /// Chunks whose ends are known and that are in no job yet.
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
    Digest(Job),
    Whole(Whole),
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
    job_bytes: u64,
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
    /// Jobs that nobody has begun.
    jobs: VecDeque<Job>,
    /// What became of the jobs that were not taken, in order.
    done: VecDeque<Option<Vec<CutChunk>>>,
    /// The index of the first of them.
    taken: u64,
    /// Where the next job begins.
    job_at: u64,
    /// The lengths of its chunks so far, and their sum.
    gathered: Vec<u64>,
    gathered_bytes: u64,
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
            jobs: VecDeque::new(),
            done: VecDeque::new(),
            taken: 0,
            job_at: 0,
            gathered: Vec::new(),
            gathered_bytes: 0,
            failure: None,
        };
        Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            news: Notify::new(),
            len: options.len,
            threads,
            job_bytes: (options.len / (threads as u64 * JOBS_EACH)).clamp(JOB_BYTES_MIN, JOB_BYTES),
            stopped: options.cancel.child_token(),
        }
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The most urgent thing to do; waits for it, without the buffer. `None` when nothing will come.
    pub(super) fn claim(&self, room: &mut Option<Room>) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if let Some(task) = self.pick(&mut state) {
                return Some(task);
            }
            if self.stopped.is_cancelled() || state.is_over() {
                return None;
            }
            *room = None;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn pick(&self, state: &mut State) -> Option<Task> {
        if self.stopped.is_cancelled() {
            return None;
        }
        // One thread alone goes on with what is in its cache.
        let lead = if self.threads > 1 { LEAD_BYTES } else { 0 };
        let (is_cut, whole_end) = (state.is_cut, state.cut_at + lead);
        if let Some(whole) = state.whole.take_if(|whole| is_cut || whole.at < whole_end) {
            return Some(Task::Whole(whole));
        }
        let has_room = state.done.len() < self.threads * JOBS_PER_THREAD;
        if has_room
            && state.jobs.len() < self.threads
            && let Some(cutting) = state.cutting.take()
        {
            return Some(Task::Cut(cutting));
        }
        state.jobs.pop_front().map(Task::Digest)
    }

    /// Gives cutting back after a piece.
    pub(super) fn put_cutting(&self, mut cutting: Cutting, is_cut: bool) {
        let mut state = self.lock();
        for len in cutting.lengths.drain(..) {
            state.gathered.push(len);
            state.gathered_bytes += len;
            if state.gathered_bytes >= self.job_bytes {
                state.begin_job();
            }
        }
        // Whoever waits for the first chunks should not wait for a whole job.
        if is_cut || state.jobs.is_empty() {
            state.begin_job();
        }
        state.cut_at = cutting.at;
        state.is_cut = is_cut;
        state.cutting = Some(cutting).filter(|_| !is_cut);
        drop(state);
        self.work.notify_all();
        self.news.notify_one();
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

    /// A job is done.
    pub(super) fn job_done(&self, job: &Job, chunks: Vec<CutChunk>) {
        let mut state = self.lock();
        let place = usize::try_from(job.index - state.taken).ok();
        if let Some(done) = place.and_then(|place| state.done.get_mut(place)) {
            *done = Some(chunks);
        }
        let is_next = place == Some(0);
        drop(state);
        if is_next {
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
        if let Some(chunks) = state.done.front_mut().and_then(Option::take) {
            state.done.pop_front();
            state.taken += 1;
            drop(state);
            self.work.notify_all();
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
    /// Makes a job of what was gathered.
    fn begin_job(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let index = self.taken + self.done.len() as u64;
        let lengths = std::mem::take(&mut self.gathered);
        self.jobs.push_back(Job { index, offset: self.job_at, lengths });
        self.done.push_back(None);
        self.job_at += std::mem::take(&mut self.gathered_bytes);
    }

    /// Nothing will be to do any more, but for what others have claimed already.
    fn is_over(&self) -> bool {
        self.is_cut && self.jobs.is_empty() && self.whole.is_none()
    }
}
