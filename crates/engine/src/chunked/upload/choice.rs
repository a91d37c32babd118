//! How a blob is named and cut: combines the store's profile and the caller's options.

use tidegate_core::chunking::Chunking;
use tidegate_core::digest::DigestFunction;

use super::transfer::Transfer;
use super::{ChunkedUploadOptions, StoreProfile};
use crate::error::{ErrorKind, Result, Setting};

/// The memory of a chunk next to its bytes, until the blob is made: its entry in the ledger, and in
/// the message that lists all chunks. It is not charged to the budget, because a holder of budget
/// bytes must not wait for more of them. So it has a limit of its own.
const KNOWN_BYTES: u64 = 512;

/// This number of chunks is allowed with any budget: 65,536 chunks of 512 bytes are 32 MiB.
const CHUNKS_MAX_MIN: u64 = 1 << 16;

/// The function that names the blob and its chunks.
pub(super) fn digest_function(
    profile: &StoreProfile,
    options: &ChunkedUploadOptions,
    transfer: &Transfer,
) -> Result<DigestFunction> {
    let named = options.digest.map(|digest| digest.function);
    let preferred = profile.digest_functions.first().copied();
    let Some(function) = options.digest_function.or(named).or(preferred) else {
        let message = "the store names no digest function";
        return Err(transfer.error(ErrorKind::Unsupported, message));
    };
    if let Some(named) = named.filter(|named| *named != function) {
        let message = format!("expected a digest by {function}, got one by {named}");
        return Err(transfer.error(ErrorKind::Invalid, message));
    }
    if !profile.digest_functions.contains(&function) {
        let message = format!("the store does not name blobs by {function}");
        return Err(transfer.error(ErrorKind::Unsupported, message));
    }
    Ok(function)
}

/// How the file is cut; `None` if it is put whole. As in other clients, a file is cut only if it is
/// strictly longer than the longest chunk, so that all clients cut equal blobs alike.
///
/// A server may want chunks so small that the list of a long file's chunks exceeds memory. Such a
/// file is put whole, unless the caller has turned that off.
pub(super) fn chunking(
    profile: &StoreProfile,
    options: &ChunkedUploadOptions,
    transfer: &Transfer,
) -> Result<Option<Chunking>> {
    let len = transfer.file.len();
    if options.is_whole {
        return Ok(None);
    }
    let Some(chunking) = options.chunking.or_else(|| profile.chunkings.first().copied()) else {
        return Ok(None);
    };
    // A store that names no chunking takes any: it only checks that the chunks make up the blob.
    let is_known = profile.chunkings.is_empty() || profile.chunkings.contains(&chunking);
    let is_known = profile.can_splice && is_known;
    let fits = profile.blob_bytes_max.is_none_or(|max| chunking.chunk_bytes_max() <= max);
    if !is_known || !fits || len <= chunking.chunk_bytes_max() {
        return Ok(None);
    }
    let chunk_bytes = match &chunking {
        Chunking::FastCdc2020(params) => params.avg_bytes(),
        Chunking::RepMaxCdc(params) => params.min_bytes(),
        _ => chunking.chunk_bytes_max(),
    };
    let chunks = len / chunk_bytes.max(1);
    let chunks_max = (transfer.budget.limits().bytes / KNOWN_BYTES).max(CHUNKS_MAX_MIN);
    if chunks <= chunks_max {
        return Ok(Some(chunking));
    }
    if options.whole_fallback {
        return Ok(None);
    }
    let message = format!("expected at most {chunks_max} chunks, and it has some {chunks}");
    Err(transfer.error(ErrorKind::Unsupported, message).with_hint(Setting::Memory))
}
