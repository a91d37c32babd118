//! Requests facts about a blob until there is a response or the policy gives up.

use std::time::Duration;

use tidegate_core::retry::{RetryClass, RetryPolicy};
use tokio::time::{sleep, timeout};

use super::ReadStats;
use super::retrying::{Next, Retrying};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::events::RESTART;
use crate::remote::{BlobInfo, Location, UploadedPart, Version};

/// Facts about a blob: one request if nothing fails. Cancel-safe.
///
/// # Errors
///
/// The remote's error (`NotFound`, `NoAccess` and so on), or `Exhausted` with the last failure as
/// its source.
pub(crate) async fn stat(
    location: &Location,
    policy: &RetryPolicy,
    budget: &Budget,
    stats: &ReadStats,
) -> Result<BlobInfo> {
    // One permit serves all attempts.
    let _permit = budget.request().await;
    ask(location, None, policy, stats).await
}

/// Like [`stat`], of a given version if there is one. The caller already holds a permit: waiting
/// for a second one next to an open body could deadlock.
pub(crate) async fn ask(
    location: &Location,
    version: Option<&Version>,
    policy: &RetryPolicy,
    stats: &ReadStats,
) -> Result<BlobInfo> {
    // If the version is known, an earlier request had a response.
    attempts(location, version.is_none(), policy, stats, || match version {
        Some(version) => location.remote.stat_version(&location.blob, version),
        None => location.remote.stat(&location.blob),
    })
    .await
}

/// Part `number` of the upload that made a version of a blob. The caller already holds a permit.
pub(super) async fn part(
    location: &Location,
    number: u32,
    version: Option<&Version>,
    policy: &RetryPolicy,
    stats: &ReadStats,
) -> Result<Option<UploadedPart>> {
    let ask = || location.remote.uploaded_part(&location.blob, number, version);
    attempts(location, false, policy, stats, ask).await
}

/// Calls `ask` until it has a response or the policy gives up.
async fn attempts<T, F: Future<Output = Result<T>>>(
    location: &Location,
    is_first: bool,
    policy: &RetryPolicy,
    stats: &ReadStats,
    ask: impl Fn() -> F,
) -> Result<T> {
    let mut retrying = Retrying::new(policy);
    loop {
        if retrying.on_request() {
            stats.restart();
        }
        stats.request();
        let limit = retrying.limit(Duration::from_millis(policy.header_ms_max));
        let asked = timeout(limit, ask()).await;
        let error = match asked {
            Ok(Ok(facts)) => return Ok(facts),
            Ok(Err(error)) => error,
            Err(_elapsed) => late(location, limit),
        };
        match retrying.on_failure(&error, is_first) {
            Next::After(delay) => {
                tracing::debug!(
                    target: RESTART,
                    target = location.display(),
                    attempt = retrying.requests() + 1,
                    delay_ms = delay.as_millis(),
                    error = error.chain(),
                    "restart"
                );
                sleep(delay).await;
            }
            Next::Fail => return Err(error),
            Next::GiveUp(reason) => {
                let gave_up = exhausted(location, reason);
                return Err(gave_up.after_attempts(retrying.requests()).caused_by(error));
            }
        }
    }
}

fn exhausted(location: &Location, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Exhausted, Operation::Stat, location.display(), message)
}

fn late(location: &Location, limit: Duration) -> Error {
    let message = format!("timed out after {} s: no answer", limit.as_secs_f64());
    Error::new(ErrorKind::Timeout, Operation::Stat, location.display(), message)
        .retryable(RetryClass::Now)
}
