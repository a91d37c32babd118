//! The report of a download in shards.

use std::time::Duration;

use tidegate_core::range::ByteRange;

use super::ShardedDownloadOptions;
use super::transfer::Transferred;
use crate::remote::BlobInfo;
use crate::report::{Form, MirrorReport, Report};
use crate::transfer::checks::Proof;
use crate::verified::Verified;

pub(super) fn report(
    transfer: Transferred,
    mirrors: Vec<MirrorReport>,
    options: &ShardedDownloadOptions,
    elapsed: Duration,
) -> Report {
    Report {
        bytes: transfer.bytes,
        resumed_bytes: transfer.resumed_bytes,
        elapsed,
        totals: options.progress.stats().totals(),
        held_bytes_peak: options.budget.held_bytes_peak(),
        info: transfer.info,
        checksums: transfer.proof.computed,
        verified: transfer.proof.verified,
        digest: None,
        form: Form::Shards,
        chunks: None,
        notes: transfer.notes,
        source_bytes: None,
        mirrors,
        memory: transfer.memory,
    }
}

/// A note if the end cannot be verified. Without a length, a connection that is closed early looks
/// like the end.
pub(super) fn unproved_end(
    info: &BlobInfo,
    proof: &Proof,
    bytes: u64,
    options: &ShardedDownloadOptions,
) -> Option<String> {
    let wanted = match &options.range {
        Some(ByteRange::Bounded(range)) => Some(range.end - range.start),
        _ => None,
    };
    let unproved = info.len_bytes.is_none()
        && matches!(proof.verified, Verified::Not(_))
        && wanted != Some(bytes);
    unproved
        .then(|| "the server provides no length: the end of the blob cannot be verified".to_owned())
}
