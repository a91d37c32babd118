//! Calls of a client. Each call takes all its settings as one value, so that a test chooses the
//! budget, the policy and the options of every call.
//!
//! A call for a whole blob makes its own client with the test's budget. Calls for chunks share a
//! client if the test passes the same one.
//!
//! An option that a test leaves out is `None`, and the engine's own default applies. A test that
//! relies on a default therefore notices when the default changes.

#![allow(dead_code, reason = "each test program uses some of it")]

use std::borrow::Borrow;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate::UploadSource;
use tidegate::buffer::BufferPool;
use tidegate::chunked::ChunkStore;
use tidegate::read::{BlockingReadChannel, ReadChannel, ReadState, ReadStats, Verify};
use tidegate::remote::{BlobInfo, RemoteOptions, Version};
use tidegate::{
    Budget, CancellationToken, ChunkPolicy, Client, ClientOptions, DownloadBuilder, Durability,
    Location, Progress, ReadBuilder, Report, Result, StateFolder, Target, UploadBuilder,
};
use tidegate_core::checksum::Checksum;
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;
use tidegate_core::window::WindowOptions;

/// A client with these remote options.
pub(crate) fn client_of(remote: RemoteOptions) -> Client {
    Client::new(ClientOptions::default().remote(remote))
}

/// A client with this budget.
pub(crate) fn client_with(budget: &Budget) -> Client {
    Client::new(ClientOptions::default().budget(budget.clone()))
}

/// The blob that a URL or a path names.
pub(crate) fn locate(text: &str, remote: RemoteOptions) -> Result<Location> {
    client_of(remote).locate(text)
}

/// The cache that a URL names, reached through a new client.
pub(crate) fn cache(url: &str, remote: RemoteOptions) -> Result<Arc<dyn ChunkStore>> {
    store(&client_of(remote), url)
}

/// The cache that a URL names, reached through this client.
pub(crate) fn store(client: &Client, url: &str) -> Result<Arc<dyn ChunkStore>> {
    Ok(Arc::clone(client.locate_target(url)?.store().unwrap()))
}

/// A download in shards.
#[derive(Clone, Debug)]
pub(crate) struct DownloadOptions {
    pub(crate) window: Option<u32>,
    pub(crate) shard_bytes_min: Option<u64>,
    pub(crate) shard_bytes_max: Option<u64>,
    pub(crate) range: Option<ByteRange>,
    pub(crate) mirrors: Vec<Location>,
    pub(crate) durability: Durability,
    pub(crate) resume: Option<bool>,
    pub(crate) expected: Vec<Checksum>,
    pub(crate) entity_tag: Option<bool>,
    pub(crate) state: StateFolder,
    pub(crate) retry: RetryPolicy,
    pub(crate) budget: Budget,
    pub(crate) pool: BufferPool,
    pub(crate) progress: Arc<Progress>,
    pub(crate) cancel: CancellationToken,
}

impl Default for DownloadOptions {
    fn default() -> Self {
        Self {
            window: None,
            shard_bytes_min: None,
            shard_bytes_max: None,
            range: None,
            mirrors: Vec::new(),
            durability: Durability::default(),
            resume: None,
            expected: Vec::new(),
            entity_tag: None,
            state: StateFolder::default(),
            retry: RetryPolicy::default(),
            budget: Budget::default(),
            pool: BufferPool::default(),
            progress: Arc::default(),
            cancel: CancellationToken::new(),
        }
    }
}

