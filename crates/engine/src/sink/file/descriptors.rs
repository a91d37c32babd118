//! [`Descriptors`]: the process's file descriptors, as far as transfers take them for files.
//!
//! A process has a number of them (`ulimit -n`, often 1024), and ten thousand transfers begun at once
//! would run into it: so each waits for its own before it opens anything. Half of the limit is for
//! files; the other half is for connections, of which the budget has a number in flight, and for the
//! rest of the process. The limit is read once, when the first transfer needs it.
//!
//! The count is the process's, as descriptors are: two budgets share it. It is fair: what was asked for
//! first is granted first.
//!
//! Why it cannot deadlock: a transfer takes all that it needs at once, and before it takes bytes or
//! requests from the budget. So a transfer that holds those waits for no descriptors, and one that
//! waits for descriptors holds nothing.

use std::sync::{Arc, LazyLock};

use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What a download into a file has open at most: the part file for writing, for reading and for
/// hashing, and for a moment a folder, the file that is replaced, or an index.
pub(crate) const DOWNLOAD: usize = 4;

/// What an upload has open: its file.
pub(crate) const UPLOAD: usize = 1;

/// More than any transfer could use; a semaphore counts further.
const COUNT_MAX: usize = 1 << 20;

/// So many descriptors are given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Descriptors {
    _permit: Option<OwnedSemaphorePermit>,
}

struct Pool {
    count: usize,
    free: Arc<Semaphore>,
}

/// Those of this process.
static POOL: LazyLock<Pool> = LazyLock::new(|| {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    Pool::new(usize::try_from(limit / 2).unwrap_or(COUNT_MAX))
});

/// Waits for so many descriptors; for all that there are, where that is less. Cancel-safe: it keeps
/// its place in the line for as long as it is polled, and takes nothing when it is dropped.
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
        // It is never closed.
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
