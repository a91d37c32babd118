//! Finds the chunks in the part file of an earlier attempt that are at their place and correct.
//!
//! The marks of the file's journal say which ranges to check. The marks may belong to another blob:
//! a chunk is accepted if its bytes match its digest. Without a journal of ours the whole file is
//! checked.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tidegate_core::checksum::Crc;
use tidegate_core::digest::Digest;
use tidegate_core::extents::Extents;
use tokio_util::sync::CancellationToken;

use crate::chunked::Manifest;
use crate::chunked::chunk::ChunkVerification;
use crate::sink::Mark;
use crate::sink::file::journal::Found;

/// The size of one read. It fits a core's cache.
const READ_BYTES: usize = 256 << 10;

/// Returns the chunks of `manifest` that are at their place in `file`, in order. `found` is the
/// journal of `file`. Blocks.
pub(crate) fn chunks(
    file: &File,
    found: Option<&Found>,
    manifest: &Manifest,
    cancel: &CancellationToken,
) -> io::Result<Vec<(Digest, Mark)>> {
    let len = file.metadata()?.len();
    let mut maybe = Extents::new();
    match found {
        Some(found) => found.marks.iter().for_each(|mark| {
            maybe.insert(mark.start..mark.start + mark.crc.len());
        }),
        None => {
            maybe.insert(0..len);
        }
    }
    let places: Vec<(u64, Digest)> = manifest
        .offsets()
        .filter(|(offset, digest)| maybe.contains(&(*offset..offset + digest.len)))
        .map(|(offset, digest)| (offset, *digest))
        .collect();
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let (next, kept) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        let mut buffer = vec![0; READ_BYTES];
        while let Some((offset, digest)) = places.get(next.fetch_add(1, Ordering::Relaxed))
            && !cancel.is_cancelled()
        {
            if let Some(crc) = check(file, *offset, digest, &mut buffer, cancel) {
                let mark = Mark { start: *offset, crc };
                kept.lock().unwrap_or_else(PoisonError::into_inner).push((*digest, mark));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(places.len());
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // With fewer threads the work only takes longer.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    kept.sort_unstable_by_key(|(_, mark)| mark.start);
    Ok(kept)
}

/// Returns the chunk's CRC if its bytes match its digest. Returns `None` if it is cancelled first.
fn check(
    file: &File,
    offset: u64,
    digest: &Digest,
    buffer: &mut [u8],
    cancel: &CancellationToken,
) -> Option<Crc> {
    let mut verification = ChunkVerification::new(*digest).ok()?;
    let mut done = 0;
    while done < digest.len && !cancel.is_cancelled() {
        let left = usize::try_from(digest.len - done).unwrap_or(usize::MAX);
        let piece = buffer.get_mut(..left.min(READ_BYTES))?;
        file.read_exact_at(piece, offset + done).ok()?;
        verification.update(piece).ok()?;
        done += piece.len() as u64;
    }
    verification.finish().ok()
}

#[cfg(test)]
mod tests {
    use tidegate_core::digest::DigestFunction;

    use super::*;

    #[test]
    fn what_stands_in_its_place_is_kept() {
        let function = DigestFunction::Sha256;
        let texts = [&b"aaa"[..], b"bb", b"cccc"];
        let chunks_of = texts.map(|text| Digest::of(function, text)).to_vec();
        let blob = Digest::of(function, &texts.concat());
        let manifest = Manifest::new(blob, chunks_of.clone(), None).unwrap();
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"aaaXXcccc", 0).unwrap();
        let kept = chunks(&file, None, &manifest, &CancellationToken::new()).unwrap();
        let kept: Vec<_> = kept.into_iter().map(|(digest, mark)| (mark.start, digest)).collect();
        assert_eq!(kept, [(0, chunks_of[0]), (5, chunks_of[2])]);
        file.set_len(8).unwrap();
        assert_eq!(chunks(&file, None, &manifest, &CancellationToken::new()).unwrap().len(), 1);
    }
}
