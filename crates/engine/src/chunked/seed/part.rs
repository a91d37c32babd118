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
use crate::sink::file::part_file::holds;

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

/// The marks of a journal whose bytes are there, each byte once; `None` where it is cancelled
/// before all were looked at. Blocks.
pub(crate) fn marks(file: &File, found: &Found, cancel: &CancellationToken) -> Option<Vec<Mark>> {
    let mut seen = Extents::new();
    let mut kept = Vec::new();
    for mark in &found.marks {
        if cancel.is_cancelled() {
            return None;
        }
        let range = mark.start..mark.start + mark.crc.len();
        let is_new = seen.overlapping(range.clone()).next().is_none();
        if is_new && holds(file, mark.start, &mark.crc).unwrap_or(false) {
            seen.insert(range);
            kept.push(*mark);
        }
    }
    Some(kept)
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

    #[test]
    fn nothing_is_said_of_what_was_not_looked_at() {
        use crate::remote::Version;
        use crate::sink::file::journal::{CrcName, Identity, Journal, Sealing};
        let file = tempfile::tempfile().unwrap();
        let identity = Identity {
            source: "digest:x".to_owned(),
            selected: None,
            revision: None,
            coding: None,
            version: Version::ETag("x".to_owned()),
            len_bytes: 3,
            crc: CrcName::Crc32c,
        };
        let sealing = Sealing::new(None, std::ffi::OsStr::new("part"));
        let mut journal = Journal::create(&file, &sealing, &identity).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        let mark = Mark { start: 0, crc: Crc::of(crate::chunked::chunk::CRC, b"abc") };
        journal.append(&file, mark).unwrap();
        let found = Journal::find(&file, &sealing).unwrap().journal().unwrap();
        let cancel = CancellationToken::new();
        assert_eq!(marks(&file, &found, &cancel), Some(vec![mark]));
        cancel.cancel();
        assert_eq!(marks(&file, &found, &cancel), None);
    }
}
