//! [`blocking`]: work on the target of a transfer that blocks, off the runtime's threads.

use crate::error::{Operation, Result};
use crate::offload::offload;

/// Runs `work` on a thread that may block. Fails with `Cancelled` while the runtime shuts down.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    offload(Operation::Write, "target", work).await
}
