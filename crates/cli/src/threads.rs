//! Counts the threads that this process can have, and builds the runtime with them.
//!
//! A limit on threads (`ulimit -u`, or that of a container) may allow fewer threads than the
//! machine could use. The runtime does not report this: it continues with the threads that it could
//! start. If none of those is left for blocking calls, these calls wait for ever. So the process
//! first counts the threads by starting them for a moment, and builds the runtime with no more than
//! that.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, available_parallelism, yield_now};
use std::time::{Duration, Instant};
use std::{io, panic};

use tokio::runtime;

/// Threads of one blob in addition to the runtime's workers: one writes, and one hashes.
const BLOB_THREADS: usize = 2;

/// Threads for blocking calls, such as opening files and verifying chunks. More would be idle. If
/// there are fewer, the runtime must not use the threads that write and hash.
const BLOCKING_THREADS: usize = 8;

/// Blobs in flight at once. Small blobs are one request each, so several in parallel hide the
/// latency. Large blobs share the budget in any case.
const BLOBS_MAX: usize = 8;

/// An idle thread stays alive, because the system might refuse to start another.
const KEEP_ALIVE: Duration = Duration::from_hours(24);

/// The threads of the count end long before this.
const ENDING_MAX: Duration = Duration::from_millis(100);

/// The use of the threads that the system grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threads {
    /// 0 runs everything on the main thread.
    workers: usize,
    /// For blocking calls.
    blocking: usize,
    /// Blobs in flight at once.
    pub(crate) blobs: usize,
    /// There are fewer threads than would be useful.
    is_short: bool,
}

impl Threads {
    /// Counts the threads that the system grants, for a command that moves `blobs` blobs. Fails if
    /// the system grants none.
    pub(crate) fn count(blobs: usize) -> io::Result<Self> {
        // With one worker, a busy shard would delay all other shards, and signals.
        let cores = available_parallelism().map_or(2, usize::from).max(2);
        let blobs = blobs.clamp(1, BLOBS_MAX);
        let (granted, refusal) = granted(enough(cores, blobs));
        match refusal {
            Some(error) if granted == 0 => Err(error),
            _ => Ok(Self::of(granted, cores, blobs)),
        }
    }

    /// The best use of `granted` threads, at least one.
    fn of(granted: usize, cores: usize, blobs: usize) -> Self {
        // Threads that must not wait for any other are assigned first.
        let is_short = granted < enough(cores, blobs);
        let blobs = blobs.min(granted.saturating_sub(1) / BLOB_THREADS).max(1);
        let rest = granted.saturating_sub(blobs * BLOB_THREADS);
        let workers = rest.saturating_sub(1).min(cores);
        Self { workers, blocking: rest.saturating_sub(workers).max(1), blobs, is_short }
    }

    /// The runtime, with one thread for blocking calls already started.
    pub(crate) fn runtime(self) -> io::Result<runtime::Runtime> {
        // Other processes may take the threads that were counted. The runtime then panics, and its
        // message is not fit for users.
        let hook = panic::take_hook();
        panic::set_hook(Box::new(|_| {}));
        let made = panic::catch_unwind(|| self.make());
        panic::set_hook(hook);
        made.unwrap_or_else(|_| Err(io::Error::other("the threads that there were are gone")))
    }

    fn make(self) -> io::Result<runtime::Runtime> {
        let mut builder = match self.workers {
            0 => runtime::Builder::new_current_thread(),
            workers => {
                let mut builder = runtime::Builder::new_multi_thread();
                builder.worker_threads(workers);
                builder
            }
        };
        builder.thread_name("tidegate").thread_keep_alive(KEEP_ALIVE).enable_all();
        if self.is_short {
            builder.max_blocking_threads(self.blocking);
        }
        let runtime = builder.build()?;
        runtime.block_on(runtime.spawn_blocking(|| ())).map_err(io::Error::other)?;
        Ok(runtime)
    }
}

/// The number of threads that are useful.
fn enough(cores: usize, blobs: usize) -> usize {
    cores + BLOCKING_THREADS + blobs * BLOB_THREADS
}

/// Starts `wanted` threads for a moment. Returns how many started, and the error if some did not.
fn granted(wanted: usize) -> (usize, Option<io::Error>) {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
    let mut threads = Vec::new();
    let mut refusal = None;
    while threads.len() < wanted && refusal.is_none() {
        let gate = Arc::clone(&gate);
        match Builder::new().spawn(move || drop(gate.lock())) {
            Ok(thread) => threads.push(thread),
            Err(error) => refusal = Some(error),
        }
    }
    drop(closed);
    let count = threads.len();
    for thread in threads {
        // The thread does nothing that could panic.
        let _ = thread.join();
    }
    await_end();
    (count, refusal)
}

/// Waits until the system counts only this thread: a joined thread is counted for some microseconds
/// more. Returns at once if the system reports no count.
fn await_end() {
    let begun = Instant::now();
    let others = || std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1);
    while begun.elapsed() < ENDING_MAX && others() {
        yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_of_threads_is_no_more_than_there_are() {
        for cores in [2, 8] {
            for blobs in 1..=BLOBS_MAX {
                let enough = enough(cores, blobs);
                for granted in 1..=enough {
                    let threads = Threads::of(granted, cores, blobs);
                    let Threads { workers, blocking, blobs: at_once, .. } = threads;
                    assert!(blocking >= 1 && at_once >= 1, "{granted}: {threads:?}");
                    let used = workers + blocking + at_once * BLOB_THREADS;
                    // Three threads are all that a blob can need.
                    assert!(used <= granted.max(1 + BLOB_THREADS), "{granted}: {threads:?}");
                    assert_eq!(threads.is_short, granted < enough);
                }
                let Threads { workers, blobs: at_once, .. } = Threads::of(enough, cores, blobs);
                assert_eq!((workers, at_once), (cores, blobs));
            }
        }
    }

    #[test]
    fn threads_are_counted() {
        let (count, refusal) = granted(3);
        assert_eq!(count, 3, "{refusal:?}");
    }
}
