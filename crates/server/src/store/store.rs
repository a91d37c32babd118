//! [`Store`]: the core with its threads.
//!
//! | thread | what it does |
//! |---|---|
//! | committer | takes what waits, commits it as one group, answers |
//! | maintainer | passes the time, syncs each second, evicts, cleans, writes checkpoints, removes files |
//!
//! Callers hand operations over through a bounded queue and wait for their answer without blocking
//! a thread. Everything else that blocks runs on the runtime's blocking threads. Dropping the last
//! clone ends both threads, syncs and writes a checkpoint.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot};

use super::core::{Core, Op};
use super::disk::Disk;
use super::error::{StoreError, StoreResult};
use super::options::{Level, StoreOptions};

/// Groups that wait for the committer. Callers wait beyond that.
const QUEUE_MAX: usize = 1024;
/// Operations of one commit. More of them would only delay the first answer.
const GROUP_MAX: usize = 1024;
/// The maintainer's rhythm. Eviction must keep up with writers at the speed of the disk.
const ROUND: Duration = Duration::from_millis(50);
/// The time after which an acknowledged write is synced at level `process`.
const SYNC_AFTER: Duration = Duration::from_millis(900);

/// Operations and the place of their results.
#[derive(Debug)]
struct Waiting {
    ops: Vec<Op>,
    answer: oneshot::Sender<Vec<StoreResult<()>>>,
}

/// The store of the cache server. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    core: Arc<Core>,
    queue: Option<mpsc::Sender<Waiting>>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<Stop>,
}

/// Ends the maintainer, and wakes it when there is work.
#[derive(Debug, Default)]
struct Stop {
    is_stopped: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Stop {
    fn wait(&self, duration: Duration) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_stopped.load(Ordering::Acquire) {
            drop(self.wake.wait_timeout(guard, duration));
        }
    }

    fn stop(&self) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_stopped.store(true, Ordering::Release);
        drop(guard);
        self.wake.notify_all();
    }
}

/// The time of the machine's clock.
fn clock_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Store {
    /// Opens the store on a disk. Blocks: it replays the end of the log.
    pub fn open(disk: Arc<dyn Disk>, options: StoreOptions) -> StoreResult<Self> {
        let core = Arc::new(Core::open(disk, options, clock_ms())?);
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let stop = Arc::new(Stop::default());
        let mut inner = Inner {
            core: Arc::clone(&core),
            queue: Some(queue),
            threads: Vec::new(),
            stop: Arc::clone(&stop),
        };
        let of_committer = Arc::clone(&core);
        inner.spawn("store committer", move || commit_all(&of_committer, waiting))?;
        inner.spawn("store maintainer", move || maintain(&core, &stop))?;
        Ok(Self(Arc::new(inner)))
    }

    /// The core, for look-ups and reads.
    pub fn core(&self) -> &Arc<Core> {
        &self.0.core
    }

    /// Commits operations. The results are in their order.
    ///
    /// CANCEL: operations that were handed over are committed although the future was dropped.
    pub async fn commit(&self, ops: Vec<Op>) -> Vec<StoreResult<()>> {
        let count = ops.len();
        let (answer, answered) = oneshot::channel();
        let closed = || (0..count).map(|_| Err(StoreError::Closed)).collect();
        let Some(queue) = &self.0.queue else { return closed() };
        if queue.send(Waiting { ops, answer }).await.is_err() {
            return closed();
        }
        answered.await.unwrap_or_else(|_| closed())
    }

    /// As [`Self::commit`], for a thread that may block.
    pub fn commit_blocking(&self, ops: Vec<Op>) -> Vec<StoreResult<()>> {
        let count = ops.len();
        let (answer, answered) = oneshot::channel();
        let closed = || (0..count).map(|_| Err(StoreError::Closed)).collect();
        let Some(queue) = &self.0.queue else { return closed() };
        if queue.blocking_send(Waiting { ops, answer }).is_err() {
            return closed();
        }
        answered.blocking_recv().unwrap_or_else(|_| closed())
    }
}

impl Inner {
    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> StoreResult<()> {
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        self.threads.push(spawned.map_err(StoreError::disk("start a thread"))?);
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue = None;
        self.stop.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing left to write.
            let _ = thread.join();
        }
    }
}

/// The committer: what waits becomes one group. While it is written, the next group gathers.
fn commit_all(core: &Core, mut waiting: mpsc::Receiver<Waiting>) {
    while let Some(first) = waiting.blocking_recv() {
        let mut ops = Vec::new();
        let mut answers = Vec::new();
        let mut next = Some(first);
        while let Some(mut one) = next {
            answers.push((one.ops.len(), one.answer));
            ops.append(&mut one.ops);
            next = if ops.len() < GROUP_MAX { waiting.try_recv().ok() } else { None };
        }
        let mut results = core.commit(ops).into_iter();
        for (count, answer) in answers {
            // A caller that is gone needs no answer.
            let _ = answer.send(results.by_ref().take(count).collect());
        }
    }
}

fn maintain(core: &Core, stop: &Stop) {
    let mut synced = Instant::now();
    while !stop.is_stopped.load(Ordering::Acquire) {
        core.tick(clock_ms());
        let maintained = core.maintain();
        if let Err(error) = &maintained {
            tracing::warn!(%error, "the store's background work failed");
        }
        if core.options().level == Level::Process && synced.elapsed() >= SYNC_AFTER {
            if let Err(error) = core.sync() {
                tracing::warn!(%error, "the store's background sync failed");
            }
            synced = Instant::now();
        }
        if !matches!(maintained, Ok(true)) {
            stop.wait(ROUND);
        }
    }
    // A failure costs a longer replay at the next start.
    let _ = core.checkpoint();
}
