//! [`TransferWindow`]: the window of one blob, shared by its requests. The controller is in
//! [`tidegate_core::window`], which has no clock. This module adds the clock and a lock.
//!
//! Invariant: a request counts from the moment when it is sent. While it waits for the budget, it
//! does not count.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::window::{Outcome, Ticket, Window, WindowOptions};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};

/// Limits the number of requests in flight.
#[derive(Debug)]
pub(crate) struct TransferWindow {
    window: Mutex<Window>,
    epoch: Instant,
}

/// A request in flight. If it is dropped, it counts as cancelled.
#[derive(Debug)]
pub(crate) struct Sent {
    window: Arc<TransferWindow>,
    ticket: Option<Ticket>,
}

impl TransferWindow {
    pub(crate) fn new(options: WindowOptions) -> Self {
        Self { window: Mutex::new(Window::new(options)), epoch: Instant::now() }
    }

    /// The number of requests that may be in flight now; at least one.
    pub(crate) fn limit(&self) -> usize {
        self.lock().limit().max(1) as usize
    }

    /// Reports that a request is sent.
    pub(crate) fn send(self: &Arc<Self>) -> Sent {
        let ticket = self.lock().on_start(self.epoch.elapsed());
        Sent { window: Arc::clone(self), ticket: Some(ticket) }
    }

    /// The controller's own limit.
    pub(crate) fn limit_now(&self) -> u32 {
        self.lock().limit()
    }

    fn lock(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sent {
    /// Reports that the request has moved all its bytes.
    pub(crate) fn succeeded(mut self, bytes: u64) {
        self.end(bytes, Outcome::Ok);
    }

    /// Reports that the request failed.
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

    /// Reports the outcome of the request. `bytes` is the number of bytes that it was to move.
    pub(crate) fn ended<T>(self, bytes: u64, outcome: &Result<T>) {
        match outcome {
            Ok(_) => self.succeeded(bytes),
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

    /// A throttled request narrows the window at once. A single failed request does not, because
    /// the failure may be a coincidence.
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
