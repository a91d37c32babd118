//! The lengths of parts. Pure.
//!
//! Parts are all equal except for the last, because some services refuse others (Cloudflare's R2).
//! 8 MiB are enough to hide the time between two requests, and few enough to lose when a
//! connection breaks. A long blob gets longer parts, with room below the limit on their number.

use crate::remote::{PartOrder, PartProfile};

/// Why a blob cannot be cut into parts that the remote takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPlan {
    #[error("it needs parts of {bytes} bytes, and the remote takes {max}")]
    PartTooLong { bytes: u64, max: u64 },
    #[error("it has {parts} parts of {bytes} bytes, and the remote takes at most {max}")]
    TooManyParts { parts: u64, bytes: u64, max: u32 },
}

/// The length of parts that a remote with a limit of 10,000 takes up to 78 GiB of.
pub(super) const PART_BYTES: u64 = 8 << 20;

/// Parts of a stream of unknown length double in length after each this many.
const PARTS_OF_A_STEP: u32 = 1_000;

const MIB: u64 = 1 << 20;

/// Longer parts are a whole number of MiB.
fn rounded(bytes: u64) -> u64 {
    bytes.div_ceil(MIB).saturating_mul(MIB)
}

/// The length of parts by that of the blob, within the number of parts.
fn by_len(len: u64, profile: &PartProfile) -> u64 {
    if len.div_ceil(PART_BYTES) <= u64::from(profile.count_max) {
        return PART_BYTES;
    }
    // 95 of 100, so that a plan does not end exactly at the limit.
    let count = (u64::from(profile.count_max) / 100 * 95).max(1);
    let bytes = rounded(len.div_ceil(count));
    // The longest blobs need every part in its full length.
    if bytes > profile.bytes_max { profile.bytes_max } else { bytes }
}

/// The length of the parts of a blob of `len` bytes.
pub(super) fn part_bytes(
    len: u64,
    wished: Option<u64>,
    profile: &PartProfile,
) -> Result<u64, NoPlan> {
    if profile.order == PartOrder::InOrder {
        return Ok(wished.unwrap_or(PART_BYTES));
    }
    let bytes = wished.unwrap_or_else(|| by_len(len, profile)).max(profile.bytes_min);
    let bytes = bytes.div_ceil(profile.bytes_multiple).saturating_mul(profile.bytes_multiple);
    let parts = len.div_ceil(bytes.max(1));
    if bytes > profile.bytes_max {
        return Err(NoPlan::PartTooLong { bytes, max: profile.bytes_max });
    }
    if parts > u64::from(profile.count_max) {
        return Err(NoPlan::TooManyParts { parts, bytes, max: profile.count_max });
    }
    Ok(bytes)
}

/// The length of part `number` of a stream whose first part has `first` bytes.
pub(super) fn part_bytes_of_stream(number: u32, first: u64, profile: &PartProfile) -> u64 {
    if profile.is_equal || profile.count_max == u32::MAX {
        return first;
    }
    let step = number.saturating_sub(1) / PARTS_OF_A_STEP;
    let bytes = first.saturating_mul(1_u64.checked_shl(step).unwrap_or(u64::MAX));
    bytes.min(profile.bytes_max)
}

/// The longest stream that a remote with equal parts takes; `None` if parts can grow.
pub(crate) fn stream_bytes_max(
    profile: &PartProfile,
    wished: Option<u64>,
    expected: Option<u64>,
) -> Option<u64> {
    let bytes = wished.unwrap_or_else(|| by_len(expected.unwrap_or(0), profile));
    profile.is_equal.then(|| bytes.max(profile.bytes_min).saturating_mul(profile.count_max.into()))
}

#[cfg(test)]
mod tests;
