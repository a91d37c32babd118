//! [`Gate`]: the window of one blob, shared by its requests. The controller is
//! [`tidegate_core::window`]'s; here it gets its clock.
//!
//! What the controller is told begins when a request is really sent, not while it waits for the
//! budget.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::window::{Outcome, Ticket, Window, WindowOptions};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};

/// Says how many requests may be in flight.
#[derive(Debug)]
pub(super) struct Gate {
    window: Mutex<Window>,
    epoch: Instant,
}

/// A request under way; dropped, it was given up.
#[derive(Debug)]
pub(super) struct Sent {
    gate: Arc<Gate>,
    ticket: Option<Ticket>,
}

impl Gate {
    pub(super) fn new(options: WindowOptions) -> Self {
        Self { window: Mutex::new(Window::new(options)), epoch: Instant::now() }
    }

    /// Requests that may be in flight now; at least one.
    pub(super) fn limit(&self) -> usize {
        self.lock().limit().max(1) as usize
    }

    /// A request is sent.
    pub(super) fn send(self: &Arc<Self>) -> Sent {
        let ticket = self.lock().on_start(self.epoch.elapsed());
        Sent { gate: Arc::clone(self), ticket: Some(ticket) }
    }

    fn lock(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sent {
    /// It brought so many bytes, all that it was to bring.
    pub(super) fn brought(mut self, bytes: u64) {
        self.end(bytes, Outcome::Ok);
    }

    /// It failed.
    pub(super) fn failed(mut self, error: &Error) {
        self.end(
            0,
            match error.kind() {
                ErrorKind::Throttled => Outcome::Throttled,
                ErrorKind::Cancelled => Outcome::Cancelled,
                _ => Outcome::Failed,
            },
        );
    }

    fn end(&mut self, bytes: u64, outcome: Outcome) {
        if let Some(ticket) = self.ticket.take() {
            let now = self.gate.epoch.elapsed();
            self.gate.lock().on_done(ticket, now, bytes, outcome);
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.end(0, Outcome::Cancelled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Operation;

    /// A store that asks for less gets less at once; one whose request broke may have had bad luck.
    #[test]
    fn what_is_throttled_narrows_the_window_at_once_and_what_failed_does_not() {
        for (kind, is_narrower) in [
            (ErrorKind::Throttled, true),
            (ErrorKind::Transport, false),
            (ErrorKind::Cancelled, false),
        ] {
            let gate = Arc::new(Gate::new(WindowOptions::default()));
            let before = gate.limit();
            let mut sent: Vec<Sent> = (0..before).map(|_| gate.send()).collect();
            let error = Error::new(kind, Operation::Read, "store", "it did not work");
            sent.pop().unwrap().failed(&error);
            assert_eq!(gate.limit() < before, is_narrower, "{kind:?}: {}", gate.limit());
        }
    }
}
