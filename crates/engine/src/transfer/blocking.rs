//! [`blocking`]: work that blocks, off the runtime's threads.

use crate::error::{Error, ErrorKind, Operation, Result};

/// Runs `work` on a thread that may block. Fails with `Cancelled` while the runtime shuts down.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        let message = "the runtime is shutting down";
        Err(Error::new(ErrorKind::Cancelled, Operation::Write, "target", message).caused_by(error))
    })
}
