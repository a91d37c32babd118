//! `--progress json`: what happens to each transfer, as one JSON object a line on standard error.
//!
//! The fields are an interface, described in `docs/command.md`; fields may be added. Invariant: a
//! transfer has one `start`, then its `progress`, then one `done` or `failed`. Each is written
//! while the stage is locked, so that they keep this order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tidegate::{Error, Progress};

use crate::console::Console;
use crate::json;
use crate::meter::Meter;
use crate::report::{self, Failure};

/// Time between two objects of the progress of one transfer.
pub(crate) const EVERY: Duration = Duration::from_millis(200);

/// The events of one transfer.
#[derive(Debug)]
pub(crate) struct TransferEvents {
    console: Console,
    source: String,
    target: String,
    progress: Arc<Progress>,
    stage: Mutex<Stage>,
}

#[derive(Debug)]
enum Stage {
    Waiting,
    Running { start: Instant, meter: Meter },
    Ended,
}

/// One object.
#[derive(Debug, Serialize)]
struct TransferEvent<'a> {
    event: &'static str,
    source: &'a str,
    target: &'a str,
    bytes: u64,
    total: Option<u64>,
    reused_bytes: u64,
    seconds: f64,
    rate: Option<f64>,
    requests: u64,
    restarts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

impl TransferEvents {
    pub(crate) fn new(
        console: &Console,
        source: String,
        target: String,
        progress: Arc<Progress>,
    ) -> Self {
        let stage = Mutex::new(Stage::Waiting);
        Self { console: console.clone(), source, target, progress, stage }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The transfer begins.
    pub(crate) fn begin(&self) {
        let mut stage = self.stage();
        *stage = Stage::Running { start: Instant::now(), meter: Meter::default() };
        self.write(&self.event("start", Duration::ZERO));
    }

    /// Writes how far it is, if it runs.
    pub(crate) fn tick(&self) {
        let mut stage = self.stage();
        let Stage::Running { start, meter } = &mut *stage else { return };
        let elapsed = start.elapsed();
        let mut event = self.event("progress", elapsed);
        event.rate = meter.sample(elapsed, event.bytes.saturating_sub(event.reused_bytes));
        self.write(&event);
    }

    /// The transfer ended.
    pub(crate) fn end(&self, failure: Option<&Error>) {
        let mut stage = self.stage();
        let elapsed = match &*stage {
            Stage::Running { start, .. } => start.elapsed(),
            Stage::Waiting => Duration::ZERO,
            Stage::Ended => return,
        };
        *stage = Stage::Ended;
        let mut event = self.event(if failure.is_none() { "done" } else { "failed" }, elapsed);
        let moved = event.bytes.saturating_sub(event.reused_bytes);
        event.rate = Some(report::rate(moved, event.seconds));
        event.error = failure.map(Failure::new);
        self.write(&event);
    }

    fn event(&self, event: &'static str, elapsed: Duration) -> TransferEvent<'_> {
        let now = self.progress.snapshot();
        TransferEvent {
            event,
            source: &self.source,
            target: &self.target,
            bytes: now.done_bytes + now.going_bytes,
            total: now.len_bytes,
            reused_bytes: now.reused_bytes,
            seconds: elapsed.as_secs_f64(),
            rate: None,
            requests: now.requests,
            restarts: now.restarts,
            error: None,
        }
    }

    /// As other messages: if it cannot be written, it is dropped.
    fn write(&self, event: &TransferEvent<'_>) {
        let _ = self.console.write(&json::text(event));
    }
}
