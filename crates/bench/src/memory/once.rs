//! One way to fetch a blob into memory, in a process of its own: `tidegate-bench memory-once`.

use std::hint::black_box;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tidegate::read::Verify;
use tidegate::remote::RemoteOptions;
use tidegate::{Budget, BudgetOptions, Client, ClientOptions, Location, Target};
use tidegate_core::range::ByteRange;
use tokio::io::AsyncReadExt as _;
use tokio::task::JoinSet;

/// Range length of the ways with several requests: the length of a download's first shard.
const RANGE_BYTES: u64 = 8 << 20;

/// Requests in flight: as many as a download's window.
const REQUESTS: usize = 32;

/// How the blob is fetched into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// `download` to memory: many requests, into a `ShardBuffer`, verified.
    Download,
    /// One stream, appended to a `Vec` with enough capacity.
    Vec,
    /// One stream, appended to an empty `Vec`.
    VecGrowing,
    /// As many requests as a download's, each into its own `Vec`, joined at the end.
    Vecs,
}

/// What to fetch, and how.
#[derive(Debug, Args)]
pub(crate) struct MemoryOnceOptions {
    /// The object
    url: String,
    /// Base address of the server
    #[arg(long)]
    endpoint: String,
    /// How to fetch it
    #[arg(long, value_enum)]
    way: Way,
    /// Its length
    #[arg(long)]
    len_bytes: u64,
    /// Number of fetches, in sequence
    #[arg(long, default_value_t = 1)]
    times: u32,
}

/// The cost of one fetch; a line of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MemoryOnce {
    pub(crate) wall_s: f64,
    pub(crate) cpu_s: f64,
    pub(crate) bytes: u64,
    /// Whether a checksum was compared.
    pub(crate) verified: bool,
}

/// Fetches it, and prints a line for each time.
pub(crate) fn run_once(options: &MemoryOnceOptions) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let remote = RemoteOptions {
        endpoint: Some(options.endpoint.clone()),
        anonymous: true,
        ..RemoteOptions::default()
    };
    // The length of the blob and some more, so that the blob fits next to the bytes in flight.
    let budget = BudgetOptions { bytes: options.len_bytes + (256 << 20), ..Default::default() };
    let client = Client::new(ClientOptions::default().remote(remote).budget(Budget::new(budget)));
    let location = client.locate(&options.url)?;
    for _ in 0..options.times {
        let (started, cpu) = (Instant::now(), processor_time());
        let (bytes, verified) = runtime.block_on(options.bring(&client, &location))?;
        let wall_s = started.elapsed().as_secs_f64();
        let cpu_s = processor_time().saturating_sub(cpu).as_secs_f64();
        let took = MemoryOnce { wall_s, cpu_s, bytes, verified };
        let line = serde_json::to_string(&took)? + "\n";
        io::stdout().write_all(line.as_bytes()).context("printing what it took")?;
    }
    Ok(())
}

impl MemoryOnceOptions {
    /// Returns the number of bytes in memory at the end, and whether they were verified.
    async fn bring(&self, client: &Client, location: &Location) -> Result<(u64, bool)> {
        match self.way {
            Way::Download => {
                let report = client.download(location, Target::Memory).await?;
                let is_verified = report.is_verified();
                let blob = report.memory.context("a download to memory brings the blob")?;
                Ok((black_box(&blob).len() as u64, is_verified))
            }
            Way::Vec => self.stream(client, location, self.len_bytes).await,
            Way::VecGrowing => self.stream(client, location, 0).await,
            Way::Vecs => self.ranges(client, location).await,
        }
    }

    async fn stream(
        &self,
        client: &Client,
        location: &Location,
        capacity: u64,
    ) -> Result<(u64, bool)> {
        let mut blob = Vec::with_capacity(usize::try_from(capacity)?);
        let mut channel = client.read(location).open()?;
        while let Some(frame) = channel.next().await? {
            blob.extend_from_slice(&frame);
        }
        Ok((black_box(&blob).len() as u64, channel.verified().is_verified()))
    }

    async fn ranges(&self, client: &Client, location: &Location) -> Result<(u64, bool)> {
        let count = self.len_bytes.div_ceil(RANGE_BYTES);
        let mut parts: Vec<Vec<u8>> = Vec::new();
        parts.resize_with(usize::try_from(count)?, Vec::new);
        let mut waiting = 0..count;
        let mut tasks = JoinSet::new();
        loop {
            while tasks.len() < REQUESTS
                && let Some(index) = waiting.next()
            {
                let start = index * RANGE_BYTES;
                let range = start..(start + RANGE_BYTES).min(self.len_bytes);
                let read = client.read(location).range(ByteRange::Bounded(range.clone()));
                let mut channel = read.verify(Verify::Off).open()?;
                tasks.spawn(async move {
                    let mut part = Vec::with_capacity(usize::try_from(range.end - range.start)?);
                    channel.read_to_end(&mut part).await?;
                    anyhow::Ok((index, part))
                });
            }
            let Some(done) = tasks.join_next().await else { break };
            let (index, part) = done??;
            parts[usize::try_from(index)?] = part;
        }
        let blob = parts.concat();
        ensure!(blob.len() as u64 == self.len_bytes, "a range is missing");
        Ok((black_box(&blob).len() as u64, false))
    }
}

/// User and system time of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let whole = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or_default());
    whole + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or_default())
}
