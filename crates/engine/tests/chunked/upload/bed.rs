//! What these tests share: files, how they are cut, and how an upload is run. A call that hangs
//! fails its test after [`HANG`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tidegate::UploadSource;
use tidegate::chunked::ChunkStore;
use tidegate::{Budget, BudgetOptions, Report, Result};
use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::retry::RetryPolicy;

use super::store::FakeStore;
use crate::call::{UploadOptions, upload};

/// Far longer than any test takes: only a hang reaches it.
pub(crate) const HANG: Duration = Duration::from_mins(1);

/// Chunks of 256 to 4096 bytes, 1 KiB on average.
pub(crate) fn small() -> Chunking {
    Chunking::FastCdc2020(FastCdc2020Params::new(1024, 0).unwrap())
}

/// The longest chunk of [`small`].
pub(crate) const SMALL_MAX: u64 = 4096;

/// Chunks of 64 to 127 KiB: none fits into a batch of 64 KiB.
pub(crate) fn large() -> Chunking {
    Chunking::RepMaxCdc(RepMaxCdcParams::new(64 << 10, 128 << 10).unwrap())
}

/// A file and its bytes.
pub(crate) struct File {
    _folder: TempDir,
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

impl File {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blob");
        std::fs::write(&path, &bytes).unwrap();
        Self { _folder: folder, path, bytes }
    }

    /// Bytes that do not repeat.
    pub(crate) fn random(len: usize, seed: u64) -> Self {
        Self::new(random(len, seed))
    }

    pub(crate) fn digest(&self) -> Digest {
        Digest::of(DigestFunction::Sha256, &self.bytes)
    }
}

/// The output of `SplitMix64`, as bytes.
pub(crate) fn random(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = Random(seed);
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| rng.next().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// True once in `n` times on average.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}

/// Options whose retries do not pause.
pub(crate) fn options() -> UploadOptions {
    let retry = RetryPolicy { delay_ms_min: 1, delay_ms_max: 2, ..RetryPolicy::default() };
    UploadOptions { retry, ..UploadOptions::default() }
}

pub(crate) fn budget(requests: u32, bytes: u64) -> Budget {
    Budget::new(BudgetOptions { requests, bytes })
}

/// Uploads; panics if the upload hangs.
pub(crate) async fn run(
    store: &Arc<FakeStore>,
    path: &Path,
    options: &UploadOptions,
) -> Result<Report> {
    run_source(store, path.into(), options).await
}

/// The same of any source.
pub(crate) async fn run_source(
    store: &Arc<FakeStore>,
    source: UploadSource,
    options: &UploadOptions,
) -> Result<Report> {
    let store: Arc<dyn ChunkStore> = Arc::clone(store) as _;
    tokio::time::timeout(HANG, upload(&store, source, options)).await.unwrap()
}

/// Waits until `test` holds; panics if it never does.
pub(crate) async fn until(test: impl Fn() -> bool) {
    let wait = async {
        while !test() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(HANG, wait).await.unwrap();
}
