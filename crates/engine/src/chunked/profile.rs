//! [`profile`]: asks a store for its abilities, with the retries and timeouts of the policy.

use std::sync::Arc;

use tidegate_core::retry::RetryPolicy;
use tokio_util::sync::CancellationToken;

use super::{ChunkStore, StoreProfile};
use crate::budget::{Budget, BudgetOptions};
use crate::error::{Operation, Result};
use crate::transfer::attempt::Calls;

/// Asks `store` for its abilities. Errors call the store `name`. A store that already has its
/// profile sends no request.
///
/// A store makes one attempt for each call and sets no timeout. This function adds both: each
/// attempt has the timeout of `Calls::patience` (the stall timeout or the response timeout,
/// whichever is longer), and `retry` decides about the next attempt. Cancel-safe.
///
/// # Errors
///
/// `Exhausted` when no attempts or no time are left, `Cancelled`, and any error of the store.
pub(crate) async fn profile(
    store: &Arc<dyn ChunkStore>,
    name: &str,
    retry: &RetryPolicy,
    cancel: &CancellationToken,
) -> Result<Arc<StoreProfile>> {
    let calls = Calls {
        policy: retry.clone(),
        // The call holds no bytes, and this transfer has nothing else in flight.
        budget: Budget::new(BudgetOptions { requests: 1, bytes: 0 }),
        cancel: cancel.clone(),
        operation: Operation::Connect,
        target: name.into(),
        stats: Arc::default(),
    };
    calls.first(calls.patience(0), |_| store.profile()).await
}