/// Downloads in shards.
pub(crate) async fn download(
    location: &Location,
    target: Target,
    options: &DownloadOptions,
) -> Result<Report> {
    let of_client = ClientOptions::default().budget(options.budget.clone());
    let of_client = of_client.pool(options.pool.clone()).state(options.state.clone());
    let download = Client::new(of_client)
        .download(location, target)
        .chunks(ChunkPolicy::Never)
        .durability(options.durability)
        .retry(options.retry.clone())
        .progress(Arc::clone(&options.progress))
        .cancel(options.cancel.clone());
    let download = choose(download, options.window, DownloadBuilder::window);
    let download = choose(download, options.shard_bytes_min, DownloadBuilder::shard_bytes_min);
    let download = choose(download, options.shard_bytes_max, DownloadBuilder::shard_bytes_max);
    let download = choose(download, options.resume, DownloadBuilder::resume);
    let download = choose(download, options.range.clone(), DownloadBuilder::range);
    let download = choose(download, options.entity_tag, DownloadBuilder::entity_tag);
    let download = options.mirrors.iter().cloned().fold(download, DownloadBuilder::mirror);
    options.expected.iter().cloned().fold(download, DownloadBuilder::expect).await
}

/// A read.
#[derive(Clone, Debug)]
pub(crate) struct ReadOptions {
    pub(crate) range: ByteRange,
    pub(crate) version: Option<Version>,
    pub(crate) verify: Verify,
    pub(crate) decode: Option<bool>,
    pub(crate) retry: RetryPolicy,
    pub(crate) buffer_bytes: Option<usize>,
    pub(crate) drain_bytes_max: Option<u64>,
    pub(crate) hedge_ms: Option<u64>,
    pub(crate) budget: Budget,
    pub(crate) stats: Arc<ReadStats>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            range: ByteRange::All,
            version: None,
            verify: Verify::default(),
            decode: None,
            retry: RetryPolicy::default(),
            buffer_bytes: None,
            drain_bytes_max: None,
            hedge_ms: None,
            budget: Budget::default(),
            stats: Arc::default(),
        }
    }
}

impl ReadOptions {
    /// Applies the options that a caller can choose again when it restores a read.
    fn again(self, read: ReadBuilder) -> ReadBuilder {
        let read = read.retry(self.retry).stats(self.stats);
        let read = choose(read, self.buffer_bytes, ReadBuilder::buffer_bytes);
        let read = choose(read, self.drain_bytes_max, ReadBuilder::drain_bytes_max);
        choose(read, self.hedge_ms, ReadBuilder::hedge_ms)
    }
}

/// Opens a read.
pub(crate) fn read(location: impl Borrow<Location>, options: ReadOptions) -> ReadChannel {
    let read = client_with(&options.budget).read(location.borrow()).range(options.range.clone());
    let read = choose(read.verify(options.verify.clone()), options.decode, ReadBuilder::decode);
    let read = choose(read, options.version.clone(), ReadBuilder::version);
    options.again(read).open().unwrap()
}

/// Opens a read for code without a runtime.
pub(crate) fn read_blocking(
    location: impl Borrow<Location>,
    options: ReadOptions,
) -> BlockingReadChannel {
    read(location, options).into()
}

/// Continues a read, with these options.
pub(crate) fn restore(
    location: impl Borrow<Location>,
    state: &ReadState,
    options: ReadOptions,
) -> Result<ReadChannel> {
    let read = client_with(&options.budget).restore(location.borrow(), state);
    options.again(read).open()
}

/// Continues a read, with its captured options and this budget.
pub(crate) fn restore_as_it_was(
    location: &Location,
    state: &ReadState,
    budget: &Budget,
) -> Result<ReadChannel> {
    client_with(budget).restore(location, state).open()
}

/// Requests the blob's facts.
pub(crate) async fn stat(
    location: &Location,
    retry: &RetryPolicy,
    budget: &Budget,
    stats: &Arc<ReadStats>,
) -> Result<BlobInfo> {
    let stat = client_with(budget).stat(location).retry(retry.clone());
    stat.stats(Arc::clone(stats)).await
}

/// A download of a store's blob.
#[derive(Clone, Debug)]
pub(crate) struct ChunkedDownloadOptions {
    pub(crate) client: Client,
    pub(crate) window: WindowOptions,
    pub(crate) seeds: Vec<PathBuf>,
    pub(crate) seed_target: Option<bool>,
    pub(crate) seed_indexes: Option<bool>,
    pub(crate) index_target: Option<bool>,
    pub(crate) whole_fallback: bool,
    pub(crate) durability: Durability,
    pub(crate) resume: Option<bool>,
    pub(crate) retry: RetryPolicy,
    pub(crate) progress: Arc<Progress>,
    pub(crate) cancel: CancellationToken,
}

