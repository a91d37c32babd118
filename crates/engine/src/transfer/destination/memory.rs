//! Reserves memory for a whole blob from the budget, in one step.

use std::sync::Arc;

use super::DestinationOptions;
use crate::budget::{Budget, BudgetOptions, BytesPermit};
use crate::buffer::{ShardBuffer, ShardBufferOptions, committed_bytes};
use crate::error::{ErrorKind, Result};
use crate::sink::MemorySink;
use crate::transfer::attempt::Calls;
use crate::transfer::limits::BYPASS_CACHES_FROM_BYTES;

/// Reserves memory for the blob, and `units_bytes` for the units on their way into it. The returned
/// budget holds the units' bytes.
///
/// Both are taken in one step. If downloads took the blob's memory first and then waited for their
/// units' memory, two downloads could wait for each other.
pub(super) async fn set_aside(
    mut options: DestinationOptions,
    calls: &Calls,
    release: impl FnOnce() + Send,
) -> Result<(MemorySink, Budget, DestinationOptions)> {
    let range = options.range.clone();
    if range.end == u64::MAX {
        let message = "its length is unknown, so memory for it cannot be reserved";
        return Err(calls.error(ErrorKind::Unsupported, message));
    }
    let (len, limits) = (range.end - range.start, calls.budget.limits());
    if len > limits.bytes {
        let message = format!("its {len} bytes do not fit the memory budget of {}", limits.bytes);
        let error = calls.error(ErrorKind::Invalid, message);
        return Err(error.with_hint("raise the budget, or fetch it into a file"));
    }
    // Recycled memory is counted in huge pages, and the budget may be too small for that.
    let committed = committed_bytes(len);
    let pool = (committed <= limits.bytes).then(|| options.pool.clone());
    let blob = if pool.is_some() { committed } else { len };
    let needed = blob.saturating_add(options.units_bytes).min(limits.bytes);
    let granted = options.granted.permit.take();
    let more = needed.saturating_sub(granted.as_ref().map_or(0, BytesPermit::bytes));
    let permit = match (granted, calls.budget.try_bytes(more)) {
        (Some(mut granted), Some(more)) => {
            granted.merge(more);
            granted
        }
        (None, Some(all)) => all,
        (granted, None) => {
            // Other transfers may need these bytes, and perhaps this request, to finish: release
            // both.
            drop(granted);
            release();
            calls.unless_cancelled(calls.budget.bytes(needed)).await?
        }
    };
    let buffer = ShardBuffer::new(ShardBufferOptions {
        len_hint: Some(len),
        limit_bytes: len,
        granted: Some(permit),
        pool,
        bypass_caches: len >= BYPASS_CACHES_FROM_BYTES,
        ..ShardBufferOptions::default()
    })?;
    let units = Budget::new(BudgetOptions { bytes: options.units_bytes, ..limits });
    Ok((MemorySink::new(Arc::new(buffer), true), units, options))
}
