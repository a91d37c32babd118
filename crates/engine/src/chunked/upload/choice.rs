//! How a blob is named and cut, by what the store says and the caller asks for.

use tidegate_core::chunking::Chunking;
use tidegate_core::digest::DigestFunction;

use super::transfer::Transfer;
use super::{ChunkedUploadOptions, StoreProfile};
use crate::error::{ErrorKind, Result, Setting};

/// What a chunk takes of memory beside its bytes, until the blob is made of all of them: its place
/// in the ledger, and in the message that lists them. It cannot be the budget's, for whoever holds
/// of it must not wait for more; so there is a limit to it of its own.
const KNOWN_BYTES: u64 = 512;

/// So many chunks are fine whatever the budget: 32 MiB.
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

/// How the file is cut; `None` where it is put whole. As everybody else does it, only what is
/// strictly longer than the longest chunk is cut: so equal blobs are cut alike.
///
/// A server may want chunks so small that a long file would have more of them than memory: such a
/// file is put whole, unless the caller would not have that.
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
    // A store that names none takes any: it only checks that the chunks make up the blob.
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
