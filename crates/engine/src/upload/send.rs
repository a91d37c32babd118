//! One request with bytes, and how long it may stall.

use std::future::Future;
use std::time::Duration;

use tidegate_core::retry::RetryClass;

use super::Transfer;
use crate::error::{Error, ErrorKind, Result};
use crate::store::SendProgress;

/// The lowest speed at which a remote makes a blob of its parts, in bytes a second.
const REMOTE_BYTES_PER_S: u64 = 32 << 20;

/// The longest that a remote may take to make a blob of its parts: Amazon and Google speak of some
/// minutes.
const COMMIT_MS: u64 = 600_000;

impl Transfer {
    /// Makes the attempts at a request with `len` bytes. `call` makes one attempt.
    pub(super) async fn send<T, F, Fut>(&self, len: u64, mut call: F) -> Result<T>
    where
        F: FnMut(SendProgress) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let mut attempts = self.calls.begin();
        loop {
            let permit = attempts.permit().await?;
            let outcome = attempts.within(self.calls.patience(len), self.once(len, &mut call));
            let outcome = outcome.await;
            drop(permit);
            match outcome {
                Ok(value) => return Ok(value),
                Err(error) => attempts.interrupted(error).await?,
            }
        }
    }

    /// Makes one attempt at a request with `len` bytes.
    pub(super) async fn once<T, F, Fut>(&self, len: u64, call: &mut F) -> Result<T>
    where
        F: FnMut(SendProgress) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let sending = Sending(self.progress.sending(len));
        let sent = self.window.send();
        let stall = self.calls.patience(0);
        let outcome = tokio::select! {
            outcome = call(sending.0.clone()) => outcome,
            limit = sending.0.stalled(stall, self.answer_limit(len)) => Err(self.stalled(limit)),
        };
        sent.ended(len, &outcome);
        outcome
    }

    /// How long a remote may take to respond once it has all bytes of a request.
    fn answer_limit(&self, len: u64) -> Duration {
        let more_ms = len.saturating_mul(1000) / REMOTE_BYTES_PER_S;
        self.calls.patience(0).saturating_add(Duration::from_millis(more_ms))
    }

    /// How long a remote may take to make the blob of its parts.
    pub(super) fn commit_limit(&self) -> Duration {
        self.calls.patience(0).max(Duration::from_millis(COMMIT_MS))
    }

    /// How long the provider may take to copy this many bytes.
    pub(super) fn copy_limit(&self, len: u64) -> Duration {
        self.commit_limit().max(self.answer_limit(len))
    }

    fn stalled(&self, limit: Duration) -> Error {
        let message = format!("nothing was sent or answered for {} s", limit.as_secs_f64());
        self.error(ErrorKind::Timeout, message).retryable(RetryClass::Now)
    }
}

/// Its bytes no longer count as in flight once it is dropped.
struct Sending(SendProgress);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.end();
    }
}
