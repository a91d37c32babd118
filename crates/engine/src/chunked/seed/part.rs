//! What of an earlier attempt's part file is right, chunk by chunk.
//!
//! The file's journal says what may be: its marks, of whatever blob they were, since a chunk in its
//! place is right if its digest is. A file without a journal of ours is looked at as a whole.

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
use crate::chunked::chunk::Proving;
use crate::sink::Mark;
use crate::sink::file::journal::Found;

/// One read: small enough for a core's cache.
const READ_BYTES: usize = 256 << 10;

/// The chunks of `manifest` that stand in their places in `file`, whose journal is `found`, in order.
/// Blocks.
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
            // Fewer are slower, not worse.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    kept.sort_unstable_by_key(|(_, mark)| mark.start);
    Ok(kept)
}

/// The chunk's CRC, if it is there, and nothing is cancelled before that is known.
fn check(
    file: &File,
    offset: u64,
    digest: &Digest,
    buffer: &mut [u8],
    cancel: &CancellationToken,
) -> Option<Crc> {
    let mut proving = Proving::new(*digest).ok()?;
    let mut done = 0;
    while done < digest.len && !cancel.is_cancelled() {
        let left = usize::try_from(digest.len - done).unwrap_or(usize::MAX);
        let piece = buffer.get_mut(..left.min(READ_BYTES))?;
        file.read_exact_at(piece, offset + done).ok()?;
        proving.update(piece).ok()?;
        done += piece.len() as u64;
    }
    proving.finish().ok()
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
