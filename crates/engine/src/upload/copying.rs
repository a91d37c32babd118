//! A blob of a remote becomes a blob of another one, or of the same.
//!
//! Between the buckets of one service the provider copies, if it can: no byte passes through this
//! process. Otherwise the blob is read as one verified stream, pinned to its version, and uploaded
//! as it arrives. The stream fails at its end if its checksum does not agree, and then no blob is
//! made.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use super::landed::Making;
use super::{Transfer, UploadOptions, condition, copied_parts, kept, landed, proof};
use crate::error::{ErrorKind, Result};
use crate::remote::{
    BlobInfo, CopySource, Guarantee, Location, Precondition, Write, WriteOptions, WriteProfile,
    WriteWay, Written,
};
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
    let write = target.write()?;
    let profile = write.write_profile(&options.write.precondition);
    let (Some(from), Some(len)) = (source_at(source, info, target)?, info.len_bytes) else {
        return Ok(None);
    };
    let mut own = options.write.clone();
    own.headers.extend(write.blob_headers());
    let Some(write) = described(info, &own, &profile) else { return Ok(None) };
    profile.check(&write.precondition, Guarantee::Atomic, target.display())?;
    let start = Instant::now();
    let transfer = Transfer {
        budget: options.budget.clone(),
        progress: Arc::clone(&options.progress),
        window: Arc::new(TransferWindow::new(options.window)),
        unconfirmed: AtomicBool::new(true),
        notes: Mutex::default(),
        target: target.clone(),
        calls,
        options: UploadOptions { write, ..options },
    };
    let transfer = Arc::new(transfer);
    let copied = copy(&transfer, &profile, &from, info, len).await?;
    let Some((written, form)) = copied else { return Ok(None) };
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
        form,
        chunks: None,
        notes: transfer.take_notes(),
        source_bytes: None,
        mirrors: Vec::new(),
        memory: None,
    }))
}

/// The source as the target's service names it; `None` if the service does not copy it.
fn source_at(source: &Location, info: &BlobInfo, target: &Location) -> Result<Option<CopySource>> {
    let from = CopySource::new(&source.blob).at(info.version.clone());
    if Arc::ptr_eq(&source.remote, &target.remote) {
        return Ok(Some(from));
    }
    let bucket = source.remote.as_write().and_then(Write::bucket);
    Ok(match (bucket, target.write()?.bucket()) {
        (Some(source), Some(target)) if source.service == target.service => {
            let is_same = source.name == target.name;
            Some(from.in_bucket((!is_same).then_some(source.name)))
        }
        _ => None,
    })
}

/// The options of the copy; `None` if the provider cannot make a copy so described.
///
/// A copy is described as its source. What the caller gives replaces the whole description, so the
/// rest is taken from the facts. A copy with a condition has a mark, by which it is recognised.
fn described(
    info: &BlobInfo,
    options: &WriteOptions,
    profile: &WriteProfile,
) -> Option<WriteOptions> {
    let is_plain = !options.describes() && options.storage_class.is_none();
    if is_plain && options.precondition == Precondition::None {
        return Some(options.clone());
    }
    let texts = [&options.content_type, &options.content_encoding, &options.cache_control];
    let describes_more = texts.iter().any(|text| text.is_some()) || !options.headers.is_empty();
    if describes_more && !profile.copy_describes {
        return None;
    }
    Some(kept::description(info, options, profile).options)
}

async fn copy(
    transfer: &Arc<Transfer>,
    profile: &WriteProfile,
    from: &CopySource,
    info: &BlobInfo,
    len: u64,
) -> Result<Option<(Written, Form)>> {
    let precondition = &transfer.options.write.precondition;
    let is_conditional = *precondition != Precondition::None;
    let part_bytes = transfer.options.part_bytes.filter(|bytes| *bytes < len);
    let is_kept = !is_conditional || profile.copy_guarantee == Guarantee::Atomic;
    let has_copies = profile.parts.as_ref().is_some_and(|parts| parts.copies) && len > 0;
    let in_parts = has_copies && part_bytes.is_some();
    let fits = profile.copy_bytes_max.is_some_and(|max| len <= max);
    let is_whole_possible = fits && is_kept;
    if !has_copies && !is_whole_possible {
        return Ok(None);
    }
    condition::check(transfer, precondition).await?;
    transfer.progress.expect(Some(len));
    if is_whole_possible && !in_parts {
        match whole(transfer, from, len).await {
            Ok(written) => {
                transfer.progress.done(len);
                return Ok(Some((written, Form::Copied)));
            }
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(error),
        }
    }
    if !has_copies {
        return Ok(None);
    }
    match condition::prove(transfer, WriteWay::Parts).await {
        Ok(()) => {}
        // The service may keep the condition of a write in one request.
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
        Err(error) => return Err(error),
    }
    let options = kept::description(info, &transfer.options.write, profile).options;
    match copied_parts::copy(transfer, from, len, options).await {
        Ok(written) => Ok(Some((written, Form::Copied))),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            transfer.progress.begin_anew(len, 0);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Copies in one request.
async fn whole(transfer: &Transfer, from: &CopySource, len: u64) -> Result<Written> {
    let (write, blob) = (transfer.write()?, &transfer.target.blob);
    let options = match transfer.options.write.precondition {
        Precondition::None => transfer.options.write.clone(),
        _ => landed::marked(&transfer.options.write)?,
    };
    let call = |_| write.copy(from, blob, &options);
    let look = || write.landed(blob, &options);
    transfer.make_blob(Making::Stored(transfer.copy_limit(len)), call, look).await
}
