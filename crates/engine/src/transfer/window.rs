//! [`TransferWindow`]: the window of one blob, shared by its requests. The controller is
//! [`tidegate_core::window`]'s; here it gets its clock.
//!
//! A request counts from the moment when it is sent, not while it waits for the budget.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::window::{Outcome, Ticket, Window, WindowOptions};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};

/// Says how many requests may be in flight.
#[derive(Debug)]
pub(crate) struct TransferWindow {
    window: Mutex<Window>,
    epoch: Instant,
}

/// A request under way; dropped, it was given up.
#[derive(Debug)]
pub(crate) struct Sent {
    window: Arc<TransferWindow>,
    ticket: Option<Ticket>,
}

impl TransferWindow {
    pub(crate) fn new(options: WindowOptions) -> Self {
        Self { window: Mutex::new(Window::new(options)), epoch: Instant::now() }
    }

    /// Requests that may be in flight now; at least one.
    pub(crate) fn limit(&self) -> usize {
        self.lock().limit().max(1) as usize
    }

    /// A request is sent.
    pub(crate) fn send(self: &Arc<Self>) -> Sent {
        let ticket = self.lock().on_start(self.epoch.elapsed());
        Sent { window: Arc::clone(self), ticket: Some(ticket) }
    }

    /// What the controller says now.
    pub(crate) fn limit_now(&self) -> u32 {
        self.lock().limit()
    }

    fn lock(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sent {
    /// It moved `bytes`, all that it was to move.
    pub(crate) fn brought(mut self, bytes: u64) {
        self.end(bytes, Outcome::Ok);
    }

    /// It failed.
    pub(crate) fn failed(mut self, error: &Error) {
        self.end(
            0,
            match error.kind() {
                ErrorKind::Throttled => Outcome::Throttled,
                ErrorKind::Cancelled => Outcome::Cancelled,
                _ => Outcome::Failed,
            },
        );
    }

    /// It ended with this outcome; `bytes` is what it was to move.
    pub(crate) fn ended<T>(self, bytes: u64, outcome: &Result<T>) {
        match outcome {
            Ok(_) => self.brought(bytes),
            Err(error) => self.failed(error),
        }
    }

    fn end(&mut self, bytes: u64, outcome: Outcome) {
        if let Some(ticket) = self.ticket.take() {
            let now = self.window.epoch.elapsed();
            self.window.lock().on_done(ticket, now, bytes, outcome);
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
            let window = Arc::new(TransferWindow::new(WindowOptions::default()));
            let before = window.limit();
            let mut sent: Vec<Sent> = (0..before).map(|_| window.send()).collect();
            let error = Error::new(kind, Operation::Read, "store", "it did not work");
            sent.pop().unwrap().failed(&error);
            assert_eq!(window.limit() < before, is_narrower, "{kind:?}: {}", window.limit());
        }
    }
}
