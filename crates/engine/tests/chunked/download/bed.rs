//! What every test needs: a blob cut into chunks, a store that holds it, a folder, and targets
//! whose content can be read back.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tidegate::buffer::{ShardBuffer, ShardBufferOptions};
use tidegate::chunked::ChunkStore;
use tidegate::{
    Budget, BudgetOptions, Client, ClientOptions, Durability, Report, Result, StateFolder, Target,
};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_testkit::pseudo_random;

use super::fake::FakeStore;
use crate::call::{ChunkedDownloadOptions, download_chunks};

/// Longer than any test needs: bytes still held then have leaked.
const HANG: Duration = Duration::from_mins(1);

/// A blob, a store that holds it, and a folder.
pub(crate) struct Bed {
    pub(crate) store: Arc<FakeStore>,
    pub(crate) blob: Digest,
    pub(crate) chunks: Vec<Bytes>,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) options: ChunkedDownloadOptions,
}

/// Chunks of these lengths, with equal content for equal seeds.
pub(crate) fn chunks(lens_and_seeds: impl IntoIterator<Item = (usize, u64)>) -> Vec<Bytes> {
    lens_and_seeds.into_iter().map(|(len, seed)| pseudo_random(len, seed)).collect()
}

/// A client with a budget of its own.
pub(crate) fn client(budget: BudgetOptions) -> Client {
    // A fuzzer has no such folder and needs none: digests verify resumed bytes.
    let state = option_env!("CARGO_TARGET_TMPDIR")
        .map_or_else(StateFolder::none, |folder| StateFolder::at(format!("{folder}/state")));
    Client::new(ClientOptions::default().budget(Budget::new(budget)).state(state))
}

impl Bed {
    pub(crate) fn new(chunks: Vec<Bytes>) -> Self {
        Self::on(FakeStore::new(), chunks)
    }

    pub(crate) fn on(store: FakeStore, chunks: Vec<Bytes>) -> Self {
        let blob = Digest::of(DigestFunction::Sha256, &chunks.concat());
        store.hold(&blob, &chunks, None);
        let options = ChunkedDownloadOptions {
            durability: Durability::None,
            client: client(BudgetOptions::default()),
            ..ChunkedDownloadOptions::default()
        };
        let folder = tempfile::tempdir().unwrap();
        Self { store: Arc::new(store), blob, chunks, folder, options }
    }

    /// Sets the bytes and requests of the budget.
    pub(crate) fn with_budget(mut self, bytes: u64, requests: u32) -> Self {
        self.options.client = client(BudgetOptions { requests, bytes });
        self
    }

    pub(crate) fn digest(&self, index: usize) -> Digest {
        Digest::of(self.blob.function, &self.chunks[index])
    }

    pub(crate) fn content(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("target")
    }

    pub(crate) fn part(&self) -> PathBuf {
        self.folder.path().join(".target.tidegate-part")
    }

    pub(crate) fn dyn_store(&self) -> Arc<dyn ChunkStore> {
        Arc::clone(&self.store) as Arc<dyn ChunkStore>
    }

    pub(crate) async fn run(&self, target: Target) -> Result<Report> {
        let outcome = download_chunks(&self.dyn_store(), &self.blob, target, &self.options).await;
        assert_eq!(self.store.in_flight(), 0, "nothing is in flight after the return");
        self.options.client.pool().clear();
        // Threads that deliver to a writer, or cut a seed, end by themselves and then release what
        // they hold. Real time, since the runtime's clock may be paused.
        let since = std::time::Instant::now();
        while self.options.client.budget().held_bytes() > 0 {
            assert!(
                since.elapsed() < HANG,
                "{} bytes held",
                self.options.client.budget().held_bytes()
            );
            std::thread::yield_now();
        }
        outcome
    }

    /// Downloads to a file and checks the file.
    pub(crate) async fn to_file(&self) -> Result<Report> {
        let outcome = self.run(Target::File(self.path())).await;
        if outcome.is_ok() {
            assert!(self.holds_blob(), "the file has the blob's bytes");
            assert!(!self.part().exists(), "no part file is left");
        }
        outcome
    }

    /// Whether the target file has the blob's bytes.
    pub(crate) fn holds_blob(&self) -> bool {
        std::fs::read(self.path()).unwrap() == self.content()
    }

    /// Downloads to a writer; returns the bytes written to it.
    pub(crate) async fn to_writer(&self) -> (Result<Report>, Vec<u8>) {
        let collect = Collect::default();
        let writer = Box::new(collect.clone());
        let outcome = self.run(Target::Writer { writer, name: "test".to_owned() }).await;
        let given = collect.0.lock().unwrap().clone();
        (outcome, given)
    }

    /// Downloads to a buffer; returns the buffer.
    pub(crate) async fn to_buffer(&self) -> (Result<Report>, Arc<ShardBuffer>) {
        let buffer = Arc::new(ShardBuffer::new(ShardBufferOptions::default()).unwrap());
        let outcome = self.run(Target::Buffer(Arc::clone(&buffer))).await;
        (outcome, buffer)
    }
}

/// A writer that takes bytes in order and shows them.
#[derive(Clone, Default)]
pub(crate) struct Collect(pub(crate) Arc<Mutex<Vec<u8>>>);

impl Write for Collect {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
