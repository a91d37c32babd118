//! [`profile`]: what a store can do, asked as often as it takes and no longer than the policy says.

use std::sync::Arc;

use tidegate_core::retry::RetryPolicy;
use tokio_util::sync::CancellationToken;

use super::{ChunkStore, StoreProfile};
use crate::budget::{Budget, BudgetOptions};
use crate::error::{Operation, Result};
use crate::transfer::attempt::Calls;

/// Asks `store`, which errors call `name`, what it can do. A store that knows already is not asked
/// again.
///
/// A store makes one attempt for each call and sets no limit to it; here each attempt ends after the
/// stall limit, and another follows as `retry` says. Cancel-safe.
///
/// # Errors
///
/// `Exhausted` once attempts or deadline are used up, `Cancelled`, and what the store says.
pub(crate) async fn profile(
    store: &Arc<dyn ChunkStore>,
    name: &str,
    retry: &RetryPolicy,
    cancel: &CancellationToken,
) -> Result<Arc<StoreProfile>> {
    let calls = Calls {
        policy: retry.clone(),
        // It holds no bytes, and nothing else of this transfer is in flight.
        budget: Budget::new(BudgetOptions { requests: 1, bytes: 0 }),
        cancel: cancel.clone(),
        operation: Operation::Connect,
        target: name.into(),
        stats: Arc::default(),
    };
    calls.first(calls.patience(0), |_| store.profile()).await
}
