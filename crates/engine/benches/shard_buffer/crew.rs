//! A few threads that run jobs from a queue: the equivalent of the goroutine scheduler in the Go
//! harness.
//!
//! The calling thread takes jobs too, as the thread that runs Go's main goroutine does while that
//! waits. The other threads sleep between runs; waking them is part of an operation in both
//! harnesses.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Work that one thread does without interruption; it returns an error if it fails.
pub(crate) type Job = Box<dyn FnOnce() -> Result<(), String> + Send>;

/// The threads; they end when it is dropped.
pub(crate) struct Crew {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    unfinished: usize,
    failure: Option<String>,
    closed: bool,
}

impl Crew {
    /// A crew of `threads`, the caller of [`Self::run`] included.
    pub(crate) fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let helper = |_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.help())
        };
        let helpers = (1..threads).map(helper).collect();
        Self { shared, helpers }
    }

    /// Runs all jobs and waits for them; the first failure is returned.
    pub(crate) fn run(&self, jobs: Vec<Job>) -> Result<(), String> {
        let wanted = jobs.len().saturating_sub(1).min(self.helpers.len());
        {
            let mut state = self.shared.lock();
            state.unfinished = jobs.len();
            state.queue.extend(jobs);
        }
        for _ in 0..wanted {
            self.shared.work.notify_one();
        }
        while let Some(job) = self.shared.take() {
            self.shared.finish(job());
        }
        let mut state = self.shared.lock();
        while state.unfinished > 0 {
            state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.failure.take().map_or(Ok(()), Err)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Job> {
        self.lock().queue.pop_front()
    }

    fn finish(&self, outcome: Result<(), String>) {
        let mut state = self.lock();
        state.unfinished -= 1;
        if let Err(message) = outcome {
            state.failure.get_or_insert(message);
        }
        if state.unfinished == 0 {
            self.done.notify_all();
        }
    }

    fn help(&self) {
        loop {
            let mut state = self.lock();
            let job = loop {
                if state.closed {
                    return;
                }
                match state.queue.pop_front() {
                    Some(job) => break job,
                    None => state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(state);
            self.finish(job());
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_all();
        for helper in self.helpers.drain(..) {
            // A helper that panicked has printed its message already.
            let _ = helper.join();
        }
    }
}
