//! [`Blobs`]: what is sent. Blobs of one length share all bytes but their first, which a number fills.

use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;

use super::ServeBenchOptions;
use super::column::Column;

/// A small blob.
pub(crate) const SMALL_BYTES: usize = 4096;
/// Blobs of a batch.
pub(crate) const BATCH: usize = 100;
/// Digests of a question.
pub(crate) const ASKED: usize = 1000;
/// The first bytes of a blob.
const HEAD_BYTES: usize = 64;

/// A blob, as its first bytes and the rest.
#[derive(Clone, Debug)]
pub(crate) struct Blob {
    pub(crate) digest: Digest,
    head: Bytes,
    tail: Bytes,
}

impl Blob {
    pub(crate) fn new(number: u64, tail: &Bytes) -> Self {
        let mut head = vec![0; HEAD_BYTES];
        head[..8].copy_from_slice(&number.to_le_bytes());
        let mut all = head.clone();
        all.extend_from_slice(tail);
        let digest = Digest::of(DigestFunction::Sha256, &all);
        Self { digest, head: head.into(), tail: tail.clone() }
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> Bytes {
        [&self.head[..], &self.tail].concat().into()
    }

    /// The bytes in pieces of at most `len`.
    pub(crate) fn pieces(&self, len: usize) -> Vec<Bytes> {
        if self.tail.len() + HEAD_BYTES <= len {
            return vec![self.bytes()];
        }
        let starts = (0..self.tail.len()).step_by(len);
        let tail = starts.map(|start| self.tail.slice(start..(start + len).min(self.tail.len())));
        std::iter::once(self.head.clone()).chain(tail).collect()
    }

    pub(crate) fn proto(&self) -> v2::Digest {
        to_proto(&self.digest)
    }
}

/// Blobs of all columns of one run.
#[derive(Debug)]
pub(crate) struct Blobs {
    large: [Arc<[Blob]>; 2],
    small: [Arc<[Blob]>; 2],
    batched: Arc<[Blob]>,
}

impl Blobs {
    pub(crate) fn new(options: &ServeBenchOptions, run: u64) -> Result<Self> {
        let len = usize::try_from(options.large_bytes).context("the blobs are too large")?;
        let large = noise(len.saturating_sub(HEAD_BYTES).max(1));
        let small = noise(SMALL_BYTES - HEAD_BYTES);
        let make = |kind: u64, count: usize, tail: &Bytes| -> Arc<[Blob]> {
            (0..count as u64)
                .map(|number| Blob::new((run << 48) | (kind << 40) | number, tail))
                .collect()
        };
        Ok(Self {
            large: [0, 1].map(|kind| make(kind, options.large_count, &large)),
            small: [2, 3].map(|kind| make(kind, options.small_count, &small)),
            batched: make(4, options.small_count.next_multiple_of(BATCH), &small),
        })
    }

    /// The blobs that a column writes or reads.
    pub(crate) fn of(&self, column: Column) -> Arc<[Blob]> {
        Arc::clone(match column {
            Column::Write1 | Column::Read1 => &self.large[0],
            Column::Write8 | Column::Read8 => &self.large[1],
            Column::SmallWrite8 | Column::SmallRead8 => &self.small[0],
            Column::SmallWrite64 | Column::SmallRead64 => &self.small[1],
            _ => &self.batched,
        })
    }
}

/// Bytes that do not compress.
pub(crate) fn noise(len: usize) -> Bytes {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(len as u64).fill(&mut bytes);
    bytes.into()
}
