//! What the caller of an upload chooses. The defaults live here; limits that a store sets are in
//! its profile.

use std::sync::Arc;

use tidegate_core::chunking::Chunking;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::retry::RetryPolicy;
use tidegate_core::window::WindowOptions;
use tokio_util::sync::CancellationToken;

use crate::budget::Budget;
use crate::chunked::inflight::ChunksInFlight;
use crate::progress::Progress;

/// How an upload is done. The defaults assume a cache some 20 ms away, and let the cache choose how
/// blobs are named and cut.
#[derive(Clone, Debug)]
pub(crate) struct ChunkedUploadOptions {
    /// The file's digest, if the caller knows it. Then the store is asked for the blob at once, and
    /// if it has the blob, nothing is sent. The file is always read and compared with the digest. A
    /// file with another digest is `Integrity`, before the store is given that name for it.
    pub digest: Option<Digest>,
    /// The hash function that names blob and chunks; by default that of `digest`, or else the one
    /// that the store prefers.
    pub digest_function: Option<DigestFunction>,
    /// How the blob is cut; by default as the store prefers. If the store names other chunkings,
    /// the blob is put whole. If the store names none but takes manifests, the blob is cut only if
    /// this is given.
    pub chunking: Option<Chunking>,
    /// Whether the blob is always put whole.
    pub is_whole: bool,
    /// Whether the blob is put whole if the store does not make it of its chunks. A store may say
    /// that it takes manifests and take none, or none as long as this one. The blob is also put
    /// whole if the store wants chunks so small that their list would exceed the memory limit.
    /// Default yes.
    pub whole_fallback: bool,
    /// Whether the store is asked once more at the end for the blob, and for the chunks that it was
    /// made of: some stores lose what they acknowledged. This costs one request, and another for
    /// each 1,024 chunks. Default no: then success means that the store acknowledged the blob.
    pub confirm: bool,
    /// Requests in flight that carry bytes.
    pub window: WindowOptions,
    /// How to continue after a failure. Its deadline bounds the whole upload.
    pub retry: RetryPolicy,
    /// The process-wide limits.
    pub budget: Budget,
    /// Chunks that other transfers of the client are moving.
    pub(crate) in_flight: ChunksInFlight,
    /// Filled while the upload runs.
    pub progress: Arc<Progress>,
    /// Cancels the upload. The chunks that the store already has make the next upload shorter.
    pub cancel: CancellationToken,
}

impl ChunkedUploadOptions {
    /// The defaults, within these limits.
    pub(crate) fn within(budget: Budget) -> Self {
        Self {
            digest: None,
            digest_function: None,
            chunking: None,
            is_whole: false,
            whole_fallback: true,
            confirm: false,
            window: WindowOptions::default(),
            retry: RetryPolicy::default(),
            budget,
            in_flight: ChunksInFlight::default(),
            progress: Arc::default(),
            cancel: CancellationToken::default(),
        }
    }
}
