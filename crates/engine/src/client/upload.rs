//! [`UploadBuilder`]: one upload, from its options to its report.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_core::chunking::{Chunking, FastCdc2020Params};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::retry::RetryPolicy;
use tidegate_core::window::WindowOptions;
use tokio_util::sync::CancellationToken;

use super::calls::calls;
use super::{ChunkPolicy, Client};
use crate::blocking::Waiting;
use crate::chunked::{self, ChunkStore, ChunkedSource, ChunkedUploadOptions};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::progress::Progress;
use crate::read::Verify;
use crate::remote::{BlobInfo, Location, Stored, WriteOptions};
use crate::report::Report;
use crate::sink::file::StateFolder;
use crate::upload::{self, ContentCoding, OnFailure, UploadOptions, UploadSource, frames, tags};

/// The average chunk size if neither the caller nor the store specifies one: the recommendation of
/// the Remote Execution API.
const CHUNK_BYTES_AVG: u64 = 512 << 10;

/// An upload that has not begun. Awaiting it gives a [`Report`].
///
/// To a cache, only bytes are sent that the cache lacks and that no other upload of the client is
/// sending to it. To any other remote the blob goes in one request, or in parts if it is long. The
/// source may be larger than memory. An upload of a file that was interrupted goes on when it is
/// called again: only the parts that the remote lacks are sent. A pipe, a terminal, or a file whose
/// length differs from what the system reports is a stream. For a cache, a stream and what is not a
/// file are first read to their end, into a temporary file (in `TMPDIR`, else `/var/tmp`).
///
/// Dropping the future ends the upload and everything in flight.
///
/// # Errors
///
/// - `Unsupported`: the target takes no uploads or no such upload, or the blob is too long for it.
/// - `AlreadyExists`, `Changed`: the condition on the target does not hold. `Changed` also if the
///   source changed during the upload. No blob was made.
/// - `Integrity`: the source does not match the target's digest, or the remote has other bytes than
///   were sent. With [`Self::confirm`] also if the store has lost bytes that it acknowledged.
/// - `Exhausted`: the attempts or the deadline are used up, or the store loses chunks as fast as
///   they are sent.
#[derive(Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct UploadBuilder {
    client: Client,
    source: UploadSource,
    target: Location,
    chunk_policy: ChunkPolicy,
    options: ChunkedUploadOptions,
    remote: RemoteUpload,
}

/// Options of an upload to a remote that is no store of chunks.
#[derive(Debug)]
struct RemoteUpload {
    write: WriteOptions,
    part_bytes: Option<u64>,
    is_whole: bool,
    expected_bytes: Option<u64>,
    coding: Option<ContentCoding>,
    on_failure: OnFailure,
    state: StateFolder,
}

impl UploadBuilder {
    pub(super) fn new(client: &Client, source: UploadSource, target: &Location) -> Self {
        let options = ChunkedUploadOptions {
            digest: target.stored().and_then(|stored| stored.digest),
            retry: client.0.retry.clone(),
            in_flight: client.0.in_flight.clone(),
            ..ChunkedUploadOptions::within(client.0.budget.clone())
        };
        let remote = RemoteUpload {
            write: WriteOptions::default(),
            part_bytes: None,
            is_whole: false,
            expected_bytes: None,
            coding: None,
            on_failure: OnFailure::default(),
            state: client.0.state.clone(),
        };
        let chunk_policy = ChunkPolicy::default();
        let client = client.clone();
        Self { client, source, target: target.clone(), chunk_policy, options, remote }
    }

    /// The condition on the target, and the blob's description. A cache has neither, and refuses
    /// both.
    pub fn write(mut self, write: WriteOptions) -> Self {
        self.remote.write = write;
        self
    }

    /// Bytes of a part, within the limits of the remote; by default 8 MiB, and more for a blob with
    /// too many of them. A blob of one part goes in one request.
    pub fn part_bytes(mut self, bytes: u64) -> Self {
        self.remote.part_bytes = Some(bytes.max(1));
        self
    }

    /// Sends the blob in one request, whatever its length.
    pub fn whole(mut self) -> Self {
        self.remote.is_whole = true;
        self
    }

    /// The length that a stream will about have, in bytes. It decides how long the parts are.
    pub fn expected_bytes(mut self, bytes: u64) -> Self {
        self.remote.expected_bytes = Some(bytes);
        self
    }

    /// Compresses the source on the way. The remote stores the compressed bytes and names their coding
    /// in `Content-Encoding`; all checksums are of them. Such an upload is one of a stream: an
    /// interrupted one begins anew.
    ///
    /// Fails with `Unsupported` at a remote that does not keep the coding, and with `Invalid` if the
    /// options name another one.
    pub fn compress(mut self, coding: ContentCoding) -> Self {
        self.remote.coding = Some(coding);
        self
    }

