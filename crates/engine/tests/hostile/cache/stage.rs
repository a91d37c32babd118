//! One scenario: its server, its client, and what must hold for every scenario.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tidegate::Error;
use tidegate::budget::{Budget, BudgetOptions};
use tidegate::remote::{RemoteOptions, reapi};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::retry::RetryPolicy;
use tidegate_testkit::reapi::{BlobName, ChunkFunction, HashFunction, ReapiOptions, ReapiServer};
use tokio::runtime::Builder;
use tokio::time::Instant;

use super::scenario::{Cache, Client, Kept, Scenario, Transfer};
use super::{down, up, watch};
use crate::call::client_of;

/// Chunks of 256 to 4096 bytes.
pub(crate) const CUT: ChunkFunction = ChunkFunction::FastCdc2020 { avg_bytes: 1024, seed: 0 };

/// A client waits this long for a response, or for more bytes of one.
const PATIENCE_MS: u64 = 2_000;

/// No scenario takes this much virtual time. Each of some sixty requests may wait for `PATIENCE_MS`
/// and as often pause for up to `RETRY_AFTER_MS_MAX`, four times over.
const VIRTUAL_MAX: Duration = Duration::from_hours(3);

/// The longest pause that a lie asks for and the client accepts.
const RETRY_AFTER_MS_MAX: u64 = 60_000;

/// Bytes that are still held after this many seconds of virtual time are never released.
const SETTLED_S_MAX: u64 = 600;

/// The outcome of a scenario, to be counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Outcome {
    pub(crate) transfer: &'static str,
    pub(crate) has_lies: bool,
    /// `None` is a success.
    pub(crate) failure: Option<String>,
}

/// The server, client and data of a transfer.
pub(crate) struct Bed<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) server: ReapiServer,
    pub(crate) remotes: tidegate::Client,
    pub(crate) budget: Budget,
    pub(crate) folder: TempDir,
    pub(crate) data: Bytes,
    pub(crate) name: BlobName,
}

/// Runs a scenario. Returns its outcome, or what was wrong.
pub(crate) fn run(scenario: &Scenario) -> Result<Outcome, String> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let played = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(play(scenario))));
    drop(runtime);
    let panics = watch::panics();
    match played {
        _ if !panics.is_empty() => Err(format!("panics: {panics:?}")),
        Ok(outcome) => outcome,
        Err(_) => Err("a panic that was not seen".to_owned()),
    }
}

async fn play(scenario: &Scenario) -> Result<Outcome, String> {
    let bed = Bed::new(scenario).await;
    let start = Instant::now();
    let (transfer, failure) = match scenario.transfer {
        Transfer::Down(target) => ("down", down::play(&bed, target).await?),
        Transfer::Up(named) => ("up", up::play(&bed, named).await?),
    };
    let elapsed = start.elapsed();
    if elapsed > VIRTUAL_MAX {
        return Err(format!("it took {elapsed:?}"));
    }
    let (budget, has_lies) = (bed.budget.clone(), !scenario.calls.is_empty());
    drop(bed);
    settled(&budget).await?;
    if let Some(error) = failure.as_ref() {
        shown(error)?;
    }
    let failure = failure.map(|error| format!("{:?}", error.kind()));
    Ok(Outcome { transfer, has_lies, failure })
}

