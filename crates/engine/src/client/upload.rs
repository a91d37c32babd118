//! [`UploadBuilder`]: one upload, from its options to its report.

use std::future::IntoFuture;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_core::chunking::{Chunking, FastCdc2020Params};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::retry::RetryPolicy;
use tidegate_core::window::WindowOptions;
use tokio_util::sync::CancellationToken;

use super::{ChunkPolicy, Client};
use crate::blocking::Waiting;
use crate::chunked::{self, ChunkStore, ChunkedUploadOptions};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::progress::Progress;
use crate::remote::{Location, Stored};
use crate::report::Report;

/// The average chunk size if neither the caller nor the store specifies one: the recommendation of
/// the Remote Execution API.
const CHUNK_BYTES_AVG: u64 = 512 << 10;

/// An upload that has not begun. Awaiting it gives a [`Report`].
///
/// Only bytes are sent that the store lacks and that no other upload of the client is sending to
/// it. The file may be larger than memory. A pipe, a terminal, or a file whose length differs from
/// what the system reports is first read to its end, into a temporary file (in `TMPDIR`, else
/// `/var/tmp`).
///
/// Dropping the future ends the upload and everything in flight.
///
/// # Errors
///
/// - `Unsupported`: the target takes no uploads, the store does not know the digest function, or
///   the blob is too long for the store.
/// - `Changed`: the file changed during the upload. Nothing was registered.
/// - `Integrity`: the file does not match the target's digest, or the store contradicts itself.
///   With [`Self::confirm`] also if the store has lost bytes that it acknowledged.
/// - `Exhausted`: the store loses chunks as fast as they are sent, or the attempts or the deadline
///   are used up.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct UploadBuilder {
    source: PathBuf,
    target: Location,
    chunk_policy: ChunkPolicy,
    options: ChunkedUploadOptions,
}

impl UploadBuilder {
    pub(super) fn new(client: &Client, source: PathBuf, target: &Location) -> Self {
        let options = ChunkedUploadOptions {
            digest: target.stored().and_then(|stored| stored.digest),
            retry: client.0.retry.clone(),
            in_flight: client.0.in_flight.clone(),
            ..ChunkedUploadOptions::within(client.0.budget.clone())
        };
        let chunk_policy = ChunkPolicy::default();
        Self { source, target: target.clone(), chunk_policy, options }
    }

    /// The file's digest, if the caller knows it; by default the digest in the target's URL. The
    /// store is asked for the blob first, and if it has the blob, nothing is sent. The file is
    /// always read and compared with the digest before the blob is registered under it.
    pub fn digest(mut self, digest: Digest) -> Self {
        self.options.digest = Some(digest);
        self
    }

    /// The hash function that names the blob and its chunks. The default is the function of the
    /// digest, or else the one that the store prefers.
    pub fn digest_function(mut self, function: DigestFunction) -> Self {
        self.options.digest_function = Some(function);
        self
    }

    /// How the blob is cut into chunks; by default as the store prefers. If the store names other
    /// ways only, the blob is sent whole. If it names none but takes manifests, the blob is cut
    /// only if this is set or chunks are required.
    pub fn chunking(mut self, chunking: Chunking) -> Self {
        self.options.chunking = Some(chunking);
        self
    }

    /// Whether the blob is sent as chunks.
    pub fn chunks(mut self, policy: ChunkPolicy) -> Self {
        self.chunk_policy = policy;
        self
    }

    /// Whether the store is asked again at the end for the blob and its chunks, because some stores
    /// lose blobs that they acknowledged. It costs one request, and one more for each 1,024 chunks.
    /// Off by default: then success means that the store acknowledged the blob.
    pub fn confirm(mut self, confirm: bool) -> Self {
        self.options.confirm = confirm;
        self
    }

    /// A fixed number of requests in flight that carry bytes.
    pub fn window(self, window: u32) -> Self {
        self.adaptive_window(WindowOptions::fixed(window))
    }

    /// Requests in flight that carry bytes. The window begins with `start`, then widens and narrows
    /// with the measured throughput.
    pub fn adaptive_window(mut self, window: WindowOptions) -> Self {
        self.options.window = window;
        self
    }

    /// How to retry after a failure; the client's policy by default. Its deadline bounds the whole
    /// upload.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.options.retry = retry;
        self
    }

    /// Counters that are updated while the upload runs.
    pub fn progress(mut self, progress: Arc<Progress>) -> Self {
        self.options.progress = progress;
        self
    }

    /// Ends the upload. The bytes that the store already has make the next upload shorter.
    pub fn cancel(mut self, cancel: CancellationToken) -> Self {
        self.options.cancel = cancel;
        self
    }

    /// Uploads on this thread, and waits for the end.
    ///
    /// # Errors
    ///
    /// As awaiting it; `Unsupported` on a thread that runs asynchronous tasks.
    pub fn wait(self) -> Result<Report> {
        let target = self.target.clone();
        let waiting = Waiting::begin(None, Operation::Upload, target.display())?;
        waiting.wait(self.run())
    }

    async fn run(self) -> Result<Report> {
        let policy = self.chunk_policy;
        self.transfer().await.map_err(|error| policy.explain(error))
    }

    async fn transfer(self) -> Result<Report> {
        let Self { source, target, chunk_policy, mut options } = self;
        let _running = options.progress.begin_transfer();
        let failed = |message| {
            Error::new(ErrorKind::Unsupported, Operation::Locate, target.display(), message)
        };
        let Some(Stored { store, .. }) = target.stored() else {
            let hint = "name a cache: grpc://HOST:PORT/INSTANCE";
            target.write().map_err(|error| error.with_hint(hint))?;
            return Err(failed("uploads are supported only to caches").with_hint(hint));
        };
        options.whole_fallback = chunk_policy != ChunkPolicy::Required;
        options.is_whole = chunk_policy == ChunkPolicy::Never;
        if chunk_policy == ChunkPolicy::Required {
            let (name, cancel) = (target.display(), &options.cancel);
            let profile = chunked::profile(store, name, &options.retry, cancel).await?;
            if !profile.can_splice {
                return Err(failed("the cache takes no chunks"));
            }
            if profile.chunkings.is_empty() && options.chunking.is_none() {
                options.chunking = default_chunking();
            }
        }
        let store: &Arc<dyn ChunkStore> = store;
        chunked::upload(store, &source, &options).await
    }
}

fn default_chunking() -> Option<Chunking> {
    FastCdc2020Params::new(CHUNK_BYTES_AVG, 0).ok().map(Chunking::FastCdc2020)
}

impl IntoFuture for UploadBuilder {
    type Output = Result<Report>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
