//! A blob of a remote becomes a blob of another one, or of the same.
//!
//! Within one remote the provider copies, if it can: no byte passes through this process. Otherwise
//! the blob is read as one verified stream, pinned to its version, and uploaded as it arrives. The
//! stream fails at its end if its checksum does not agree, and then no blob is made.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::time::Instant;

use super::{Transfer, UploadOptions, landed, proof};
use crate::error::{ErrorKind, Result};
use crate::remote::{BlobInfo, CopySource, Guarantee, Location, Precondition, Written};
use crate::report::{Form, Report};
use crate::store::SendProgress;
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
        target: target.clone(),
        calls,
        options,
    };
    landed::check_precondition(&transfer, &precondition).await?;
    let from = CopySource { blob: source.blob.clone(), version: info.version.clone() };
    let copy = |_: SendProgress| write.copy(&from, &target.blob, &transfer.options.write);
    let look = || async { already_copied(&transfer, info).await };
    let written = match transfer.make_blob(None, copy, look).await {
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
        notes: Vec::new(),
        mirrors: Vec::new(),
        memory: None,
    }))
}

/// The copy, if a request without a response has made it. A copy has no mark, because it keeps the
/// metadata of its source. But the condition held before the first request, so a blob with the
/// length and the checksum of the source is the copy. Without a condition another request is safe.
async fn already_copied(transfer: &Transfer, source: &BlobInfo) -> Result<Option<Written>> {
    if transfer.options.write.precondition == Precondition::None {
        return Ok(None);
    }
    let target = &transfer.target;
    let found = match target.remote.stat(&target.blob).await {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_copy = found.len_bytes == source.len_bytes
        && proof::shared_checksum(&found, source).is_some_and(|(copy, source)| copy == source);
    Ok(is_copy.then_some(Written { version: found.version, checksums: found.checksums }))
}
