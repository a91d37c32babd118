//! [`BlobPart`]: the part of a blob that an error is about. Its range and name are added to the
//! error. So the user learns which blob failed, which chunk of it, and where the chunk lies in the
//! blob.

use std::ops::Range;

use tidegate_core::digest::Digest;

use super::attempt::Calls;
use crate::error::Error;

/// Consecutive bytes of a blob, and their name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlobPart {
    range: Range<u64>,
    /// `None` if the blob's own name is enough.
    name: Option<String>,
}

impl BlobPart {
    /// Bytes that arrive as one stream.
    pub(crate) fn of_bytes(range: Range<u64>) -> Self {
        Self { range, name: None }
    }

    /// A chunk, at its first offset. A short blob is its own only chunk, and then only the blob's
    /// name is used.
    pub(crate) fn of_chunk(start: u64, chunk: &Digest, blob: &str) -> Self {
        let name = chunk.to_string();
        let name = (name != blob).then(|| format!("chunk {name}"));
        Self { range: range(start, chunk), name }
    }

    /// Chunks of one batch, with their offsets. If they are not consecutive, the range is that of
    /// the first chunk.
    pub(crate) fn of_batch(chunks: &[(u64, Digest)], blob: &str) -> Self {
        let Some(((start, first), rest)) = chunks.split_first() else {
            return Self::of_bytes(0..0);
        };
        if rest.is_empty() {
            return Self::of_chunk(*start, first, blob);
        }
        let range = range(*start, first);
        let end = rest.iter().try_fold(range.end, |end, (start, chunk)| {
            (*start == end).then(|| end.saturating_add(chunk.len))
        });
        let range = range.start..end.unwrap_or(range.end);
        let name = format!("a batch of {} chunks, the first {first}", chunks.len());
        Self { range, name: Some(name) }
    }

    /// The whole blob, moved as one chunk.
    pub(crate) fn of_blob(blob: &Digest) -> Self {
        Self { range: 0..blob.len, name: Some(format!("blob {blob}")) }
    }

    /// Adds this part's range and name to the error. If the error is about another target than that
    /// of `calls`, it becomes the cause of a new error, whose message contains `failed`.
    pub(crate) fn add_to(&self, error: Error, calls: &Calls, failed: &str) -> Error {
        if error.target() == &*calls.target {
            let error = error.at(self.range.clone());
            return match &self.name {
                Some(name) => error.of_part(name),
                None => error,
            };
        }
        let subject = self.name.as_deref().unwrap_or("a part of it");
        let retry = *error.retry();
        let whole = calls.error(error.kind(), format!("{subject} {failed}")).with_hint_of(&error);
        whole.at(self.range.clone()).retryable(retry).caused_by(error)
    }
}

fn range(start: u64, chunk: &Digest) -> Range<u64> {
    start..start.saturating_add(chunk.len)
}
