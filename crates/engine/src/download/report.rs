//! What a download reports at its end.

use std::time::Duration;

use bytes::Bytes;
use tidegate_core::checksum::Checksum;
use tidegate_core::range::ByteRange;

use super::DownloadOptions;
use super::checks::Proof;
use super::window::Transfer;
use crate::read::ReadTotals;
use crate::remote::{BlobInfo, Version};

/// The outcome of a finished download.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Bytes delivered, those of an earlier run included.
    pub bytes: u64,
    /// Of these, bytes that an earlier run had left and that were checked again.
    pub resumed_bytes: u64,
    /// From the call to the target's having its name.
    pub elapsed: Duration,
    /// Requests, restarts and wasted bytes.
    pub totals: ReadTotals,
    /// The most bytes of the budget that were held at once, by all transfers that share it, up to
    /// the end of this one.
    pub held_bytes_peak: u64,
    /// What the remote said of the blob.
    pub info: BlobInfo,
    /// Checksums computed of the bytes delivered.
    pub checksums: Vec<Checksum>,
    /// Those of them that agree with what the remote keeps or the caller expected.
    pub verified: Vec<Checksum>,
    /// Why nothing was verified, where nothing was.
    pub unverified: Option<String>,
    /// What happened on the way that the user may want to know.
    pub notes: Vec<String>,
    /// The blob, where the target was memory; the memory is given back when the last slice of it
    /// is gone.
    pub memory: Option<Bytes>,
}

impl Report {
    /// The version that was fetched.
    pub fn version(&self) -> Option<&Version> {
        self.info.version.as_ref()
    }

    /// Whether at least one checksum of the whole blob agrees.
    pub fn is_verified(&self) -> bool {
        !self.verified.is_empty()
    }
}

pub(super) fn report(transfer: Transfer, options: &DownloadOptions, elapsed: Duration) -> Report {
    Report {
        bytes: transfer.bytes,
        resumed_bytes: transfer.resumed_bytes,
        elapsed,
        totals: options.progress.stats().totals(),
        held_bytes_peak: options.budget.held_bytes_peak(),
        info: transfer.info,
        checksums: transfer.proof.computed,
        verified: transfer.proof.verified,
        unverified: transfer.proof.unverified,
        notes: transfer.notes,
        memory: transfer.memory,
    }
}

/// Where no answer tells the length, a connection that is cut in good order looks like the end.
pub(super) fn unproved_end(
    info: &BlobInfo,
    proof: &Proof,
    bytes: u64,
    options: &DownloadOptions,
) -> Option<String> {
    let wanted = match &options.range {
        Some(ByteRange::Bounded(range)) => Some(range.end - range.start),
        _ => None,
    };
    let unproved = info.len_bytes.is_none() && proof.verified.is_empty() && wanted != Some(bytes);
    unproved.then(|| "the server told no length: that this is the end cannot be proved".to_owned())
}
