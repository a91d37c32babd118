//! A blob of a remote becomes a blob of another one, or of the same.
//!
//! Within one remote the provider copies, if it can: no byte passes through this process. Otherwise
//! the blob is read as one verified stream, pinned to its version, and uploaded as it arrives. The
//! stream fails at its end if its checksum does not agree, and then no blob is made.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use super::{Transfer, UploadOptions, condition, proof};
use crate::error::{ErrorKind, Result};
use crate::remote::{BlobInfo, CopySource, Guarantee, Location, WriteWay};
use crate::report::{Form, Report};
use crate::transfer::attempt::Calls;
use crate::transfer::window::TransferWindow;
use crate::verified::Verified;

/// Copies `source`, which has these facts, by the provider itself. `None` if it cannot.
pub(crate) async fn by_provider(
    source: &Location,
    info: &BlobInfo,
    target: &Location,
    options: UploadOptions,
    calls: Calls,
) -> Result<Option<Report>> {
    let is_same = Arc::ptr_eq(&source.remote, &target.remote);
    let write = target.write()?;
    let profile = write.write_profile(&options.write.precondition);
    let fits = |max: u64| info.len_bytes.is_some_and(|len| len <= max);
    if !is_same || !profile.copy_bytes_max.is_some_and(fits) {
        return Ok(None);
    }
    let precondition = options.write.precondition.clone();
    profile.check(&precondition, Guarantee::Atomic, target.display())?;
    let start = Instant::now();
    let transfer = Transfer {
        budget: options.budget.clone(),
        progress: Arc::clone(&options.progress),
        window: Arc::new(TransferWindow::new(options.window)),
        unconfirmed: AtomicBool::new(true),
        notes: Mutex::default(),
        target: target.clone(),
        calls,
        options,
    };
    condition::check(&transfer, &precondition).await?;
    match condition::prove(&transfer, WriteWay::Copy).await {
        Ok(()) => {}
        // The service may keep the condition of another kind of write.
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
        Err(error) => return Err(error),
    }
    let from = CopySource { blob: source.blob.clone(), version: info.version.clone() };
    let copy = || write.copy(&from, &target.blob, &transfer.options.write);
    let copied = transfer.calls.attempt(transfer.commit_limit(), |_| copy()).await;
    let written = match copied {
        Ok(written) => written,
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
        Err(error) => return Err(error),
    };
    let len = info.len_bytes.unwrap_or_default();
    transfer.progress.expect(Some(len));
    transfer.progress.done(len);
    let (verified, found) = proof::compare_copy(&transfer, info, written).await?;
    Ok(Some(Report {
        bytes: len,
        resumed_bytes: 0,
        elapsed: start.elapsed(),
        totals: transfer.calls.stats.totals(),
        held_bytes_peak: transfer.budget.held_bytes_peak(),
        info: found,
        digest: None,
        checksums: match &verified {
            Verified::By(checksums) => checksums.clone(),
            _ => Vec::new(),
        },
        verified,
        form: Form::Copied,
        chunks: None,
        notes: transfer.take_notes(),
        source_bytes: None,
        mirrors: Vec::new(),
        memory: None,
    }))
}
