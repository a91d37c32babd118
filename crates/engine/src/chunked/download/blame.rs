//! [`Part`]: the part of a blob that a failure is about, put into its error: whoever reads it learns
//! which blob it was, which chunk, and where in the blob that belongs.

use std::ops::Range;

use tidegate_core::digest::Digest;

use super::plan::Want;
use crate::chunked::attempt::Calls;
use crate::error::{Error, ErrorKind};

/// Consecutive bytes of a blob, and what they are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    range: Range<u64>,
    kind: PartKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PartKind {
    /// A run of bytes, whatever its chunks.
    Bytes,
    Chunk(Digest),
    /// So many chunks that were asked for together, the first of which this is.
    Batch(usize, Digest),
}

impl Part {
    /// Bytes that come as one stream.
    pub(super) fn of_bytes(range: Range<u64>) -> Self {
        Self { range, kind: PartKind::Bytes }
    }

    /// A chunk, by the first of its places.
    pub(super) fn of_chunk(want: &Want) -> Self {
        Self { range: range(want), kind: PartKind::Chunk(want.digest) }
    }

    /// Chunks that were asked for together. They may be far apart, and then the first one's place is
    /// told, as good as any.
    pub(super) fn of_batch(wants: &[&Want]) -> Self {
        let Some((first, rest)) = wants.split_first() else { return Self::of_bytes(0..0) };
        if rest.is_empty() {
            return Self::of_chunk(first);
        }
        let mut run = range(first);
        for want in rest {
            if want.first() != run.end {
                run = range(first);
                break;
            }
            run.end += want.digest.len;
        }
        Self { range: run, kind: PartKind::Batch(wants.len(), first.digest) }
    }

    /// The same failure as that of this part of the blob that `calls` are about. One of the target, or
    /// of the user's own doing, is about no part.
    pub(super) fn blame(&self, error: Error, calls: &Calls) -> Error {
        let is_of_blob = error.target() == &*calls.target;
        if matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Storage)
            || is_of_blob && error.range().is_some()
        {
            return error;
        }
        let name = self.name(calls);
        if is_of_blob {
            let error = error.at(self.range.clone());
            return match name {
                Some(name) => error.of_part(&name),
                None => error,
            };
        }
        let message =
            name.map_or_else(|| "it cannot be had".to_owned(), |name| format!("{name} failed"));
        let (retry, hint) = (*error.retry(), error.hint().map(str::to_owned));
        let told = calls.error(error.kind(), message).at(self.range.clone()).retryable(retry);
        let told = told.caused_by(error);
        match hint {
            Some(hint) => told.with_hint(hint),
            None => told,
        }
    }

    fn name(&self, calls: &Calls) -> Option<String> {
        match &self.kind {
            PartKind::Bytes => None,
            // A short blob is its only chunk.
            PartKind::Chunk(digest) if digest.to_string() == *calls.target => None,
            PartKind::Chunk(digest) => Some(format!("chunk {digest}")),
            PartKind::Batch(count, first) => {
                Some(format!("a batch of {count} chunks, the first {first}"))
            }
        }
    }
}

fn range(want: &Want) -> Range<u64> {
    want.first()..want.first().saturating_add(want.digest.len)
}
