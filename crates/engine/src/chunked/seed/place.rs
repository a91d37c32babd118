//! [`SeedPlace`]: the place of a chunk in a local file or buffer.
//!
//! The content is not trusted, because other programs may change it. A chunk that fits in memory is
//! read and verified at once. A longer chunk is read in pieces:
//!
//! - If the target can be written again, each piece is written first and the whole chunk is
//!   verified afterwards.
//! - Otherwise the chunk is verified first and then read a second time. [`Proven`] checks each
//!   piece of the second read.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_core::checksum::Crc;
use tidegate_core::digest::Digest;
use tokio_util::sync::CancellationToken;

use crate::buffer::ShardBuffer;
use crate::chunked::chunk::{CRC, Chunk, ChunkVerification};

/// The size of one read. It fits a core's cache.
const PIECE_BYTES: u64 = 256 << 10;

/// The place of a chunk in a local file or buffer.
#[derive(Clone, Debug)]
pub(crate) struct SeedPlace {
    source: Source,
    /// Offset of the chunk's first byte in `source`.
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

    /// Reads and verifies the chunk that `digest` names. Returns `None` if the bytes no longer
    /// match. Holds the whole chunk in memory. Blocks.
    pub(crate) fn read(&self, digest: &Digest) -> Option<Chunk> {
        Chunk::verified(digest, self.bytes(0, digest.len)?).ok()
    }

    /// Reads the piece at `at` of a chunk of `len` bytes, without verifying it. Returns `None` if
    /// the source is too short. Blocks.
    pub(crate) fn piece(&self, at: u64, len: u64) -> Option<Bytes> {
        self.bytes(at, PIECE_BYTES.min(len.checked_sub(at)?))
    }

    /// Reads and verifies the chunk that `digest` names, piece by piece. Returns `None` if the
    /// bytes no longer match, or if it is cancelled. Blocks.
    pub(crate) fn verify(self, digest: &Digest, cancel: &CancellationToken) -> Option<Proven> {
        let mut verification = ChunkVerification::new(*digest).ok()?;
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < digest.len {
            let piece = self.piece(at, digest.len).filter(|_| !cancel.is_cancelled())?;
            verification.update(&piece).ok()?;
            pieces.push(Crc::of(CRC, &piece));
            at += piece.len() as u64;
        }
        verification.finish().ok()?;
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

/// A chunk that has been verified and is read a second time. It keeps the CRC of each piece: 24
/// bytes for each 256 KiB, so a chunk of 64 MiB takes 6 KiB.
///
/// A change by accident does not match the CRC, and the chunk is fetched. A change that was made to
/// match the CRC is found by the hash of the whole blob, as is any wrong byte that a target has
/// received and cannot take back.
#[derive(Debug)]
pub(crate) struct Proven {
    place: SeedPlace,
    len: u64,
    pieces: Vec<Crc>,
}

impl Proven {
    /// Reads the piece at `at`, the start of a piece. Returns `None` if its CRC differs from the
    /// first read. Blocks.
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
        let verified = SeedPlace::in_file(&file, 5).verify(&digest, &cancel).unwrap();
        let starts = [0, PIECE_BYTES, 2 * PIECE_BYTES];
        let pieces: Vec<_> = starts.iter().map(|at| verified.piece(*at).unwrap()).collect();
        assert_eq!(pieces.concat(), bytes);
        file.write_all_at(b"other", 5 + PIECE_BYTES).unwrap();
        assert!(verified.piece(PIECE_BYTES).is_none() && verified.piece(0).is_some());
        file.set_len(5 + 2 * PIECE_BYTES + 1).unwrap();
        assert!(verified.piece(2 * PIECE_BYTES).is_none(), "it is too short");
    }

    #[test]
    fn what_is_not_there_is_not_proved() {
        let (_, digest, file) = long();
        let cancel = CancellationToken::new();
        assert!(SeedPlace::in_file(&file, 4).verify(&digest, &cancel).is_none());
        assert!(SeedPlace::in_file(&file, u64::MAX).verify(&digest, &cancel).is_none());
        cancel.cancel();
        assert!(
            SeedPlace::in_file(&file, 5).verify(&digest, &cancel).is_none(),
            "it was cancelled"
        );
    }
}
