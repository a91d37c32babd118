//! [`DownloadBuilder`]: one download, from its options to its report.

use std::fmt;
use std::future::IntoFuture;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_core::checksum::Checksum;
use tidegate_core::digest::Digest;
use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;
use tidegate_core::window::WindowOptions;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Client, unchanged};
use crate::blocking::Waiting;
use crate::chunked::{self, ChunkStore, ChunkedDownloadOptions};
use crate::download::{self, ShardedDownloadOptions};
use crate::error::{Error, ErrorKind, Operation, Result, Setting};
use crate::progress::Progress;
use crate::remote::{BlobInfo, Location, Stored};
use crate::report::Report;
use crate::sink::file::Durability;
use crate::transfer::target::Target;

/// Whether a blob is moved as chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkPolicy {
    /// As chunks if the store can do that and the blob's chunks are available; whole otherwise.
    #[default]
    Auto,
    /// As chunks; the transfer fails if that is not possible.
    Required,
    /// Whole.
    Never,
}

impl ChunkPolicy {
    /// The error of a transfer under this policy. If requiring chunks caused it, its hint says so.
    pub(super) fn explain(self, error: Error) -> Error {
        let is_required = self == Self::Required && error.kind() == ErrorKind::Unsupported;
        if is_required && error.hint().is_none() {
            return error.with_hint(Setting::Chunks);
        }
        error
    }
}

/// A download that has not begun. Awaiting it gives a [`Report`].
///
/// A file target gets its name only when every byte is written and every known checksum matches.
/// Until then the old file stays. On failure the part file stays for the next call to resume,
/// unless nothing in it is worth keeping. Nothing is in flight when the future returns.
///
/// Dropping the future cancels the download: no request outlives it. To keep the last bytes for a
/// later resume, cancel through [`Self::cancel`] and await the result.
///
/// # Errors
///
/// Every kind in [`ErrorKind`]. The first failure ends the download and is the one reported.
/// `Changed` and `Integrity` mean that nothing was delivered under the target's name. A stream may
/// have received a correct prefix.
#[must_use = "nothing is fetched before it is awaited"]
pub struct DownloadBuilder {
    blob: Location,
    target: Target,
    chunk_policy: ChunkPolicy,
    window: Option<WindowOptions>,
    sharded: ShardedDownloadOptions,
    chunked: ChunkedDownloadOptions,
}

impl DownloadBuilder {
    pub(super) fn new(client: &Client, blob: &Location, target: Target) -> Self {
        let sharded = ShardedDownloadOptions {
            state: client.0.state.clone(),
            retry: client.0.retry.clone(),
            pool: client.0.pool.clone(),
            ..ShardedDownloadOptions::within(client.0.budget.clone())
        };
        let chunked = ChunkedDownloadOptions {
            in_flight: client.0.in_flight.clone(),
            ..ChunkedDownloadOptions::within(client.0.budget.clone())
        };
        Self {
            blob: blob.clone(),
            target,
            chunk_policy: ChunkPolicy::default(),
            window: None,
            sharded,
            chunked,
        }
    }

    /// A fixed number of shards or chunks in flight. The default is 32 shards, or an adaptive
    /// window of chunks as in [`Self::adaptive_window`]. With 1, a blob that is fetched in shards
    /// takes one request.
    pub fn window(self, window: u32) -> Self {
        self.adaptive_window(WindowOptions::fixed(window))
    }

    /// Chunks in flight: the window begins with `start`, then widens and narrows with the measured
    /// throughput. Shards always use `start`.
    pub fn adaptive_window(mut self, window: WindowOptions) -> Self {
        self.window = Some(window);
        self
    }

    /// The smallest shard, and the size of the first one, whose response gives the blob's size; 8
    /// MiB by default. At 100 MiB/s a shard takes 80 ms, so 20 ms of latency cost a fifth. A
    /// shorter blob costs one request.
    pub fn shard_bytes_min(mut self, bytes: u64) -> Self {
        self.sharded.shard_bytes_min = bytes;
        self
    }

    /// The largest shard; 64 MiB by default. It bounds the cost of a restart with a server that
    /// ignores ranges, and how long the last shard of a large blob takes.
    pub fn shard_bytes_max(mut self, bytes: u64) -> Self {
        self.sharded.shard_bytes_max = bytes;
        self
    }

    /// Only these bytes of the blob. A part of a blob can be neither verified nor resumed, and is
    /// always fetched in shards.
    pub fn range(mut self, range: ByteRange) -> Self {
        self.sharded.range = Some(range).filter(|range| *range != ByteRange::All);
        self
    }

