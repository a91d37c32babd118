//! Reads while three times the limit is written: the latency of reads of a hot set that is read all
//! the time, first alone and then beside the writes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;
use tonic::Code;

use super::Bed;
use super::blobs::{Blob, noise};
use super::contender::Contender;
use super::load::Caller;
use super::workers::{Done, Until, in_parallel, quantile};
use crate::figures::MIB;
use crate::progress::progress;

/// The hot set: blobs of 4 KiB, and of 1 MiB.
const HOT_SMALL: u64 = 1000;
const HOT_LARGE: u64 = 50;
const LARGE_BYTES: usize = 1 << 20;
const READERS: usize = 4;
const WRITERS: usize = 4;
/// How long the hot set is read alone.
const QUIET: Duration = Duration::from_secs(5);
/// A writer that is refused pauses for this time.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// The reads of one contender.
#[derive(Debug, Serialize)]
pub(crate) struct Pressure {
    pub(crate) contender: Contender,
    pub(crate) limit: u64,
    pub(crate) quiet_p50_ms: f64,
    pub(crate) quiet_p99_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    pub(crate) reads: usize,
    /// Reads of the hot set that found nothing.
    pub(crate) misses: u64,
    pub(crate) refused_writes: u64,
    pub(crate) write_mib_per_s: f64,
    /// The store on the disk at the end, relative to the limit.
    pub(crate) disk: f64,
}

/// Nothing for a contender without a limit.
pub(super) async fn measure(bed: &Bed<'_>, contender: Contender) -> Result<Option<Pressure>> {
    if !(contender.is_ours() || contender == Contender::Casd) {
        return Ok(None);
    }
    let limit = bed.options.limit;
    progress(&format!("{}: writing three times {} MiB", contender.label(), limit >> 20));
    let server = bed.options.programs.start(contender, &bed.folder, Some(limit)).await?;
    let caller = Caller::connect(&server).await?;
    let (small, large) = (noise(4032), noise(LARGE_BYTES));
    let hot = (0..HOT_SMALL).map(|number| Blob::new(number, &small));
    let hot: Arc<[Blob]> =
        hot.chain((0..HOT_LARGE).map(|number| Blob::new(number, &large))).collect();
    for blob in hot.iter() {
        caller.clone().write_one(blob).await?;
    }
    let reader = Reader { caller: Caller::connect(&server).await?, hot, misses: Arc::default() };
    let alone = reader.clone();
    let read = move |_| alone.clone().read();
    let (quiet, _) = in_parallel(READERS, Until::Time(QUIET), read).await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let reads = tokio::spawn(reader.clone().read_until(Arc::clone(&is_over)));
    let refused = Arc::new(AtomicU64::new(0));
    let count = usize::try_from(3 * limit / LARGE_BYTES as u64)?;
    let writer = Writer { caller, large, refused: Arc::clone(&refused) };
    let started = Instant::now();
    let write = move |number| writer.clone().write(number as u64 + HOT_LARGE);
    let written = in_parallel(WRITERS, Until::Calls(count), write).await;
    let wall_s = started.elapsed().as_secs_f64();
    is_over.store(true, Ordering::Release);
    let loaded = reads.await??;
    let (_, written) = written?;
    #[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52 bytes")]
    let pressure = Pressure {
        contender,
        limit,
        quiet_p50_ms: quantile(&quiet, 0.5),
        quiet_p99_ms: quantile(&quiet, 0.99),
        p50_ms: quantile(&loaded, 0.5),
        p99_ms: quantile(&loaded, 0.99),
        max_ms: quantile(&loaded, 1.0),
        reads: loaded.len(),
        misses: reader.misses.load(Ordering::Relaxed),
        refused_writes: refused.load(Ordering::Relaxed),
        write_mib_per_s: written.bytes as f64 / MIB / wall_s,
        disk: disk_bytes(&server.store)? as f64 / limit as f64,
    };
    progress(&format!("  {pressure:?}"));
    server.end()?;
    Ok(Some(pressure))
}

#[derive(Clone)]
struct Reader {
    caller: Caller,
    hot: Arc<[Blob]>,
    misses: Arc<AtomicU64>,
}

impl Reader {
    /// One blob of the hot set. One that is missing is written again.
    async fn read(self) -> Result<Done> {
        let blob = &self.hot[fastrand::usize(..self.hot.len())];
        match self.caller.clone().read_one(blob).await {
            Ok(done) => Ok(done),
            Err(status) if status.code() == Code::NotFound => {
                self.misses.fetch_add(1, Ordering::Relaxed);
                // It may be refused, as other writes are.
                let _ = self.caller.write_one(blob).await;
                Ok(Done { operations: 1, bytes: 0 })
            }
            Err(status) => bail!("a read failed: {status}"),
        }
    }

    async fn read_until(self, is_over: Arc<AtomicBool>) -> Result<Vec<Duration>> {
        let mut latencies = Vec::new();
        while !is_over.load(Ordering::Acquire) {
            let reader = self.clone();
            let read = move |_| reader.clone().read();
            latencies.extend(in_parallel(READERS, Until::Calls(READERS * 25), read).await?.0);
        }
        Ok(latencies)
    }
}

#[derive(Clone)]
struct Writer {
    caller: Caller,
    large: bytes::Bytes,
    refused: Arc<AtomicU64>,
}

impl Writer {
    /// Writes a new blob, until it is accepted.
    async fn write(self, number: u64) -> Result<Done> {
        let blob = Blob::new(number, &self.large);
        loop {
            match self.caller.clone().write_one(&blob).await {
                Ok(done) => return Ok(done),
                Err(status) if status.code() == Code::ResourceExhausted => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(REFUSED_PAUSE).await;
                }
                Err(status) => bail!("a write failed: {status}"),
            }
        }
    }
}

/// What the files take on the disk.
fn disk_bytes(folder: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt as _;

    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path())?,
            Ok(metadata) => metadata.blocks() * 512,
            // It was evicted meanwhile.
            Err(_) => 0,
        };
    }
    Ok(bytes)
}
