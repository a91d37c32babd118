//! [`Descriptors`]: the share of the process's file descriptors that transfers use for files.
//!
//! A process has a limited number of them (`ulimit -n`, often 1024). Ten thousand transfers started
//! at once would exceed it, so each transfer waits for its descriptors before it opens a file. Half
//! of the limit is for files. The other half is for connections, which the budget limits, and for
//! the rest of the process. With a limit of 1024, 512 descriptors are for files: 128 downloads at
//! once. The limit is read once, when the first transfer needs it.
//!
//! The limit is the process's, so all budgets share one count. It is fair: requests are granted in
//! the order in which they were made.
//!
//! Why it cannot deadlock: a transfer takes all its descriptors at once, before it takes bytes or
//! requests from the budget. So a transfer that holds bytes or requests does not wait for
//! descriptors, and a transfer that waits for descriptors holds nothing.

use std::sync::{Arc, LazyLock};

use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Files that a download into a file has open at most: the part file for writing, for reading and
/// for hashing, and for a moment a folder, the file that is replaced, or an index.
pub(crate) const DOWNLOAD: usize = 4;

/// Files that an upload has open: its source.
pub(crate) const UPLOAD: usize = 1;

/// More than any transfer could use, and less than the maximum of a semaphore.
const COUNT_MAX: usize = 1 << 20;

/// A number of descriptors, released when this is dropped.
#[derive(Debug)]
pub(crate) struct Descriptors {
    _permit: Option<OwnedSemaphorePermit>,
}

struct Pool {
    count: usize,
    free: Arc<Semaphore>,
}

/// The pool of this process.
static POOL: LazyLock<Pool> = LazyLock::new(|| {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    Pool::new(usize::try_from(limit / 2).unwrap_or(COUNT_MAX))
});

/// Waits for `count` descriptors, or for all of them if there are fewer. Cancel-safe: the call
/// keeps its place in the queue while it is polled, and takes nothing when it is dropped.
pub(crate) async fn acquire(count: usize) -> Descriptors {
    POOL.acquire(count).await
}

impl Pool {
    fn new(count: usize) -> Self {
        let count = count.clamp(1, COUNT_MAX);
        Self { count, free: Arc::new(Semaphore::new(count)) }
    }

    async fn acquire(&self, count: usize) -> Descriptors {
        // At most COUNT_MAX.
        let count = u32::try_from(count.min(self.count)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        Descriptors { _permit: Arc::clone(&self.free).acquire_many_owned(count).await.ok() }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn what_is_asked_for_first_is_granted_first() {
        let pool = Pool::new(5);
        let first = pool.acquire(4).now_or_never().unwrap();
        let mut large = Box::pin(pool.acquire(4));
        let mut small = Box::pin(pool.acquire(1));
        assert!((&mut large).now_or_never().is_none());
        assert!((&mut small).now_or_never().is_none(), "it came later");
        drop(first);
        let large = large.now_or_never().unwrap();
        small.now_or_never().unwrap();
        drop(large);
        assert_eq!(pool.free.available_permits(), 5);
    }

    #[test]
    fn whatever_is_asked_for_is_granted_some_time() {
        for count in [0, 1, 3] {
            let pool = Pool::new(count);
            let all = pool.acquire(100).now_or_never().unwrap();
            assert_eq!(pool.free.available_permits(), 0);
            let waiting = pool.acquire(1);
            drop(all);
            waiting.now_or_never().unwrap();
        }
        assert_eq!(Pool::new(usize::MAX).count, COUNT_MAX);
    }
}