impl Default for ChunkedDownloadOptions {
    fn default() -> Self {
        Self {
            client: Client::default(),
            window: WindowOptions::default(),
            seeds: Vec::new(),
            seed_target: None,
            seed_indexes: None,
            index_target: None,
            whole_fallback: true,
            durability: Durability::default(),
            resume: None,
            retry: RetryPolicy::default(),
            progress: Arc::default(),
            cancel: CancellationToken::new(),
        }
    }
}

/// Downloads a store's blob.
pub(crate) async fn download_chunks(
    store: &Arc<dyn ChunkStore>,
    digest: &Digest,
    target: Target,
    options: &ChunkedDownloadOptions,
) -> Result<Report> {
    let blob = Location::in_store(Arc::clone(store), digest);
    let policy = if options.whole_fallback { ChunkPolicy::Auto } else { ChunkPolicy::Required };
    let download = options
        .client
        .download(&blob, target)
        .chunks(policy)
        .adaptive_window(options.window)
        .durability(options.durability)
        .retry(options.retry.clone())
        .progress(Arc::clone(&options.progress))
        .cancel(options.cancel.clone());
    let download = choose(download, options.seed_target, DownloadBuilder::seed_target);
    let download = choose(download, options.seed_indexes, DownloadBuilder::seed_indexes);
    let download = choose(download, options.index_target, DownloadBuilder::index_target);
    let download = choose(download, options.resume, DownloadBuilder::resume);
    options.seeds.iter().fold(download, DownloadBuilder::seed).await
}

/// An upload to a store.
#[derive(Clone, Debug)]
pub(crate) struct UploadOptions {
    pub(crate) client: Client,
    pub(crate) digest: Option<Digest>,
    pub(crate) digest_function: Option<DigestFunction>,
    pub(crate) chunking: Option<Chunking>,
    pub(crate) whole_fallback: bool,
    pub(crate) confirm: Option<bool>,
    pub(crate) window: WindowOptions,
    pub(crate) retry: RetryPolicy,
    pub(crate) progress: Arc<Progress>,
    pub(crate) cancel: CancellationToken,
}

impl Default for UploadOptions {
    fn default() -> Self {
        Self {
            client: Client::default(),
            digest: None,
            digest_function: None,
            chunking: None,
            whole_fallback: true,
            confirm: None,
            window: WindowOptions::default(),
            retry: RetryPolicy::default(),
            progress: Arc::default(),
            cancel: CancellationToken::new(),
        }
    }
}

/// Uploads to a store.
pub(crate) async fn upload(
    store: &Arc<dyn ChunkStore>,
    source: impl Into<UploadSource>,
    options: &UploadOptions,
) -> Result<Report> {
    let target = Location::any_in_store(Arc::clone(store));
    let policy = if options.whole_fallback { ChunkPolicy::Auto } else { ChunkPolicy::Required };
    let upload = options
        .client
        .upload(source, &target)
        .chunks(policy)
        .adaptive_window(options.window)
        .retry(options.retry.clone())
        .progress(Arc::clone(&options.progress))
        .cancel(options.cancel.clone());
    let upload = choose(upload, options.confirm, UploadBuilder::confirm);
    let upload = choose(upload, options.digest, UploadBuilder::digest);
    let upload = choose(upload, options.digest_function, UploadBuilder::digest_function);
    choose(upload, options.chunking, UploadBuilder::chunking).await
}

/// Passes an option to a builder if the test has chosen it.
fn choose<B, T>(builder: B, choice: Option<T>, pass: impl FnOnce(B, T) -> B) -> B {
    match choice {
        Some(choice) => pass(builder, choice),
        None => builder,
    }
}
