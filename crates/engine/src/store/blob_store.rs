//! [`BlobStore`]: the three calls that every store implements.

use std::borrow::Cow;
use std::fmt;

use async_trait::async_trait;
use bytes::{Buf as _, Bytes};
use futures_util::stream;
use tidegate_core::digest::Digest;

use super::PutRequest;
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::Body;

/// Size of one frame of [`body`]: the reader hashes or copies a frame between two awaits.
const FRAME_BYTES: usize = 256 << 10;

/// A store of blobs by their digests.
///
/// All digests of one call have the same function. The empty blob always exists: it is never
/// missing, `get` gives no bytes for it, and `put` of it succeeds.
#[async_trait]
pub trait BlobStore: fmt::Debug + Send + Sync {
    /// Returns those of `digests` that are missing, in any order. The store splits a list that does
    /// not fit into one request.
    async fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>>;

    /// The bytes of one blob from `offset` on. The caller verifies them.
    ///
    /// Fails with `NotFound` if the blob is missing.
    ///
    /// The store takes memory for decoding from `budget` without waiting, because the caller
    /// already holds one of its request permits.
    async fn get(&self, digest: &Digest, offset: u64, budget: &Budget) -> Result<Body>;

    /// Puts one blob. If the blob already exists, that is a success.
    ///
    /// The store compares the bytes with the digest. If they differ, it fails and keeps nothing.
    async fn put(&self, request: &PutRequest) -> Result<()>;

    /// Distinguishes this store, with its caller's identity, from all others of a
    /// [`crate::Client`]. Transfers share chunks in flight if identities are equal. So callers that
    /// the store could treat differently, such as those with other credentials, must have different
    /// identities. An identity holds no secrets.
    ///
    /// The default is the store's address in memory: only transfers of one `Arc` share.
    fn identity(&self) -> Cow<'_, str> {
        Cow::Owned(format!("store at {:p}", std::ptr::from_ref(self).cast::<()>()))
    }

    /// Bytes that the store itself buffers while it puts a blob of `len` bytes, in addition to
    /// those of the source: for example a compressed copy. The caller takes them from its budget. 0
    /// by default.
    fn put_buffer_bytes(&self, len: u64) -> u64 {
        let _ = len;
        0
    }
}

/// The body of a blob in memory, from `offset` on. Copies nothing.
pub fn body(mut bytes: Bytes, offset: u64) -> Body {
    bytes.advance(usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len()));
    Box::pin(stream::unfold(bytes, |mut rest| async move {
        if rest.is_empty() {
            return None;
        }
        // A stream that is always ready would block other tasks on the reader's thread.
        tokio::task::consume_budget().await;
        let frame = rest.split_to(rest.len().min(FRAME_BYTES));
        Some((Ok(frame), rest))
    }))
}

/// The error of [`BlobStore::get`] for a missing blob.
pub fn not_found(digest: &Digest) -> Error {
    let message = "the store does not have it";
    Error::new(ErrorKind::NotFound, Operation::Read, digest.to_string(), message)
        .with_hint("check the digest")
}

/// The error of an operation on a blob.
pub(super) fn failed(
    kind: ErrorKind,
    operation: Operation,
    digest: &Digest,
    message: impl Into<String>,
) -> Error {
    Error::new(kind, operation, digest.to_string(), message)
}
