//! One transfer: `tidegate-bench chunked-once`. It runs in a process of its own, so that memory and
//! processor time are those of the transfer.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tidegate::chunked::Manifest;
use tidegate::{Client, Durability, Location, Target};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::window::WindowOptions;

use super::case::{Case, Direction, Way};
use super::models;
use super::plain::Plain;

/// The transfer and its options.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChunkedOnceOptions {
    /// The cache, as `grpc://HOST:PORT`
    pub(crate) url: String,
    #[arg(long, value_enum)]
    pub(crate) case: Case,
    #[arg(long, value_enum)]
    pub(crate) way: Way,
    /// The blob
    #[arg(long)]
    pub(crate) digest: String,
    /// The source or target file
    #[arg(long)]
    pub(crate) file: PathBuf,
}

/// The cost of one transfer; a line of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChunkedOnce {
    /// From the first call for this blob to its end. The connection and the server's capabilities
    /// exist before.
    pub(crate) wall_s: f64,
    pub(crate) cpu_s: f64,
    pub(crate) chunks: u64,
    /// The most bytes held of the budget; `None` for models.
    pub(crate) held_bytes_peak: Option<u64>,
    /// The window at the end, if there is one.
    pub(crate) window: Option<u32>,
    /// Peak resident set of the process, KiB, if the system reports it.
    pub(crate) rss_kib: Option<u64>,
    /// The same before the transfer began.
    pub(crate) rss_kib_before: Option<u64>,
}

/// Runs the transfer, and prints its cost.
pub(crate) fn run_once(options: &ChunkedOnceOptions) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let took = runtime.block_on(transfer(options))?;
    let line = serde_json::to_string(&took)? + "\n";
    io::stdout().write_all(line.as_bytes()).context("printing what it took")
}

/// Runs the transfer.
pub(crate) async fn transfer(options: &ChunkedOnceOptions) -> Result<ChunkedOnce> {
    let digest = Digest::parse(&options.digest)?;
    if options.way.is_ours() { ours(options, &digest).await } else { model(options, &digest).await }
}

/// Measures times from its creation.
struct Stopwatch(Instant, Duration, Option<u64>);

impl Stopwatch {
    fn start() -> Self {
        Self(Instant::now(), processor_time(), rss_kib("VmRSS:"))
    }

    fn stop(&self, chunks: u64) -> ChunkedOnce {
        ChunkedOnce {
            wall_s: self.0.elapsed().as_secs_f64(),
            cpu_s: processor_time().saturating_sub(self.1).as_secs_f64(),
            chunks,
            held_bytes_peak: None,
            window: None,
            rss_kib: rss_kib("VmHWM:"),
            rss_kib_before: self.2,
        }
    }
}

async fn ours(options: &ChunkedOnceOptions, digest: &Digest) -> Result<ChunkedOnce> {
    let client = Client::default();
    let cache = client.locate_target(&options.url)?;
    let store = cache.store().context("the URL names no cache")?;
    store.profile().await?;
    let blob = Location::in_store(Arc::clone(store), digest);
    let window = match options.way {
        Way::Window16 => WindowOptions::fixed(16),
        _ => WindowOptions::default(),
    };
    let path = &options.file;
    let stopwatch = Stopwatch::start();
    match options.case.direction() {
        Direction::Down => {
            let download = client.download(&blob, Target::file(path)).adaptive_window(window);
            // There are no seeds and no saved progress.
            let download = download.seed_target(false).resume(false);
            let report = download.durability(Durability::None).await?;
            let chunks = report.chunks.unwrap_or_default();
            Ok(ChunkedOnce {
                held_bytes_peak: Some(report.held_bytes_peak),
                window: Some(chunks.window),
                ..stopwatch.stop(chunks.all.chunks)
            })
        }
        Direction::Up => {
            // The caller knows the file's digest, as in the models.
            let report = client.upload(path, &blob).adaptive_window(window).await?;
            let held_bytes_peak = Some(report.held_bytes_peak);
            let chunks = report.chunks.unwrap_or_default();
            Ok(ChunkedOnce { held_bytes_peak, ..stopwatch.stop(chunks.all.chunks) })
        }
    }
}

async fn model(options: &ChunkedOnceOptions, digest: &Digest) -> Result<ChunkedOnce> {
    let plain = Plain::connect(&options.url).await?;
    let window = if options.way == Way::OneAtATime { 1 } else { 16 };
    let (chunking, path) = (options.case.chunking()?, options.file.as_path());
    let prepared = match (options.way, options.case.direction()) {
        (Way::Bare64, Direction::Down) => offsets(digest, plain.split(digest).await?)?,
        (Way::Bare64, Direction::Up) => cut(path, options.case, digest.function).await?,
        _ => Vec::new(),
    };
    let stopwatch = Stopwatch::start();
    let count = match (options.way, options.case.direction()) {
        (Way::Bare64, Direction::Down) => {
            models::read_any_order(&plain, prepared, path, 64).await?
        }
        (Way::Bare64, Direction::Up) => models::write_all(&plain, path, prepared, 64).await?,
        (_, Direction::Down) => models::download_in_order(&plain, digest, path, window).await?,
        (_, Direction::Up) => {
            models::upload_in_stages(&plain, path, digest, &chunking, window).await?
        }
    };
    Ok(stopwatch.stop(count as u64))
}

fn offsets(blob: &Digest, chunks: Vec<Digest>) -> Result<Vec<(u64, Digest)>> {
    let manifest = Manifest::new(*blob, chunks, None)?;
    Ok(manifest.offsets().map(|(offset, chunk)| (offset, *chunk)).collect())
}

async fn cut(path: &Path, case: Case, function: DigestFunction) -> Result<Vec<(u64, Digest)>> {
    let (path, chunking) = (path.to_owned(), case.chunking()?);
    let cut = move || models::cut(&std::fs::File::open(path)?, &chunking, function);
    tokio::task::spawn_blocking(cut).await?
}

/// User and system time of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let whole = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or_default());
    whole + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or_default())
}

/// A figure of this process alone; the figure of `wait4` begins at the parent's peak.
fn rss_kib(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}
