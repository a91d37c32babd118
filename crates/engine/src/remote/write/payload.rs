//! [`Payload`]: a request body that can be sent again.
//!
//! A request that fails is repeated, and its body with it. So a payload is either in memory, or a
//! source that can be opened again, such as a range of a file. The caller owns the memory: it takes
//! the bytes from its budget before it makes the payload.
//!
//! Invariant: an opened payload delivers exactly its length, or fails with `Changed`.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tidegate_core::checksum::Checksum;

use crate::error::{Error, ErrorKind, Operation};
use crate::remote::Body;

/// The bytes of a whole blob, or of one part. Cheap to clone.
#[derive(Clone)]
pub struct Payload {
    source: Source,
    len_bytes: u64,
    checksum: Option<Checksum>,
}

#[derive(Clone)]
enum Source {
    Held(Arc<[Bytes]>),
    Reopened(Arc<dyn Fn() -> Body + Send + Sync>),
}

impl Payload {
    /// Bytes in memory, in one piece.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        Self::from_frames(vec![bytes.into()])
    }

    /// Bytes in memory, in pieces.
    pub fn from_frames(frames: Vec<Bytes>) -> Self {
        let len_bytes = frames.iter().map(|frame| frame.len() as u64).sum();
        Self { source: Source::Held(frames.into()), len_bytes, checksum: None }
    }

    /// `len_bytes` bytes from a source that each call of `open` opens at its beginning, such as a
    /// range of a file. The source must deliver the same bytes each time; the checksum detects a
    /// difference.
    pub fn reopened(len_bytes: u64, open: impl Fn() -> Body + Send + Sync + 'static) -> Self {
        Self { source: Source::Reopened(Arc::new(open)), len_bytes, checksum: None }
    }

    /// The same bytes, with a checksum that the remote verifies.
    #[must_use]
    pub fn with_checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = Some(checksum);
        self
    }

    /// Length in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The expected checksum of the bytes.
    pub fn checksum(&self) -> Option<&Checksum> {
        self.checksum.as_ref()
    }

    /// The bytes, from the first one. A source with fewer or more bytes than its length fails with
    /// `Changed`.
    pub fn open(&self) -> Body {
        match &self.source {
            Source::Held(frames) => {
                let frames = Arc::clone(frames);
                let count = frames.len();
                let frames = (0..count).filter_map(move |index| frames.get(index).cloned().map(Ok));
                Box::pin(stream::iter(frames))
            }
            Source::Reopened(open) => exactly(open(), self.len_bytes),
        }
    }
}

/// The same body; it fails if it does not have this length.
fn exactly(body: Body, len_bytes: u64) -> Body {
    let state = Some((body, len_bytes));
    Box::pin(stream::unfold(state, move |state| async move {
        let (mut body, left) = state?;
        let frame = match body.next().await {
            None if left == 0 => return None,
            None => return Some((Err(changed(len_bytes, "ends early")), None)),
            Some(Err(error)) => return Some((Err(error), None)),
            Some(Ok(frame)) => frame,
        };
        match left.checked_sub(frame.len() as u64) {
            Some(left) => Some((Ok(frame), Some((body, left)))),
            None => Some((Err(changed(len_bytes, "goes on beyond it")), None)),
        }
    }))
}

/// The error of a payload's source, if that is why a request failed.
#[cfg(feature = "_http1")]
pub(crate) fn source_error(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let mut level = Some(error);
    while let Some(error) = level {
        if let Some(found) = error.downcast_ref::<Error>() {
            return Some(found.without_cause());
        }
        level = error.source();
    }
    None
}

fn changed(len_bytes: u64, what: &str) -> Error {
    let message = format!("expected {len_bytes} bytes, but the source {what}");
    Error::new(ErrorKind::Changed, Operation::Read, "the source of an upload", message)
        .with_hint("do not change the source while it is uploaded")
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payload")
            .field("len_bytes", &self.len_bytes)
            .field("checksum", &self.checksum)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt;

    use super::*;

    async fn all(payload: &Payload) -> crate::Result<Vec<u8>> {
        let frames: Vec<Bytes> = payload.open().try_collect().await?;
        Ok(frames.concat())
    }

    fn source(len_bytes: u64, frames: &'static [&'static str]) -> Payload {
        Payload::reopened(len_bytes, move || {
            Box::pin(stream::iter(frames.iter().map(|text| Ok(Bytes::from(*text)))))
        })
    }

    #[tokio::test]
    async fn a_payload_brings_the_same_bytes_each_time() {
        let held = Payload::from_frames(vec!["ab".into(), "".into(), "c".into()]);
        for payload in [held, source(3, &["a", "bc"]), source(3, &["abc"])] {
            assert_eq!(payload.len_bytes(), 3);
            for _ in 0..2 {
                assert_eq!(all(&payload).await.unwrap(), b"abc");
            }
        }
        assert!(all(&source(0, &[])).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_source_of_another_length_is_an_error() {
        for payload in [source(3, &["ab"]), source(3, &[]), source(3, &["ab", "cd"])] {
            assert_eq!(all(&payload).await.unwrap_err().kind(), ErrorKind::Changed);
        }
    }
}
