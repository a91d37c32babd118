//! A cache, a folder and a budget: the setup of every test here.
//!
//! Chunks have some 1 KiB, so that blobs can be small. They are sent in batches of 16 KiB, or each
//! in a `ByteStream` call of its own, as the test chooses.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tidegate::budget::{Budget, BudgetOptions};
use tidegate::chunked::ChunkStore;
use tidegate::remote::{ExtraHeaders, reapi};
use tidegate::transport::TransportOptions;
use tidegate::{Client, Report, Target};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::retry::RetryPolicy;
use tidegate_core::window::WindowOptions;
use tidegate_testkit::pseudo_random;
use tidegate_testkit::reapi::{BlobName, ChunkFunction, ReapiOptions, ReapiServer};

use crate::call::{ChunkedDownloadOptions, UploadOptions, client_with};

/// How the cache cuts: chunks of 256 to 4096 bytes.
pub(crate) const CUT: ChunkFunction = ChunkFunction::FastCdc2020 { avg_bytes: 1024, seed: 0 };
/// The blob of most tests: some 250 chunks.
pub(crate) const LEN: usize = 256 << 10;
/// The budget of every test: less than the blob.
pub(crate) const BUDGET_BYTES: u64 = 128 << 10;
/// Longer than any test needs: requests still in flight then have leaked.
const SETTLED_MS_MAX: u64 = 20_000;
/// Longer than any transfer needs: a transfer that takes longer has hung.
const TRANSFER_MS_MAX: u64 = 60_000;
/// The limit for silence, longer than any test: no test passes by waiting for it.
const PATIENCE_MS: u64 = 3_600_000;

/// How chunks are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Some sixteen chunks in a request.
    Batches,
    /// Each chunk in a request of its own.
    Streams,
}

impl Way {
    pub(crate) const ALL: [Self; 2] = [Self::Batches, Self::Streams];

    pub(crate) fn options(self) -> ReapiOptions {
        let batch_bytes_max = match self {
            Self::Batches => 16 << 10,
            // Less than any chunk, and not 0, which is no limit.
            Self::Streams => 1,
        };
        ReapiOptions { chunk_functions: vec![CUT], batch_bytes_max, ..ReapiOptions::default() }
    }
}

/// A cache, a connection to it, and a folder for files.
pub(crate) struct Bed {
    pub(crate) server: ReapiServer,
    pub(crate) store: Arc<dyn ChunkStore>,
    pub(crate) folder: TempDir,
    pub(crate) client: Client,
}

impl Bed {
    pub(crate) async fn new(options: ReapiOptions) -> Self {
        Self::with(options, &reapi::ReapiOptions::default()).await
    }

    /// A cache, with client options other than the defaults.
    pub(crate) async fn with(options: ReapiOptions, client: &reapi::ReapiOptions) -> Self {
        let server = ReapiServer::start(options).await.unwrap();
        let store = Self::client(&server, client);
        let folder = tempfile::tempdir().unwrap();
        let budget = Budget::new(BudgetOptions { requests: 64, bytes: BUDGET_BYTES });
        Self { server, store, folder, client: client_with(&budget) }
    }

    pub(crate) async fn by(way: Way) -> Self {
        Self::new(way.options()).await
    }

    fn client(server: &ReapiServer, options: &reapi::ReapiOptions) -> Arc<dyn ChunkStore> {
        let url = reapi::CacheUrl::parse(&server.url()).unwrap();
        let cache = reapi::ReapiCache::new(
            &url,
            options,
            &ExtraHeaders::default(),
            &TransportOptions::default(),
        );
        Arc::new(cache.unwrap())
    }

    pub(crate) fn retry() -> RetryPolicy {
        RetryPolicy {
            attempts_max: 6,
            delay_ms_min: 1,
            delay_ms_max: 5,
            progress_bytes_min: 64,
            stall_ms_max: PATIENCE_MS,
            header_ms_max: PATIENCE_MS,
            seed: Some(1),
            ..RetryPolicy::default()
        }
    }

    /// Like [`Self::retry`], with a short limit for silence.
    pub(crate) fn impatient() -> RetryPolicy {
        RetryPolicy { stall_ms_max: 600, header_ms_max: 600, ..Self::retry() }
    }

    pub(crate) fn down(&self) -> ChunkedDownloadOptions {
        ChunkedDownloadOptions {
            window: WindowOptions::fixed(16),
            retry: Self::retry(),
            client: self.client.clone(),
            ..ChunkedDownloadOptions::default()
        }
    }

