//! [`ChunkVerifier`]: verifies the chunks of a download. It uses blocking threads, so that hashing
//! does not delay the tasks on the runtime's threads.
//!
//! One call on a blocking thread hashes one chunk, or all chunks of one batch. The number of calls
//! that run at once is limited to the number of cores; further calls wait. If a caller is dropped
//! while it waits, its chunks are dropped unverified. A call that has started runs to its end and
//! holds its bytes until then. So after a cancellation at most one batch or chunk for each core is
//! still held.
//!
//! A call hashes its chunks one after another. A variant hashed sixteen chunks side by side, across
//! all requests. It needed less processor time, but gained too little for a download: see "Weighed
//! again" in `docs/benchmarks.md`.

use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use tidegate_core::digest::Digest;
use tokio::sync::Semaphore;

use super::chunk::{Chunk, Frames, Gathering};
use crate::error::{Error, ErrorKind, Operation, Result};

/// Less than this is verified on the calling thread, because the handover would take longer.
const HANDED_OVER_BYTES_MIN: u64 = 32 << 10;

/// A chunk's bytes, not yet verified, and their expected digest.
#[derive(Clone, Debug)]
pub(crate) struct UnverifiedChunk {
    pub(crate) digest: Digest,
    pub(crate) frames: Arc<[Bytes]>,
}

impl UnverifiedChunk {
    /// A chunk whose bytes arrived in one frame.
    pub(crate) fn new(digest: Digest, bytes: Bytes) -> Self {
        Self { digest, frames: Arc::new([bytes]) }
    }

    fn bytes(&self) -> u64 {
        self.frames.iter().map(|frame| frame.len() as u64).sum()
    }

    fn verify(self) -> Result<Chunk> {
        Chunk::of_frames(&self.digest, self.frames)
    }
}

/// Verifies the chunks of one download. Clones share one limit on concurrent calls.
#[derive(Clone, Debug)]
pub(crate) struct ChunkVerifier {
    cores: Arc<Semaphore>,
}

impl Default for ChunkVerifier {
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Self { cores: Arc::new(Semaphore::new(cores)) }
    }
}

impl ChunkVerifier {
    /// Verifies all chunks. The results have the order of the chunks. Cancel-safe.
    ///
    /// # Errors
    ///
    /// For each chunk: `Integrity` if the bytes do not match the digest, `Unsupported` if the hash
    /// function cannot be computed, `Cancelled` if the runtime is shutting down.
    pub(crate) async fn verify_all(&self, unverified: Vec<UnverifiedChunk>) -> Vec<Result<Chunk>> {
        if unverified.iter().map(UnverifiedChunk::bytes).sum::<u64>() < HANDED_OVER_BYTES_MIN {
            return unverified.into_iter().map(UnverifiedChunk::verify).collect();
        }
        let digests: Vec<Digest> = unverified.iter().map(|chunk| chunk.digest).collect();
        // The semaphore is never closed.
        let core = Arc::clone(&self.cores).acquire_owned().await;
        let work = move || {
            let chunks = unverified.into_iter().map(UnverifiedChunk::verify).collect();
            drop(core);
            chunks
        };
        tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|_| digests.iter().map(|digest| Err(cancelled(digest))).collect())
    }

    /// As [`Self::verify_all`], for one chunk.
    async fn verify(&self, chunk: UnverifiedChunk) -> Result<Chunk> {
        let digest = chunk.digest;
        let verified = self.verify_all(vec![chunk]).await.pop();
        verified.unwrap_or_else(|| Err(cancelled(&digest)))
    }
}

fn cancelled(digest: &Digest) -> Error {
    let message = "the runtime is shutting down";
    Error::new(ErrorKind::Cancelled, Operation::Verify, digest.to_string(), message)
}

/// A chunk whose bytes arrive frame by frame.
#[derive(Debug)]
pub(crate) enum Arriving {
    /// Verified at the end, on a blocking thread.
    HandedOver(Digest, Frames),
    /// Verified frame by frame, on the calling thread.
    InPlace(Gathering),
}

impl Arriving {
    /// An empty start of the chunk that `digest` names.
    pub(crate) fn new(digest: Digest) -> Result<Self> {
        if digest.len >= HANDED_OVER_BYTES_MIN {
            Ok(Self::HandedOver(digest, Frames::default()))
        } else {
            Gathering::new(digest).map(Self::InPlace)
        }
    }

    /// Appends the next bytes. The caller must not append more bytes than the digest says.
    pub(crate) fn push(&mut self, frame: Bytes) -> Result<()> {
        match self {
            Self::HandedOver(_, frames) => frames.push(frame),
            Self::InPlace(gathering) => gathering.push(frame)?,
        }
        Ok(())
    }

