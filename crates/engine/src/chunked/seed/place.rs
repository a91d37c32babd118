//! [`SeedPlace`]: where a chunk is at hand, in a file or in memory that others may be changing.
//!
//! Nothing there is believed. A chunk that may be held is read and verified at once. A longer one is
//! read in pieces: where what is written can be written again, it is written first and proved
//! afterwards; where it cannot, it is proved first and read a second time, and [`Proven`] knows each
//! piece again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_core::checksum::Crc;
use tidegate_core::digest::Digest;
use tokio_util::sync::CancellationToken;

use crate::buffer::ShardBuffer;
use crate::chunked::chunk::{CRC, Chunk, Proving};

/// One read: small enough for a core's cache.
const PIECE_BYTES: u64 = 256 << 10;

/// Where a chunk is at hand.
#[derive(Clone, Debug)]
pub(crate) struct SeedPlace {
    source: Source,
    /// Of its first byte.
    offset: u64,
}

#[derive(Clone, Debug)]
enum Source {
    File(Arc<File>),
    Buffer(Arc<ShardBuffer>),
}

impl SeedPlace {
    /// At `offset` of a file.
    pub(crate) fn in_file(file: &Arc<File>, offset: u64) -> Self {
        Self { source: Source::File(Arc::clone(file)), offset }
    }

    /// At `offset` of a buffer.
    pub(crate) fn in_buffer(buffer: &Arc<ShardBuffer>, offset: u64) -> Self {
        Self { source: Source::Buffer(Arc::clone(buffer)), offset }
    }

    /// Reads the chunk that `digest` names; `None` where it is not there any more. Holds all of it.
    /// Blocks.
    pub(crate) fn read(&self, digest: &Digest) -> Option<Chunk> {
        Chunk::verified(digest, self.bytes(0, digest.len)?).ok()
    }

    /// The piece at `at` of a chunk of `len` bytes, whatever is there now; `None` where that is too
    /// little. Blocks.
    pub(crate) fn piece(&self, at: u64, len: u64) -> Option<Bytes> {
        self.bytes(at, PIECE_BYTES.min(len.checked_sub(at)?))
    }

    /// Reads all of the chunk that `digest` names, piece by piece; `None` where it is not there any
    /// more, and where it is cancelled. Blocks.
    pub(crate) fn prove(self, digest: &Digest, cancel: &CancellationToken) -> Option<Proven> {
        let mut proving = Proving::new(*digest).ok()?;
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < digest.len {
            let piece = self.piece(at, digest.len).filter(|_| !cancel.is_cancelled())?;
            proving.update(&piece).ok()?;
            pieces.push(Crc::of(CRC, &piece));
            at += piece.len() as u64;
        }
        proving.finish().ok()?;
        Some(Proven { place: self, len: digest.len, pieces })
    }

    fn bytes(&self, at: u64, len: u64) -> Option<Bytes> {
        let start = self.offset.checked_add(at)?;
        match &self.source {
            Source::File(file) => {
                let mut bytes = vec![0; usize::try_from(len).ok()?];
                file.read_exact_at(&mut bytes, start).ok()?;
                Some(bytes.into())
            }
            Source::Buffer(buffer) => buffer.slice(start..start.checked_add(len)?).ok(),
        }
    }
}

/// A chunk that was all there. Its pieces are known by their CRCs, which take a byte for each 16 KiB:
/// what changes meanwhile by chance is found out, and costs a fetch; what was made to have the CRC is
/// found by the hash of the whole, as wrong bytes are that a target was given once and for all.
#[derive(Debug)]
pub(crate) struct Proven {
    place: SeedPlace,
    len: u64,
    pieces: Vec<Crc>,
}

impl Proven {
    /// The piece at `at`, where one begins; `None` where it is not what it was. Blocks.
    pub(crate) fn piece(&self, at: u64) -> Option<Bytes> {
        let expected = self.pieces.get(usize::try_from(at / PIECE_BYTES).ok()?)?;
        self.place.piece(at, self.len).filter(|piece| Crc::of(CRC, piece) == *expected)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::digest::DigestFunction;

    use super::*;

    fn long() -> (Vec<u8>, Digest, Arc<File>) {
        let bytes: Vec<u8> = (0..600_000_u32).map(|n| (n / 7).to_le_bytes()[0]).collect();
        let digest = Digest::of(DigestFunction::Blake3, &bytes);
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 5).unwrap();
        (bytes, digest, Arc::new(file))
    }

    #[test]
    fn what_was_proved_is_known_again_piece_by_piece() {
        let (bytes, digest, file) = long();
        let cancel = CancellationToken::new();
        let proven = SeedPlace::in_file(&file, 5).prove(&digest, &cancel).unwrap();
        let starts = [0, PIECE_BYTES, 2 * PIECE_BYTES];
        let pieces: Vec<_> = starts.iter().map(|at| proven.piece(*at).unwrap()).collect();
        assert_eq!(pieces.concat(), bytes);
        file.write_all_at(b"other", 5 + PIECE_BYTES).unwrap();
        assert!(proven.piece(PIECE_BYTES).is_none() && proven.piece(0).is_some());
        file.set_len(5 + 2 * PIECE_BYTES + 1).unwrap();
        assert!(proven.piece(2 * PIECE_BYTES).is_none(), "it is too short");
    }

    #[test]
    fn what_is_not_there_is_not_proved() {
        let (_, digest, file) = long();
        let cancel = CancellationToken::new();
        assert!(SeedPlace::in_file(&file, 4).prove(&digest, &cancel).is_none());
        assert!(SeedPlace::in_file(&file, u64::MAX).prove(&digest, &cancel).is_none());
        cancel.cancel();
        assert!(SeedPlace::in_file(&file, 5).prove(&digest, &cancel).is_none(), "it was cancelled");
    }
}
