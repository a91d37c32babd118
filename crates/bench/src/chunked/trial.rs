//! One case, ready for transfers: the servers and the blob at its source. It also checks that the
//! blob has arrived at the target.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use tempfile::TempDir;
use tidegate_testkit::pseudo_random;
use tidegate_testkit::reapi::{BlobName, HashFunction, ReapiServer};

use super::case::{Case, Direction, Way};
use super::once::ChunkedOnceOptions;

/// The seed of the blob's bytes.
const SEED: u64 = 20_261_121;

/// A function that names blobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hash {
    Sha256,
    Blake3,
}

impl Hash {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA-256",
            Self::Blake3 => "BLAKE3",
        }
    }

    fn function(self) -> HashFunction {
        match self {
            Self::Sha256 => HashFunction::Sha256,
            Self::Blake3 => HashFunction::Blake3,
        }
    }
}

/// A case that can be run repeatedly.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) case: Case,
    chunked: ReapiServer,
    // Supports whole blobs only.
    whole: ReapiServer,
    blob: BlobName,
    scratch: TempDir,
}

impl Trial {
    /// Makes the blob and starts the servers.
    pub(crate) async fn new(
        case: Case,
        hash: Hash,
        dir: Option<PathBuf>,
        is_trial: bool,
    ) -> Result<Self> {
        let dir = dir.unwrap_or_else(folder);
        let scratch = TempDir::with_prefix_in("tidegate-bench.", &dir)
            .with_context(|| format!("creating a folder in {}", dir.display()))?;
        let chunked = ReapiServer::start(case.server(true)).await?;
        let whole = ReapiServer::start(case.server(false)).await?;
        let data = pseudo_random(usize::try_from(case.len_bytes(is_trial))?, SEED);
        let blob = match case.direction() {
            Direction::Up => {
                fs::write(scratch.path().join("source"), &data).context("writing the source")?;
                hash.function().name(&data)
            }
            Direction::Down => {
                if case.ways().contains(&Way::Whole) {
                    whole.put_as(hash.function(), data.clone());
                }
                chunked.put_chunked(hash.function(), case.chunk_function(), data).0
            }
        };
        Ok(Self { case, chunked, whole, blob, scratch })
    }

    fn server(&self, way: Way) -> &ReapiServer {
        if way == Way::Whole { &self.whole } else { &self.chunked }
    }

    fn file(&self) -> PathBuf {
        let up = self.case.direction() == Direction::Up;
        self.scratch.path().join(if up { "source" } else { "target" })
    }

    /// Removes the result of an earlier transfer.
    pub(crate) fn prepare(&self, way: Way) -> Result<ChunkedOnceOptions> {
        let server = self.server(way);
        match self.case.direction() {
            Direction::Up => {
                for name in server.blobs() {
                    server.evict(&name.hash);
                }
            }
            Direction::Down => match fs::remove_file(self.file()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => bail!(error),
                _ => {}
            },
        }
        let (url, case, file) = (server.url(), self.case, self.file());
        let function = match self.blob.function {
            HashFunction::Sha256 => "sha256",
            HashFunction::Blake3 => "blake3",
        };
        let digest = format!("{function}/{}/{}", self.blob.hash, self.blob.len_bytes);
        Ok(ChunkedOnceOptions { url, case, way, digest, file })
    }

    /// Whether the blob has arrived.
    pub(crate) fn check(&self, way: Way) -> Result<()> {
        let (server, blob) = (self.server(way), &self.blob);
        match self.case.direction() {
            // The bare calls do not splice the chunks into a blob.
            Direction::Up if way == Way::Bare64 => {
                let len: u64 = server.blobs().iter().map(|name| name.len_bytes).sum();
                ensure!(len == blob.len_bytes, "{len} bytes are there");
            }
            Direction::Up => {
                ensure!(server.contains(blob), "the blob is not there");
                let bytes = server.blob(blob).context("the blob cannot be read")?;
                ensure!(blob.function.name(&bytes) == *blob, "the blob is something else");
            }
            Direction::Down => {
                let bytes = fs::read(self.file()).context("reading the target")?;
                ensure!(blob.function.name(&bytes) == *blob, "the target is something else");
            }
        }
        Ok(())
    }
}

/// In memory, if there is such a folder: disks are not measured.
fn folder() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}
