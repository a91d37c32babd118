//! [`Chunk`]: the bytes of one chunk, verified against its digest.
//!
//! A [`Chunk`] exists only if its bytes match its digest. The bytes stay in the frames that the
//! transport delivered. A clone shares the frames. Only short frames are copied, because each would
//! keep a much larger read buffer alive. This file verifies on the calling thread. `prove` verifies
//! large chunks on blocking threads.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tidegate_core::checksum::{Checksummer, Crc, CrcAlgorithm};
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryClass;

use crate::error::{Error, ErrorKind, Operation, Result};

/// The CRC of chunk bytes and of the marks in a part file's journal.
pub(crate) const CRC: CrcAlgorithm = CrcAlgorithm::Crc32c;

/// Frames shorter than this are copied together. A frame is a slice of a read buffer of the
/// transport, and keeps the whole buffer alive.
const COPIED_BELOW_BYTES: usize = 32 << 10;

/// The bytes of one chunk.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    frames: Arc<[Bytes]>,
    crc: Crc,
}

impl Chunk {
    /// Verifies `bytes`, a complete chunk, against `digest`.
    pub(crate) fn verified(digest: &Digest, bytes: Bytes) -> Result<Self> {
        Self::of_frames(digest, Arc::new([bytes]))
    }

    /// As [`Self::verified`], for several frames.
    pub(super) fn of_frames(digest: &Digest, frames: Arc<[Bytes]>) -> Result<Self> {
        let mut verification = ChunkVerification::new(*digest)?;
        frames.iter().try_for_each(|frame| verification.update(frame))?;
        Ok(Self { crc: verification.finish()?, frames })
    }

    /// The frames, in order.
    pub(crate) fn frames(&self) -> &[Bytes] {
        &self.frames
    }

    /// A copy of the bytes in one frame of its own. The copy does not keep the original buffer
    /// alive, such as the response of a batch of many chunks.
    pub(crate) fn apart(&self) -> Self {
        let bytes = Bytes::from(self.frames.concat());
        Self { frames: Arc::new([bytes]), crc: self.crc }
    }

    /// The CRC of the bytes, by [`CRC`]. It includes their length.
    pub(crate) fn crc(&self) -> Crc {
        self.crc
    }
}

/// Collects frames: copies short ones together, and keeps long ones as they arrived.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    frames: Vec<Bytes>,
    /// The bytes after those in `frames`, not yet frozen.
    short: BytesMut,
}

impl Frames {
    pub(crate) fn push(&mut self, frame: Bytes) {
        if frame.len() >= COPIED_BELOW_BYTES {
            self.join_short();
            self.frames.push(frame);
        } else {
            self.short.extend_from_slice(&frame);
        }
    }

    fn join_short(&mut self) {
        if !self.short.is_empty() {
            self.frames.push(self.short.split().freeze());
        }
    }

    pub(super) fn finish(mut self) -> Arc<[Bytes]> {
        self.join_short();
        self.frames.into()
    }
}

/// A chunk that is still arriving. Hashes each frame as it arrives.
#[derive(Debug)]
pub(crate) struct Gathering {
    verification: ChunkVerification,
    frames: Frames,
}

impl Gathering {
    /// An empty start of the chunk that `digest` names.
    pub(crate) fn new(digest: Digest) -> Result<Self> {
        Ok(Self { verification: ChunkVerification::new(digest)?, frames: Frames::default() })
    }

    /// Appends the next bytes. Fails if the chunk becomes longer than its digest says.
    pub(crate) fn push(&mut self, frame: Bytes) -> Result<()> {
        self.verification.update(&frame)?;
        self.frames.push(frame);
        Ok(())
    }

    /// Returns the chunk if its bytes match its digest.
    pub(crate) fn finish(self) -> Result<Chunk> {
        let crc = self.verification.finish()?;
        Ok(Chunk { frames: self.frames.finish(), crc })
    }
}

/// Hashes a stream of bytes, then compares the result with a digest.
#[derive(Debug)]
pub(crate) struct ChunkVerification {
    digest: Digest,
    hasher: Checksummer,
    crc: Crc,
}

impl ChunkVerification {
    /// A verifier that has seen no bytes.
    pub(crate) fn new(digest: Digest) -> Result<Self> {
        Ok(Self { digest, hasher: hasher(&digest)?, crc: Crc::empty(CRC) })
    }

    /// Hashes the next bytes. Fails if there are more bytes than the digest says.
    pub(crate) fn update(&mut self, bytes: &[u8]) -> Result<()> {
        if self.crc.len().saturating_add(bytes.len() as u64) > self.digest.len {
            return Err(flaw(&self.digest, "it is longer than its digest says".to_owned()));
        }
        self.hasher.update(bytes);
        self.crc.update(bytes);
        Ok(())
    }

    /// Returns the CRC of all bytes if they match the digest.
    pub(crate) fn finish(self) -> Result<Crc> {
        if self.crc.len() != self.digest.len {
            let (expected, actual) = (self.digest.len, self.crc.len());
            return Err(flaw(&self.digest, format!("expected {expected} bytes, got {actual}")));
        }
        let (expected, actual) = (self.digest.checksum(), self.hasher.finish());
        if expected != actual {
            return Err(flaw(&self.digest, format!("expected {expected}, got {actual}")));
        }
        Ok(self.crc)
    }
}

/// A hasher for the function of `digest`.
pub(crate) fn hasher(digest: &Digest) -> Result<Checksummer> {
    Checksummer::new(digest.function.algorithm()).map_err(|error| {
        let message = "this hash function cannot be computed";
        Error::new(ErrorKind::Unsupported, Operation::Verify, digest.to_string(), message)
            .caused_by(error)
    })
}

/// The error for bytes that do not match `digest`. It is retryable, because the bytes may be
/// damaged in transit only.
fn flaw(digest: &Digest, message: String) -> Error {
    Error::new(ErrorKind::Integrity, Operation::Verify, digest.to_string(), message)
        .retryable(RetryClass::Now)
}

#[cfg(test)]
mod tests {
    use tidegate_core::digest::DigestFunction;

    use super::*;

    fn digest(bytes: &[u8]) -> Digest {
        Digest::of(DigestFunction::Blake3, bytes)
    }

    #[test]
    fn frames_of_any_length_make_the_chunk() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let mut gathering = Gathering::new(digest(&bytes)).unwrap();
        let mut rest = Bytes::from(bytes.clone());
        for len in [1, 5, 100_000, 7, 40_000, 30, 0] {
            gathering.push(rest.split_to(len)).unwrap();
        }
        gathering.push(rest).unwrap();
        let chunk = gathering.finish().unwrap();
        assert_eq!(chunk.frames().concat(), bytes);
        assert_eq!(chunk.crc(), Crc::of(CRC, &bytes));
        assert!(chunk.frames().len() <= 6, "short frames are joined");
    }

    #[test]
    fn wrong_short_and_long_are_no_chunk() {
        let digest = digest(b"abc");
        for bytes in [&b"abd"[..], b"ab", b"abcd", b""] {
            let error = Chunk::verified(&digest, Bytes::copy_from_slice(bytes)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Integrity);
        }
        assert!(Chunk::verified(&digest, Bytes::from_static(b"abc")).is_ok());
    }
}
