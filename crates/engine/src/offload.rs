//! [`offload`]: work that blocks, on a thread that may block.
//!
//! The threads of the runtime drive connections. A read of a cold file or the hash of 4 MiB would
//! stop all of them for milliseconds.

use crate::error::{Error, ErrorKind, Operation, Result};

/// Runs `work` on a blocking thread. Dropping the future does not stop work that has started.
///
/// Fails with `Cancelled`, as an error of `operation` on `target`, while the runtime shuts down.
pub(crate) async fn offload<T: Send + 'static>(
    operation: Operation,
    target: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        let message = "the runtime is shutting down";
        Err(Error::new(ErrorKind::Cancelled, operation, target, message).caused_by(error))
    })
}