/// Nothing is held, and the budget was never exceeded.
async fn settled(budget: &Budget) -> Result<(), String> {
    let (peak, limit) = (budget.held_bytes_peak(), budget.limits().bytes);
    if peak > limit {
        return Err(format!("{peak} bytes were held of {limit}"));
    }
    // A connection ends with its last response, and a thread when it next checks.
    for _ in 0..SETTLED_S_MAX {
        if budget.held_bytes() == 0 {
            return Ok(());
        }
        tokio::task::spawn_blocking(std::thread::yield_now).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Err(format!("{} bytes are still held", budget.held_bytes()))
}

/// Whether an error's text can be shown on a terminal.
fn shown(error: &Error) -> Result<(), String> {
    let chain = error.chain();
    if chain.is_empty() || chain.len() > 20_000 || chain.chars().any(char::is_control) {
        return Err(format!("an error that cannot be shown: {chain:?}"));
    }
    Ok(())
}

impl<'a> Bed<'a> {
    async fn new(scenario: &'a Scenario) -> Self {
        let server = ReapiServer::start(server_options(&scenario.cache)).await.unwrap();
        let data = scenario.blob.bytes();
        let name = scenario.function.name(&data);
        let bed = Self {
            scenario,
            server,
            remotes: remotes(&scenario.client),
            budget: Budget::new(BudgetOptions { requests: 8, bytes: scenario.client.budget_bytes }),
            folder: tempfile::tempdir().unwrap(),
            data,
            name,
        };
        bed.keep(scenario.cache.kept);
        scenario.calls.iter().for_each(|call| bed.server.tell(call));
        bed
    }

    /// Places the cache's content.
    pub(crate) fn keep(&self, kept: Kept) {
        let data = self.data.clone();
        match kept {
            Kept::Nothing => {}
            Kept::Whole => drop(self.server.put_as(self.scenario.function, data)),
            Kept::Chunks | Kept::SomeChunks | Kept::Haunted => {
                let (name, chunks) = self.server.put_chunked(self.scenario.function, CUT, data);
                let is_up = matches!(self.scenario.transfer, Transfer::Up(_));
                if is_up && chunks.len() > 1 {
                    self.server.evict(&name.hash);
                }
                if kept == Kept::SomeChunks {
                    chunks.iter().step_by(2).for_each(|chunk| self.server.evict(&chunk.hash));
                }
                if let (Kept::Haunted, Some(chunk)) = (kept, chunks.last()) {
                    self.server.haunt(&chunk.hash);
                }
            }
        }
    }

    /// Whether the server sends no wrong responses, or no more of them.
    pub(crate) fn is_honest(&self) -> bool {
        self.scenario.calls.is_empty() || self.server.script().is_empty()
    }

    pub(crate) fn retry(&self) -> RetryPolicy {
        // The clock can pass a deadline while one of the engine's threads works.
        let deadline_ms = self.scenario.client.deadline_ms.filter(|_| !self.is_honest());
        RetryPolicy {
            attempts_max: self.scenario.client.attempts_max,
            delay_ms_min: 1,
            delay_ms_max: 5,
            deadline_ms,
            progress_bytes_min: 64,
            stall_ms_max: PATIENCE_MS,
            header_ms_max: PATIENCE_MS,
            connect_ms_max: PATIENCE_MS,
            retry_after_ms_max: RETRY_AFTER_MS_MAX,
            seed: Some(self.scenario.blob.seed),
            ..RetryPolicy::default()
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("target")
    }

    pub(crate) fn digest(&self) -> Digest {
        digest(&self.name)
    }
}

fn server_options(cache: &Cache) -> ReapiOptions {
    ReapiOptions {
        chunk_functions: vec![CUT],
        batch_bytes_max: cache.batch_bytes_max,
        split: cache.can_split,
        splice: cache.can_splice,
        zstd: cache.speaks_zstd,
        trusting: cache.trusts,
        spliced_again: cache.spliced_again,
        read_message_bytes: 1_500,
        acknowledgements: true,
        ..ReapiOptions::default()
    }
}

fn remotes(client: &Client) -> tidegate::Client {
    let reapi = reapi::ReapiOptions {
        compression: client.compression,
        chunks: client.chunks,
        connections_max: client.connections_max,
        // Without this, keep-alive PINGs would be the only events, as the clock jumps to the next
        // timer.
        keep_alive_ms: None,
        ..reapi::ReapiOptions::default()
    };
    client_of(RemoteOptions { reapi, ..RemoteOptions::default() })
}

/// The engine's digest for a name.
pub(crate) fn digest(name: &BlobName) -> Digest {
    let function = match name.function {
        HashFunction::Sha256 => DigestFunction::Sha256,
        HashFunction::Blake3 => DigestFunction::Blake3,
    };
    Digest::parse(&format!("{}/{}/{}", function.name(), name.hash, name.len_bytes)).unwrap()
}
