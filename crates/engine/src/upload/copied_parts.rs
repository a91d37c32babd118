//! A copy by the provider, in parts: each part is a copy of a range of the source.
//!
//! The parts are pinned to the version of the source. At the end the checksum of the copy is compared
//! with that of the source.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::parted::{commit, ended, part_profile, ranges};
use super::units::Job;
use super::{Made, Transfer, landed};
use crate::error::Result;
use crate::remote::{CompleteRequest, CopySource, StoredPart, WriteOptions, Written};

/// The provider reads and writes a part by itself, so a part is long. A blob of 5 GiB, the longest
/// that S3 copies in one request, has 10.
const PART_BYTES: u64 = 512 << 20;

/// Copies a blob of `len` bytes, with these facts and options.
pub(super) async fn copy(
    transfer: &Arc<Transfer>,
    from: &CopySource,
    len: u64,
    options: WriteOptions,
) -> Result<Written> {
    let options = landed::marked(&options)?;
    let (write, blob) = (transfer.write()?, &transfer.target.blob);
    let limit = transfer.calls.patience(0);
    let upload = transfer.calls.first(limit, |_| write.begin_copies(blob, &options)).await?;
    let profile = part_profile(transfer, &upload)?;
    let part_bytes = match transfer.options.part_bytes {
        Some(wished) => transfer.planned(len, Some(wished), &profile),
        // The longest blobs need longer parts.
        None => transfer.planned(len, None, &profile).map(|bytes| bytes.max(PART_BYTES)),
    };
    let job = Job { transfer: Arc::clone(transfer), upload, profile, journal: None };
    let copied = match part_bytes {
        Ok(part_bytes) => parts(&job, from, len, part_bytes).await,
        Err(error) => Err(error),
    };
    let copied = match copied {
        Ok(parts) => complete(&job, parts).await,
        Err(error) => Err(error),
    };
    ended(&job, copied, false).await.map(|made| made.written)
}

/// Copies the parts, as many at once as the window allows.
async fn parts(job: &Job, from: &CopySource, len: u64, part_bytes: u64) -> Result<Vec<StoredPart>> {
    let transfer = &job.transfer;
    let mut left = ranges(len, part_bytes);
    let (mut in_flight, mut done) = (FuturesUnordered::new(), Vec::new());
    let mut failed = None;
    loop {
        // After a failure nothing is begun, and what is in flight ends before the upload is aborted.
        while failed.is_none() && in_flight.len() < transfer.window.limit() {
            let Some((number, range)) = left.next() else { break };
            in_flight.push(async move {
                let write = transfer.write()?;
                let bytes = range.end - range.start;
                let limit = transfer.copy_limit(bytes);
                let call = |_| write.copy_part(&job.upload, number, from, range.clone());
                let copied = transfer.calls.attempt(limit, call).await?;
                transfer.progress.done(bytes);
                Ok(copied)
            });
        }
        match in_flight.next().await {
            Some(Ok(part)) => done.push(part),
            Some(Err(error)) => failed = failed.or(Some(error)),
            None => break,
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    done.sort_by_key(|part: &StoredPart| part.number);
    Ok(done)
}

async fn complete(job: &Job, parts: Vec<StoredPart>) -> Result<Made> {
    let request = CompleteRequest::new(parts);
    let (parts, len_bytes) = (request.parts.len(), request.len_bytes);
    let written = commit(job, &request).await?;
    Ok(Made {
        written,
        options: job.upload.options.clone(),
        len_bytes,
        resumed_bytes: 0,
        checksum: None,
        parts: u32::try_from(parts).unwrap_or(u32::MAX),
        notes: Vec::new(),
    })
}