    /// Another place that holds the same blob. Call it again to add another one. Such a blob is always
    /// fetched in shards.
    ///
    /// Shards are spread over the mirrors, also over mirrors of different schemes. A mirror that
    /// fails is dropped, and its shards go on at another one. Their descriptions must agree, and the
    /// checksum of the whole blob decides: one that [`Self::expect`] gives, or one that a mirror
    /// declares. Without a checksum, and for a range, the blob is fetched from one mirror, and from
    /// another one if that fails. [`Report::mirrors`](crate::Report::mirrors) says what each did.
    pub fn mirror(mut self, mirror: Location) -> Self {
        self.sharded.mirrors.push(mirror);
        self
    }

    /// A checksum that the blob must have. Call it again to add another checksum. Such a blob is
    /// always fetched in shards.
    pub fn expect(mut self, checksum: Checksum) -> Self {
        self.sharded.expected.push(checksum);
        self
    }

    /// Whether an entity tag that looks like an MD5 is compared, if the remote provides no checksum.
    /// Off by default, because MD5 is slow (0.6 GB/s on one core) and the tag may be something else.
    ///
    /// Without encryption by a key of the caller or of a key service, S3 uses the MD5 of the blob, or
    /// of the MD5s of its parts. A match is a proof. A mismatch is none: then the blob counts as not
    /// verified.
    pub fn entity_tag(mut self, compare: bool) -> Self {
        self.sharded.entity_tag = compare;
        self
    }

    /// Whether the blob is fetched as chunks.
    pub fn chunks(mut self, policy: ChunkPolicy) -> Self {
        self.chunk_policy = policy;
        self
    }

    /// A file that may share chunks with the blob, such as an older version of it. Call it again to
    /// add another file, the most similar one first. Chunks that are found in a seed are copied,
    /// not fetched.
    pub fn seed(mut self, path: impl Into<PathBuf>) -> Self {
        self.chunked.seeds.push(path.into());
        self
    }

    /// Whether the existing file with the target's name is a seed, too. On by default.
    pub fn seed_target(mut self, is_seed: bool) -> Self {
        self.chunked.seed_target = is_seed;
        self
    }

    /// Whether an index of each seed's chunks is kept next to the seed (`.NAME.tidegate-chunks`).
    /// An existing index is used, also for the target. On by default.
    pub fn seed_indexes(mut self, keep: bool) -> Self {
        self.chunked.seed_indexes = keep;
        self
    }

    /// Whether to write such an index next to the target, if the target is a file and was fetched
    /// as chunks. A later download that uses the file as a seed reads the index instead of cutting
    /// the file again. Off by default, because the index is a second file in the target's folder.
    pub fn index_target(mut self, keep: bool) -> Self {
        self.chunked.index_target = keep;
        self
    }

