//! How many threads this process can have, and what is made of them.
//!
//! A limit on threads (`ulimit -u`, or that of a container) may be below what a machine's cores are
//! worth. The runtime does not tell when it is: it goes on with the threads that it has got, and if
//! none of those is left for calls that block, these wait for ever. So the threads are counted first,
//! by starting them for a moment, and the runtime is made of no more than there are.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, available_parallelism, yield_now};
use std::time::{Duration, Instant};
use std::{io, panic};

use tokio::runtime;

/// What one blob takes besides the runtime's workers: a thread that writes, and one that hashes.
const BLOB_THREADS: usize = 2;

/// Threads for calls that block, such as opening files and verifying chunks. More would be idle; with
/// fewer, the runtime must not take the room of the threads that write and hash.
const BLOCKING_THREADS: usize = 8;

/// Blobs under way at once. Small blobs are one request each, so that a few side by side hide
/// the latency; large ones share the budget anyway.
const BLOBS_MAX: usize = 8;

/// A thread that has nothing to do stays: another might not be given.
const KEEP_ALIVE: Duration = Duration::from_hours(24);

/// Threads that were started for a moment are gone long before that.
const ENDING_MAX: Duration = Duration::from_millis(100);

/// What is made of the threads that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threads {
    /// 0 has the main thread do all.
    workers: usize,
    /// For calls that block.
    blocking: usize,
    /// Blobs at once.
    pub(crate) blobs: usize,
    /// There are fewer than would be of use.
    is_short: bool,
}

impl Threads {
    /// Counts the threads that the system gives, for a command that moves so many blobs. Fails where
    /// it gives none.
    pub(crate) fn count(blobs: usize) -> io::Result<Self> {
        // With one worker a busy shard would keep the others, and signals, waiting.
        let cores = available_parallelism().map_or(2, usize::from).max(2);
        let blobs = blobs.clamp(1, BLOBS_MAX);
        let (granted, refusal) = granted(enough(cores, blobs));
        match refusal {
            Some(error) if granted == 0 => Err(error),
            _ => Ok(Self::of(granted, cores, blobs)),
        }
    }

    /// The best use of so many threads, at least one.
    fn of(granted: usize, cores: usize, blobs: usize) -> Self {
        // What must not wait for anything else comes first.
        let is_short = granted < enough(cores, blobs);
        let blobs = blobs.min(granted.saturating_sub(1) / BLOB_THREADS).max(1);
        let rest = granted.saturating_sub(blobs * BLOB_THREADS);
        let workers = rest.saturating_sub(1).min(cores);
        Self { workers, blocking: rest.saturating_sub(workers).max(1), blobs, is_short }
    }

    /// The runtime, with a thread for calls that block already there.
    pub(crate) fn runtime(self) -> io::Result<runtime::Runtime> {
        // Other processes may take what was counted. Then the runtime panics, and that is no message
        // for people.
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

/// As many threads as are of use.
fn enough(cores: usize, blobs: usize) -> usize {
    cores + BLOCKING_THREADS + blobs * BLOB_THREADS
}

/// Starts so many threads for a moment; gives how many there were, and why there were no more.
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
        // It does nothing that could panic.
        let _ = thread.join();
    }
    await_end();
    (count, refusal)
}

/// Waits until the system counts no thread but this one: one that was joined is counted for some
/// microseconds more. Where the system does not tell, it is not waited for.
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
                    // With three a blob has all that it may need.
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
