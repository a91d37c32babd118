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

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot};

use super::core::{Core, Op};
use super::disk::Disk;
use super::error::{StoreError, StoreResult};
use super::files::StagedFile;
use super::options::{Level, StoreOptions};

/// Groups that wait for the committer. Callers wait beyond that.
const QUEUE_MAX: usize = 1024;
/// Operations of one commit. More of them would only delay the first answer.
const GROUP_MAX: usize = 1024;
/// Bytes of one commit, unless one operation has more.
const GROUP_BYTES_MAX: u64 = 8 << 20;
/// The maintainer's rhythm. Eviction must keep up with writers at the speed of the disk.
const ROUND: Duration = Duration::from_millis(50);
/// Rounds without work left for the remover after which a write that needs space is refused.
const IDLE_ROUNDS_MAX: u32 = 8;
/// Rounds of any kind that a write waits for space. A round evicts and cleans several packs, so this
/// is seconds.
const SPACE_ROUNDS_MAX: u32 = 512;
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
    rounds: Arc<Rounds>,
}

/// The maintainer's rounds: callers that need space wake it and wait for the end of a round.
#[derive(Debug, Default)]
struct Rounds {
    state: Mutex<RoundsState>,
    /// The maintainer waits here.
    wake: Condvar,
    /// Callers wait here.
    done: Condvar,
}

#[derive(Debug, Default)]
struct RoundsState {
    is_stopped: bool,
    is_wanted: bool,
    /// Rounds that ended.
    count: u64,
    /// The last round stopped before it was done.
    is_busy: bool,
}

impl Rounds {
    fn state(&self) -> MutexGuard<'_, RoundsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    /// The maintainer's pause between two rounds; none if it is busy.
    fn pause(&self, is_busy: bool) {
        let duration = if is_busy { Duration::ZERO } else { ROUND };
        let mut state = self.state();
        state.count += 1;
        state.is_busy = is_busy;
        self.done.notify_all();
        let is_idle = |state: &mut RoundsState| !state.is_stopped && !state.is_wanted;
        if !duration.is_zero() {
            let waited = self.wake.wait_timeout_while(state, duration, is_idle);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_wanted = false;
    }

    /// Calls `attempt` until it returns `Some`, and waits for a round of the remover between two
    /// calls. `None` if the remover has nothing left to do, is stopped, or takes too long.
    fn until_space<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        let mut idle = 0;
        for _ in 0..SPACE_ROUNDS_MAX {
            if let Some(done) = attempt() {
                return Some(done);
            }
            if idle == IDLE_ROUNDS_MAX || self.is_stopped() {
                return None;
            }
            idle += u32::from(!self.wait_for_round());
        }
        None
    }

    /// Waits until a round that began after this call has ended. Returns at once when stopped.
    /// Returns whether the remover is still busy.
    fn wait_for_round(&self) -> bool {
        let mut state = self.state();
        let target = state.count + 2;
        state.is_wanted = true;
        self.wake.notify_all();
        let is_early = |state: &mut RoundsState| {
            // The round in flight may have taken the wish of this caller.
            state.is_wanted = true;
            self.wake.notify_all();
            !state.is_stopped && state.count < target
        };
        self.done.wait_while(state, is_early).unwrap_or_else(PoisonError::into_inner).is_busy
    }

    fn stop(&self) {
        self.state().is_stopped = true;
        self.wake.notify_all();
        self.done.notify_all();
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
        let rounds = Arc::new(Rounds::default());
        let mut inner = Inner {
            core: Arc::clone(&core),
            queue: Some(queue),
            threads: Vec::new(),
            rounds: Arc::clone(&rounds),
        };
        let (core_too, rounds_too) = (Arc::clone(&core), Arc::clone(&rounds));
        inner.spawn("store committer", move || commit_all(&core_too, waiting, &rounds_too))?;
        inner.spawn("store maintainer", move || maintain(&core, &rounds))?;
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

    /// A new file, whose digest the caller compares. Blocks; waits for the remover while the store is
    /// full.
    pub(crate) fn stage(&self) -> StoreResult<StagedFile> {
        self.with_space(|| self.core().stage(None))
    }

    /// Appends to a staged file. Blocks; waits for the remover while the store is full.
    pub fn write_staged(&self, staged: &mut StagedFile, bytes: &[u8]) -> StoreResult<()> {
        self.with_space(|| staged.write(bytes))
    }

    fn with_space<T>(&self, mut attempt: impl FnMut() -> StoreResult<T>) -> StoreResult<T> {
        let done = self.0.rounds.until_space(|| match attempt() {
            Err(StoreError::Full { .. }) => None,
            outcome => Some(outcome),
        });
        done.unwrap_or_else(attempt)
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
        // The committer still answers what is in the queue.
        self.rounds.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing left to write.
            let _ = thread.join();
        }
    }
}

/// The committer: what waits is committed together. While it is written, the next group gathers.
fn commit_all(core: &Core, mut waiting: mpsc::Receiver<Waiting>, rounds: &Rounds) {
    while let Some(first) = waiting.blocking_recv() {
        let mut ops = Vec::new();
        let mut answers = Vec::new();
        let mut next = Some(first);
        while let Some(mut one) = next {
            answers.push((one.ops.len(), one.answer));
            ops.append(&mut one.ops);
            next = if ops.len() < GROUP_MAX { waiting.try_recv().ok() } else { None };
        }
        let mut results = commit_in_groups(core, ops, rounds).into_iter();
        for (count, answer) in answers {
            // A caller that is gone needs no answer.
            let _ = answer.send(results.by_ref().take(count).collect());
        }
    }
}

/// Commits operations in groups of bounded bytes. A store with small packs has room for a group of
/// half a pack, but maybe never for all operations at once.
fn commit_in_groups(core: &Core, ops: Vec<Op>, rounds: &Rounds) -> Vec<StoreResult<()>> {
    let bytes_max = GROUP_BYTES_MAX.min(core.pack_bytes() / 2);
    let mut results = Vec::with_capacity(ops.len());
    let mut ops = ops.into_iter().peekable();
    while ops.peek().is_some() {
        let mut bytes = 0;
        let mut group = Vec::new();
        while let Some(op) = ops.next_if(|op| {
            let with_it = bytes + op.record_bytes_max();
            group.is_empty() || with_it <= bytes_max
        }) {
            bytes += op.record_bytes_max();
            group.push(op);
        }
        // Without room, the commit says which operations are refused.
        let _ = rounds.until_space(|| core.has_room(bytes).then_some(()));
        results.append(&mut core.commit(group));
    }
    results
}

fn maintain(core: &Core, rounds: &Rounds) {
    let mut synced = Instant::now();
    while !rounds.is_stopped() {
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
        rounds.pause(matches!(maintained, Ok(true)));
    }
    // A failure costs a longer replay at the next start.
    let _ = core.checkpoint();
}