    /// What is synced to the disk at the end.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.sharded.durability = durability;
        self
    }

    /// Whether to resume an earlier download from its part file. On by default.
    pub fn resume(mut self, resume: bool) -> Self {
        self.sharded.resume = resume;
        self
    }

    /// How to retry after an interruption; the client's policy by default.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.sharded.retry = retry;
        self
    }

    /// Counters that are updated while the download runs.
    pub fn progress(mut self, progress: Arc<Progress>) -> Self {
        self.sharded.progress = progress;
        self
    }

    /// Where the description of the blob goes with the first response, before its bytes are written.
    /// A blob that is fetched as chunks is not described.
    pub fn describe(mut self, described: watch::Sender<Option<BlobInfo>>) -> Self {
        self.sharded.described = Some(described);
        self
    }

    /// Ends the download; the written bytes stay for a resume.
    pub fn cancel(mut self, cancel: CancellationToken) -> Self {
        self.sharded.cancel = cancel;
        self
    }

    /// Downloads on this thread, and waits for the end.
    ///
    /// # Errors
    ///
    /// As awaiting it; `Unsupported` on a thread that runs asynchronous tasks.
    pub fn wait(self) -> Result<Report> {
        let blob = self.blob.clone();
        let waiting = Waiting::begin(None, Operation::Download, blob.display())?;
        waiting.wait(self.run())
    }

    async fn run(self) -> Result<Report> {
        let policy = self.chunk_policy;
        self.transfer().await.map_err(|error| policy.explain(error))
    }

    async fn transfer(self) -> Result<Report> {
        let _running = self.sharded.progress.begin_transfer();
        self.blob.check_is_blob()?;
        for mirror in &self.sharded.mirrors {
            mirror.check_is_blob()?;
        }
        if self.sharded.cancel.is_cancelled() {
            // Not even a part file is created.
            return Err(failure(&self.blob, ErrorKind::Cancelled, "it was cancelled"));
        }
        let copy = match (&self.target, &self.sharded.range) {
            // An attribute changes the file's state, which the index of its chunks is for.
            // With mirrors, the version in the report may not be that of the blob's own place.
            _ if !self.sharded.mirrors.is_empty() => None,
            (Target::File(path), None) if !self.chunked.index_target => {
                Some((path.clone(), self.blob.clone(), self.sharded.state.clone()))
            }
            _ => None,
        };
        let report = self.fetch().await?;
        if let Some((path, blob, state)) = copy {
            unchanged::record(path, &blob, &report.info, state).await;
        }
        Ok(report)
    }

    async fn fetch(self) -> Result<Report> {
        let Self { blob, target, chunk_policy, window, sharded, chunked } = self;
        let Some((store, digest)) = store_of(&blob, chunk_policy, &sharded).await? else {
            let usual = sharded.window;
            let window = window.map_or(usual, |window| window.start);
            let options = ShardedDownloadOptions { window, ..sharded };
            let mut report = download::download(&blob, target, &options).await?;
            if !chunked.seeds.is_empty() {
                report.notes.push("the seeds were not used: the remote gives no chunks".to_owned());
            }
            return Ok(report);
        };
        let options = ChunkedDownloadOptions {
            window: window.unwrap_or_default(),
            whole_fallback: chunk_policy != ChunkPolicy::Required,
            durability: sharded.durability,
            resume: sharded.resume,
            state: sharded.state,
            retry: sharded.retry,
            budget: sharded.budget,
            pool: sharded.pool,
            progress: sharded.progress,
            cancel: sharded.cancel,
            ..chunked
        };
        let downloaded = chunked::download(&store, &digest, target, &options).await;
        downloaded.map_err(|error| named(&blob, &digest, error))
    }
}

/// The store that delivers the blob as chunks; `None` if the blob is fetched in shards.
async fn store_of(
    blob: &Location,
    policy: ChunkPolicy,
    options: &ShardedDownloadOptions,
) -> Result<Option<(Arc<dyn ChunkStore>, Digest)>> {
    let is_whole = policy == ChunkPolicy::Never
        || options.range.is_some()
        || !options.expected.is_empty()
        || !options.mirrors.is_empty();
    let stored = blob.stored().filter(|_| !is_whole);
    if let Some(Stored { store, digest: Some(digest), is_only }) = stored
        && (*is_only || gives_chunks(blob, store, options).await)
    {
        return Ok(Some((Arc::clone(store), *digest)));
    }
    if policy == ChunkPolicy::Required {
        return Err(failure(blob, ErrorKind::Unsupported, "the remote gives no chunks"));
    }
    Ok(None)
}

/// Whether the store delivers chunks. If this request fails, the result is `true`: the download
/// asks again and reports the failure.
async fn gives_chunks(
    blob: &Location,
    store: &Arc<dyn ChunkStore>,
    options: &ShardedDownloadOptions,
) -> bool {
    let once = RetryPolicy { attempts_max: 1, ..options.retry.clone() };
    let asked = chunked::profile(store, blob.display(), &once, &options.cancel);
    asked.await.map_or(true, |profile| profile.can_split)
}

/// Replaces the digest in the error of a chunked download by the caller's name of the blob.
fn named(blob: &Location, digest: &Digest, error: Error) -> Error {
    let digest = digest.to_string();
    if blob.display() == digest {
        return error;
    }
    if error.target() == digest {
        return error.with_target(blob.display());
    }
    let is_of_target = error.kind() == ErrorKind::Storage || error.operation() == Operation::Write;
    if is_of_target || error.chain().contains(&digest) {
        return error;
    }
    let whole = failure(blob, error.kind(), "a part of it failed").after_attempts(error.attempts());
    whole.with_hint_of(&error).caused_by(error)
}

fn failure(blob: &Location, kind: ErrorKind, message: &str) -> Error {
    Error::new(kind, Operation::Download, blob.display(), message)
}

impl IntoFuture for DownloadBuilder {
    type Output = Result<Report>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for DownloadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DownloadBuilder")
            .field("blob", &self.blob)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}
