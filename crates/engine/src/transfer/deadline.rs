//! [`in_time`]: a transfer with a deadline.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, Operation, Result};

/// Runs a transfer that ends when its token is cancelled. At the deadline the token is cancelled as
/// a caller would do it, so the bytes that have arrived are kept.
///
/// Fails with `Exhausted` at the deadline.
pub(crate) async fn in_time<T, F>(
    deadline_ms: Option<u64>,
    cancel: &CancellationToken,
    operation: Operation,
    target: &str,
    run: impl FnOnce(CancellationToken) -> F,
) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let own = cancel.child_token();
    let mut run = Box::pin(run(own.clone()));
    let Some(deadline_ms) = deadline_ms else { return run.await };
    tokio::select! {
        biased;
        outcome = &mut run => return outcome,
        () = tokio::time::sleep(Duration::from_millis(deadline_ms)) => {}
    }
    own.cancel();
    run.await.map_err(|error| match error.kind() {
        ErrorKind::Cancelled if !cancel.is_cancelled() => {
            let seconds = Duration::from_millis(deadline_ms).as_secs_f64();
            let message = format!("the deadline of {seconds} s has passed");
            Error::new(ErrorKind::Exhausted, operation, target, message)
        }
        _ => error,
    })
}