    pub(crate) fn up(&self) -> UploadOptions {
        UploadOptions {
            window: WindowOptions::fixed(16),
            retry: Self::retry(),
            client: self.client.clone(),
            ..UploadOptions::default()
        }
    }

    pub(crate) fn target(&self) -> PathBuf {
        self.folder.path().join("target")
    }

    /// The bytes of the target file.
    pub(crate) fn arrived(&self) -> Option<Vec<u8>> {
        std::fs::read(self.target()).ok()
    }

    /// Downloads to the target with these options, and checks what holds after every outcome.
    pub(crate) async fn download(
        &self,
        name: &BlobName,
        options: &ChunkedDownloadOptions,
    ) -> tidegate::Result<Report> {
        self.download_to(name, Target::File(self.target()), options).await
    }

    pub(crate) async fn download_to(
        &self,
        name: &BlobName,
        target: Target,
        options: &ChunkedDownloadOptions,
    ) -> tidegate::Result<Report> {
        let outcome =
            crate::call::download_chunks(&self.store, &digest(name), target, options).await;
        self.settled().await;
        outcome
    }

    /// Writes a file and uploads it, and checks what holds after every outcome.
    pub(crate) async fn upload(
        &self,
        data: &Bytes,
        options: &UploadOptions,
    ) -> tidegate::Result<Report> {
        let path = self.file("source", data);
        let outcome = in_time(crate::call::upload(&self.store, &path, options)).await;
        self.settled().await;
        if let Ok(report) = &outcome {
            let function = match report.digest.unwrap().function {
                DigestFunction::Blake3 => tidegate_testkit::reapi::HashFunction::Blake3,
                _ => tidegate_testkit::reapi::HashFunction::Sha256,
            };
            let name = function.name(data);
            assert_eq!(self.server.blob(&name).as_ref(), Some(data), "what the cache has");
        }
        outcome
    }

    pub(crate) fn file(&self, name: &str, data: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, data).unwrap();
        path
    }

    /// Nothing is in flight, and no bytes are held.
    pub(crate) async fn settled(&self) {
        let idle = tokio::time::timeout(Duration::from_millis(SETTLED_MS_MAX), self.server.idle());
        assert!(idle.await.is_ok(), "still in flight: {:?}", self.server.counts().total);
        // A cancelled file read releases its bytes when the system call returns.
        let free = async {
            while self.client.budget().held_bytes() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let free = tokio::time::timeout(Duration::from_millis(SETTLED_MS_MAX), free).await;
        assert!(free.is_ok(), "{} bytes still held", self.client.budget().held_bytes());
        assert!(self.client.budget().held_bytes_peak() <= self.client.budget().limits().bytes);
    }
}

/// A writer that shows its bytes.
#[derive(Clone, Default)]
pub(crate) struct Collect(Arc<Mutex<Vec<u8>>>);

impl Collect {
    pub(crate) fn target(&self) -> Target {
        Target::Writer { writer: Box::new(self.clone()), name: "output".to_owned() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl std::io::Write for Collect {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The outcome of `transfer`; panics if it hangs.
pub(crate) async fn in_time<T>(transfer: impl Future<Output = T>) -> T {
    let limit = Duration::from_millis(TRANSFER_MS_MAX);
    tokio::time::timeout(limit, transfer).await.expect("it waits for what never comes")
}

/// A blob whose chunks all differ.
pub(crate) fn blob(seed: u64) -> Bytes {
    pseudo_random(LEN, seed)
}

/// A blob's name as the engine's type.
pub(crate) fn digest(name: &BlobName) -> Digest {
    use tidegate_testkit::reapi::HashFunction;
    let function = match name.function {
        HashFunction::Sha256 => DigestFunction::Sha256,
        HashFunction::Blake3 => DigestFunction::Blake3,
    };
    Digest::parse(&format!("{}/{}/{}", function.name(), name.hash, name.len_bytes)).unwrap()
}

/// The chunks of a blob as the cache would cut it.
pub(crate) fn chunks(data: &[u8]) -> Vec<BlobName> {
    let mut rest = data;
    let mut names = Vec::new();
    for length in CUT.cut(data) {
        let (chunk, after) = rest.split_at(length);
        names.push(tidegate_testkit::reapi::HashFunction::Sha256.name(chunk));
        rest = after;
    }
    names
}

/// The hashes of these.
pub(crate) fn hashes(names: &[BlobName]) -> Vec<String> {
    names.iter().map(|name| name.hash.clone()).collect()
}