    /// What happens to the stored parts when the upload fails. Those of a stream are always removed.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.remote.on_failure = on_failure;
        self
    }

    /// The longest stream, in bytes, that the remote takes in parts of the length chosen; `None` if
    /// only the longest blob of the remote limits it. Some remotes want all parts equal, and then the
    /// first part decides. Sends no request.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the target takes no uploads.
    pub fn stream_bytes_max(&self) -> Result<Option<u64>> {
        let profile = self.target.write()?.write_profile(&self.remote.write.precondition);
        let RemoteUpload { part_bytes, expected_bytes, .. } = &self.remote;
        Ok(profile
            .parts
            .and_then(|parts| upload::stream_bytes_max(&parts, *part_bytes, *expected_bytes)))
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
        if self.target.stored().is_none() {
            return self.remote_transfer().await;
        }
        let Self { client, source, target, chunk_policy, mut options, remote } = self;
        let _running = options.progress.begin_transfer();
        let failed = |message| {
            Error::new(ErrorKind::Unsupported, Operation::Locate, target.display(), message)
        };
        let Some(Stored { store, .. }) = target.stored() else {
            return Err(failed("it is no cache"));
        };
        if remote.write != WriteOptions::default() || remote.coding.is_some() {
            return Err(failed("a cache keeps neither conditions nor descriptions"));
        }
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
        let source = match source.as_blob() {
            Some(blob) => {
                let (info, pinned) = pinned(&client, blob, &options.cancel).await?;
                let read = client.read(&pinned).verify(source_checksum(&info));
                ChunkedSource::Stream(frames(read.open()?))
            }
            None => source.into_chunked()?,
        };
        let store: &Arc<dyn ChunkStore> = store;
        chunked::upload(store, source, &options).await
    }

    async fn remote_transfer(self) -> Result<Report> {
        let Self { client, source, target, chunk_policy, options, remote } = self;
        let _running = options.progress.begin_transfer();
        target.write()?;
        if chunk_policy == ChunkPolicy::Required {
            let message = "only a cache takes chunks";
            let name = target.display();
            return Err(Error::new(ErrorKind::Unsupported, Operation::Locate, name, message));
        }
        let RemoteUpload { write, part_bytes, is_whole, expected_bytes, coding, on_failure, state } =
            remote;
        let options = UploadOptions {
            write,
            part_bytes,
            is_whole,
            expected_bytes,
            coding,
            on_failure,
            window: options.window,
            retry: options.retry,
            budget: options.budget,
            progress: options.progress,
            cancel: options.cancel,
            state,
        };
        match source.as_blob().cloned() {
            Some(blob) => blob_to_remote(&client, &blob, &target, options).await,
            None => upload::upload(&target, source, options).await,
        }
    }
}

/// Copies a blob of a remote: by the provider, or through this process.
async fn blob_to_remote(
    client: &Client,
    blob: &Location,
    target: &Location,
    mut options: UploadOptions,
) -> Result<Report> {
    let (info, pinned) = pinned(client, blob, &options.cancel).await?;
    let profile = target.write()?.write_profile(&options.write.precondition);
    let calls = calls(client, Operation::Upload, target, options.cancel.clone());
    let untagged = tags::keep(blob, &info, &mut options.write, &profile, &calls).await?;
    if options.coding.is_none() {
        let copied = upload::copying::by_provider(blob, &info, target, options.clone(), calls);
        if let Some(mut report) = copied.await? {
            report.notes.extend(untagged);
            return Ok(report);
        }
    }
    options.expected_bytes = options.expected_bytes.or(info.len_bytes);
    let kept = upload::kept::description(&info, &options.write, &profile);
    options.write = kept.options;
    let read = client.read(&pinned).verify(source_checksum(&info));
    let source = UploadSource::reader(read.open()?);
    let mut report = upload::upload(target, source, options).await?;
    report.notes.extend(kept.notes.into_iter().chain(untagged));
    Ok(report)
}

/// The facts of a blob, and the blob in the version that has them.
async fn pinned(
    client: &Client,
    blob: &Location,
    cancel: &CancellationToken,
) -> Result<(BlobInfo, Location)> {
    let info = client.stat(blob).cancel(cancel.clone()).await?;
    let pinned = match info.version.clone().map(|version| blob.at(version)) {
        Some(Ok(pinned)) => pinned,
        _ => blob.clone(),
    };
    Ok((info, pinned))
}

/// The checksum that the bytes of the source must have. The version that is copied was just
/// described, so it is not asked for again: when it is replaced meanwhile, the remote can describe
/// it no more, and a mixture of both versions in one response would go unnoticed.
fn source_checksum(info: &BlobInfo) -> Verify {
    let stored = info.checksums.iter().filter(|stored| stored.is_verifiable());
    match stored.min_by_key(|stored| stored.checksum.algorithm().preference()) {
        Some(stored) if info.version.is_some() => Verify::Against(stored.checksum.clone()),
        _ => Verify::Stored,
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
