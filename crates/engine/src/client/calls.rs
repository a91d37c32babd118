//! The calls of a client that are no transfer: with its retries, within its budget.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Client;
use crate::error::Operation;
use crate::remote::Location;
use crate::transfer::attempt::Calls;

/// Calls of an operation on a blob.
pub(super) fn calls(
    client: &Client,
    operation: Operation,
    blob: &Location,
    cancel: CancellationToken,
) -> Calls {
    Calls {
        policy: client.0.retry.clone(),
        budget: client.0.budget.clone(),
        cancel,
        operation,
        target: blob.display().into(),
        stats: Arc::default(),
    }
}
