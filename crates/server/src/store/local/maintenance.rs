//! The background scrub of a store, and the sweep after damage. The store's own threads do all other
//! maintenance.
//!
//! The store owns the thread: dropping [`Maintenance`] ends it after its current step.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::store::core::Core;
use crate::store::scrub::{Repair, Scrubber};

/// The rhythm of the scrub.
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
    /// Starts the thread.
    pub(super) fn start(core: &Arc<Core>) -> io::Result<Self> {
        let (stop, stopped) = sync_channel::<()>(1);
        let core = Arc::clone(core);
        let thread =
            std::thread::Builder::new().name("store scrub".to_owned()).spawn(move || {
                let mut scrub = Scrub::new(&core);
                while stopped.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                    scrub.step(&core);
                }
            })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Maintenance {
    /// Blocks until the current step has ended, which reads 4 MiB.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// The time for [`Core::open`].
pub(in crate::store) fn clock_ms() -> u64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
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
        if core.needs_sweep() {
            match core.sweep() {
                Ok(files) => tracing::warn!(files, "swept the files of damaged values"),
                Err(error) => tracing::warn!(%error, "the sweep of the store failed"),
            }
        }
        let now = Instant::now();
        if now < self.begins {
            return;
        }
        match self.scrubber.step(SCRUB_BYTES) {
            Ok(true) => {
                core.count_scrub();
                let begins = now + SCRUB_PAUSE;
                *self = Self { scrubber: Scrubber::new(core, Repair::Drop), begins };
            }
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the scrub of the store failed"),
        }
    }
}
