//! What the caller of an upload chooses.

use std::sync::Arc;

use tidegate_core::chunking::Chunking;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::retry::RetryPolicy;
use tidegate_core::window::WindowOptions;
use tokio_util::sync::CancellationToken;

use crate::budget::Budget;
use crate::chunked::inflight::ChunksInFlight;
use crate::progress::Progress;

/// How an upload is done. The defaults assume a cache some 20 ms away, and leave to it how blobs
/// are named and cut.
#[derive(Clone, Debug)]
pub(crate) struct ChunkedUploadOptions {
    /// The file's digest, where the caller knows it: then the store is asked for the blob at once,
    /// and where it has the blob nothing is sent. The file is read and compared with the digest
    /// always. A file that is something else is `Integrity`, before the store is given that name for
    /// it.
    pub digest: Option<Digest>,
    /// The hash function that names blob and chunks; by default that of `digest`, or else the one
    /// that the store prefers.
    pub digest_function: Option<DigestFunction>,
    /// How the blob is cut; by default as the store prefers. Where the store names other ways, the
    /// blob is put whole; where it names none, but takes manifests, it is cut only if this is given.
    pub chunking: Option<Chunking>,
    /// Whether the blob is put whole in any case.
    pub is_whole: bool,
    /// Whether the blob is put whole where the store turns out not to make it of its chunks: it may
    /// say that it takes manifests, and take none, or none as long as this one. So it is where it
    /// wants them so small that there would be more than memory is to be had for. Default yes.
    pub whole_fallback: bool,
    /// Whether the store is asked once more at the end for the blob, and for the chunks that it was
    /// made of: some stores lose what they acknowledged. It costs one request, and another for each
    /// 1,024 chunks. Default no: then success means that the store acknowledged the blob.
    pub confirm: bool,
    /// Requests in flight that carry bytes.
    pub window: WindowOptions,
    /// How to go on after a failure. Its deadline bounds the whole upload.
    pub retry: RetryPolicy,
    /// The process-wide limits.
    pub budget: Budget,
    /// Chunks that other transfers of the client are moving.
    pub(crate) in_flight: ChunksInFlight,
    /// Filled while the upload runs.
    pub progress: Arc<Progress>,
    /// Ends the upload. What the store has got of it makes the next one shorter.
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