    /// Returns the chunk if its bytes match its digest.
    pub(crate) async fn finish(self, verifier: &ChunkVerifier) -> Result<Chunk> {
        match self {
            Self::HandedOver(digest, frames) => {
                verifier.verify(UnverifiedChunk { digest, frames: frames.finish() }).await
            }
            Self::InPlace(gathering) => gathering.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tidegate_core::checksum::Crc;
    use tidegate_core::digest::DigestFunction;

    use super::*;
    use crate::chunked::chunk::CRC;

    async fn verify_one(digest: Digest, bytes: Bytes) -> Result<Chunk> {
        ChunkVerifier::default().verify(UnverifiedChunk::new(digest, bytes)).await
    }

    /// The same bytes, split into frames of `len` bytes.
    fn frames(mut bytes: Bytes, len: usize) -> Arc<[Bytes]> {
        let mut frames = Vec::new();
        while bytes.len() > len {
            frames.push(bytes.split_to(len));
            // Empty frames are allowed.
            frames.push(Bytes::new());
        }
        frames.push(bytes);
        frames.into()
    }

    fn bytes(len: usize, seed: usize) -> Bytes {
        (0..len).map(|n| (n.wrapping_mul(seed | 1) >> 5).to_le_bytes()[0]).collect()
    }

    /// Many chunks at once: lengths on both sides of every limit, right and wrong bytes, and
    /// aborted tasks.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn each_is_judged_by_its_own_bytes() {
        let around = |len: u64| [len - 1, len, len + 1].map(|len| usize::try_from(len).unwrap());
        let lens = [HANDED_OVER_BYTES_MIN, 200_000].into_iter().flat_map(around);
        let lens: Vec<usize> = lens.chain([0, 1, 64]).collect();
        let (verifier, mut tasks) = (ChunkVerifier::default(), HashMap::new());
        for round in 0..100 {
            let right = bytes(lens[round % lens.len()], round);
            let digest = Digest::of(DigestFunction::Sha256, &right);
            let mut wrong = right.to_vec();
            let is_wrong = round % 3 == 0 && !wrong.is_empty();
            if is_wrong {
                let place = wrong.len() * round / 100;
                wrong[place] ^= 1;
            }
            let given = Bytes::from(wrong);
            let task = {
                let frames = frames(given.clone(), 1 + round * 997 % 70_000);
                let verifier = verifier.clone();
                tokio::spawn(
                    async move { verifier.verify(UnverifiedChunk { digest, frames }).await },
                )
            };
            if round % 7 == 1 {
                task.abort();
            } else {
                tasks.insert(round, (task, given, is_wrong));
            }
        }
        for (round, (task, given, is_wrong)) in tasks {
            match task.await.unwrap() {
                Ok(chunk) => {
                    assert!(!is_wrong, "{round}");
                    assert_eq!(chunk.crc(), Crc::of(CRC, &given));
                    assert_eq!(chunk.frames().concat(), given);
                }
                Err(error) => {
                    assert!(is_wrong, "{round}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Integrity);
                }
            }
        }
    }

    #[tokio::test]
    async fn a_batch_is_judged_one_by_one() {
        for len in [100, 10_000] {
            let mut unverified: Vec<_> = (0..50)
                .map(|n| bytes(len + n, n))
                .map(|bytes| {
                    UnverifiedChunk::new(Digest::of(DigestFunction::Sha256, &bytes), bytes)
                })
                .collect();
            unverified[7].frames = Arc::clone(&unverified[8].frames);
            unverified[20].frames = Arc::new([bytes(len + 20, 77)]);
            unverified[30].digest = Digest::of(DigestFunction::Blake3, &unverified[30].frames[0]);
            let wrong: Vec<usize> = ChunkVerifier::default()
                .verify_all(unverified.clone())
                .await
                .iter()
                .enumerate()
                .filter_map(|(n, chunk)| chunk.is_err().then_some(n))
                .collect();
            assert_eq!(wrong, [7, 20]);
        }
    }

    #[tokio::test]
    async fn of_another_length_or_function() {
        let bytes = bytes(100_000, 3);
        let digest = Digest::of(DigestFunction::Sha256, &bytes);
        let short = verify_one(digest, bytes.slice(1..)).await.unwrap_err();
        assert!(short.chain().contains("expected 100000 bytes, got 99999"), "{}", short.chain());
        let digest = Digest::of(DigestFunction::Blake3, &bytes);
        assert!(verify_one(digest, bytes.clone()).await.is_ok());
        assert!(verify_one(digest, bytes.slice(1..)).await.is_err());
    }
}
