//! Memory for a whole blob, taken from the budget at once.

use std::sync::Arc;

use super::DestinationOptions;
use crate::budget::{Budget, BudgetOptions};
use crate::buffer::{ShardBuffer, ShardBufferOptions, committed_bytes};
use crate::error::{ErrorKind, Result};
use crate::sink::MemorySink;
use crate::transfer::attempt::Calls;
use crate::transfer::limits::BYPASS_CACHES_FROM_BYTES;

/// Memory for the blob, and for the `units_bytes` that its units hold on their way into it, which the
/// budget that is given back pays for.
///
/// All of it is taken at once: a download that took the blob's memory first and then waited for its
/// units' could wait for another one that does the same.
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
    // Recycled memory is counted in huge pages, which the budget may be too small for.
    let committed = committed_bytes(len);
    let pool = (committed <= limits.bytes).then(|| options.pool.clone());
    let blob = if pool.is_some() { committed } else { len };
    let needed = blob.saturating_add(options.units_bytes).min(limits.bytes);
    let granted = options.granted.permit.take();
    let more = needed.saturating_sub(granted.as_ref().map_or(0, |permit| permit.bytes()));
    let permit = match (granted, calls.budget.try_bytes(more)) {
        (Some(mut granted), Some(more)) => {
            granted.merge(more);
            granted
        }
        (None, Some(all)) => all,
        (granted, None) => {
            // Other transfers need bytes to finish, and perhaps this request: releases both.
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
