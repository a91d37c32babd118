//! The background thread of a store: time, sync, eviction, cleaning, checkpoints, scrub.
//!
//! The store owns it: dropping [`Maintenance`] ends the thread after its current step.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::store::core::Core;
use crate::store::scrub::{Repair, Scrubber};

/// At level `process` everything acknowledged is synced within a second, and a sync takes some
/// milliseconds.
const STEP: Duration = Duration::from_millis(500);

/// What the scrub reads in one step: 8 MiB/s, a terabyte in a day and a half.
const SCRUB_BYTES: u64 = 4 << 20;

/// From the end of one scrub to the start of the next.
const SCRUB_PAUSE: Duration = Duration::from_hours(24);

/// The background thread.
#[derive(Debug)]
pub(super) struct Maintenance {
    /// Dropping it ends the thread.
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Maintenance {
    /// Starts the thread. It holds the lock of the store until it ends.
    pub(super) fn start(core: &Arc<Core>, lock: File) -> io::Result<Self> {
        let (stop, stopped) = sync_channel::<()>(1);
        let core = Arc::clone(core);
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(move || {
            let mut scrub = Scrub::new(&core);
            while stopped.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                let is_idle = step(&core);
                if is_idle {
                    scrub.step(&core);
                }
            }
            // What follows an orderly end starts faster from a checkpoint.
            step(&core);
            if let Err(error) = core.checkpoint() {
                tracing::warn!(%error, "the last checkpoint failed");
            }
            drop(lock);
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Ends the thread after a last checkpoint. Blocks.
    pub(super) fn finish(mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        drop(self.stop.take());
        let Some(thread) = self.thread.take() else { return };
        let join = move || drop(thread.join());
        // The last checkpoint takes a while, and this may be a thread of the runtime.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(join)),
            Err(_) => join(),
        }
    }
}

/// The time for [`Core::open`] and [`Core::tick`].
pub(in crate::store) fn clock_ms() -> u64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
}

/// Returns whether nothing is left to do.
fn step(core: &Core) -> bool {
    core.tick(clock_ms());
    match core.sync().and_then(|()| core.maintain()) {
        Ok(is_busy) => !is_busy,
        Err(error) => {
            // The next step tries again. Requests that need what failed report it.
            tracing::warn!(%error, "the maintenance of the store failed");
            false
        }
    }
}

/// The scrub, again and again with a pause.
#[derive(Debug)]
struct Scrub {
    scrubber: Scrubber,
    /// When the next step may be.
    begins: Instant,
}

impl Scrub {
    fn new(core: &Arc<Core>) -> Self {
        Self { scrubber: Scrubber::new(core, Repair::Drop), begins: Instant::now() }
    }

    /// Reads some values.
    fn step(&mut self, core: &Arc<Core>) {
        let now = Instant::now();
        if now < self.begins {
            return;
        }
        match self.scrubber.step(SCRUB_BYTES) {
            Ok(true) => {
                let begins = now + SCRUB_PAUSE;
                *self = Self { scrubber: Scrubber::new(core, Repair::Drop), begins };
            }
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the scrub of the store failed"),
        }
    }
}
