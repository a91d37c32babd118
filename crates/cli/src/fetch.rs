//! Transfers of one command: some blobs side by side, one display, one report.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use tidegate::chunked::{self, ChunkStore, ChunkedDownloadOptions, ChunkedReport};
use tidegate::core::RetryPolicy;
use tidegate::core::digest::Digest;
use tidegate::core::window::WindowOptions;
use tidegate::download::{DownloadOptions, Progress, Report, Target, download};
use tidegate::remote::Location;
use tidegate::remote::reapi::ReapiCache;
use tidegate::{Error, ErrorKind, Operation, Result};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::exit::Exit;
use crate::progress::Display;
use crate::report::{self, Done, Failure, count};
use crate::session::Session;
use crate::size;
use crate::standard;

/// Where one blob goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    File(PathBuf),
    Stdout,
}

/// One blob to fetch.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub(crate) source: Location,
    pub(crate) place: Place,
    /// Where it may come as chunks.
    pub(crate) chunks: Option<Chunks>,
}

/// A blob that its cache may give as chunks.
#[derive(Clone, Debug)]
pub(crate) struct Chunks {
    pub(crate) cache: ReapiCache,
    pub(crate) digest: Digest,
    /// As chunks or not at all.
    pub(crate) always: bool,
    pub(crate) seeds: Vec<PathBuf>,
    /// Beside what is fetched, too.
    pub(crate) keeps_index: bool,
    pub(crate) window: WindowOptions,
}

/// What became of one blob.
type Outcome = Result<Done>;

impl Place {
    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdout => "-".to_owned(),
        }
    }

    /// Whether an interrupted transfer leaves something to go on with: what devices and pipes were
    /// given is gone.
    fn resumes(&self) -> bool {
        let is_file = |path: &PathBuf| path.metadata().map_or(true, |found| found.is_file());
        matches!(self, Self::File(path) if is_file(path))
    }

    fn target(&self) -> Result<Target> {
        match self {
            Self::File(path) => Ok(Target::File(path.clone())),
            Self::Stdout => Ok(Target::Writer {
                writer: Box::new(standard::output()?),
                name: standard::OUTPUT.to_owned(),
            }),
        }
    }
}

/// Fetches all of `fetches` and reports. One that fails does not stop the others; the exit code is
/// that of the first one that failed, in the order given.
pub(crate) async fn run(session: &Session, fetches: Vec<Fetch>, options: DownloadOptions) -> Exit {
    let start = std::time::Instant::now();
    let outcomes = fetch_all(session, &fetches, options).await;
    let seconds = start.elapsed().as_secs_f64();
    match (fetches.as_slice(), outcomes.as_slice()) {
        ([_], [Ok(done)]) => succeed(session, done),
        ([_], [Err(error)]) => session.fail(error),
        _ => summarise(session, &fetches, &outcomes, seconds),
    }
}

/// Fetches all, some of them at once, with a display; outcomes are in the order of
/// `fetches`.
async fn fetch_all(session: &Session, fetches: &[Fetch], options: DownloadOptions) -> Vec<Outcome> {
    let progress: Vec<Arc<Progress>> = fetches.iter().map(|_| Arc::default()).collect();
    let followed = progress.iter().map(|progress| Arc::clone(progress) as _).collect();
    let display = (!session.is_silent()).then(|| Display::start(&session.console, followed));
    let slots = Arc::new(Semaphore::new(session.blobs_at_once));
    let mut running = JoinSet::new();
    for (index, (fetch, progress)) in fetches.iter().zip(progress).enumerate() {
        let options =
            DownloadOptions { progress, cancel: session.cancel.clone(), ..options.clone() };
        let (fetch, slots) = (fetch.clone(), Arc::clone(&slots));
        let alone = fetches.len() == 1;
        let session = session.clone();
        running.spawn(async move {
            // The semaphore is never closed; without a slot there is no bound, but no harm.
            let _slot = slots.acquire().await;
            let outcome = fetch_one(&fetch, &options).await;
            if !alone {
                tell(&session, &outcome);
            }
            (index, outcome)
        });
    }
    let mut outcomes: Vec<Option<Outcome>> = fetches.iter().map(|_| None).collect();
    while let Some(joined) = running.join_next().await {
        if let Ok((index, outcome)) = joined
            && let Some(slot) = outcomes.get_mut(index)
        {
            *slot = Some(outcome);
        }
    }
    if let Some(display) = display {
        display.end().await;
    }
    let ended = fetches.iter().zip(outcomes);
    ended.map(|(fetch, outcome)| outcome.unwrap_or_else(|| Err(lost(fetch)))).collect()
}

/// Fetches one blob as it comes best, without a word.
async fn fetch_one(fetch: &Fetch, options: &DownloadOptions) -> Outcome {
    let (source, target) = (fetch.source.display(), fetch.place.name());
    match &fetch.chunks {
        Some(chunks) if chunks.are_to_be_had(source, options).await? => {
            let report = fetch_chunks(fetch, chunks, options).await?;
            Ok(Done::of_chunks(source, &target, &report))
        }
        chunks => {
            let mut done = Done::new(source, &target, &fetch_shards(fetch, options).await?);
            if chunks.as_ref().is_some_and(|chunks| !chunks.seeds.is_empty()) {
                done.notes.push("the seeds were not used: the cache gives no chunks".to_owned());
            }
            Ok(done)
        }
    }
}

/// Fetches one blob in shards, without a word.
pub(crate) async fn fetch_shards(fetch: &Fetch, options: &DownloadOptions) -> Result<Report> {
    let target = target(fetch, options)?;
    let outcome = Box::pin(download(&fetch.source, target, options)).await;
    hinted(fetch, options, outcome)
}

async fn fetch_chunks(
    fetch: &Fetch,
    chunks: &Chunks,
    options: &DownloadOptions,
) -> Result<ChunkedReport> {
    let target = target(fetch, options)?;
    let options_of_chunks = ChunkedDownloadOptions {
        window: chunks.window,
        seeds: chunks.seeds.clone(),
        index_target: chunks.keeps_index,
        whole_fallback: !chunks.always,
        durability: options.durability,
        resume: options.resume,
        state: options.state.clone(),
        retry: options.retry.clone(),
        budget: options.budget.clone(),
        progress: Arc::clone(&options.progress),
        cancel: options.cancel.clone(),
        ..ChunkedDownloadOptions::default()
    };
    let store: Arc<dyn ChunkStore> = Arc::new(chunks.cache.clone());
    let fetched = chunked::download(&store, &chunks.digest, target, &options_of_chunks);
    let outcome = Box::pin(fetched).await.map_err(|error| of_blob(fetch, &chunks.digest, error));
    hinted(fetch, options, outcome)
}

/// What failed is told with the blob's name, as it was given: of several blobs nobody could say which
/// it was.
fn of_blob(fetch: &Fetch, digest: &Digest, error: Error) -> Error {
    if error.target() == digest.to_string() {
        return error.with_target(fetch.source.display());
    }
    let is_of_target = error.kind() == ErrorKind::Storage || error.operation() == Operation::Write;
    if is_of_target || error.chain().contains(&digest.to_string()) {
        return error;
    }
    let (attempts, hint) = (error.attempts(), error.hint().map(str::to_owned));
    let whole = failure(fetch, error.kind(), "a part of it failed").after_attempts(attempts);
    let whole = whole.caused_by(error);
    match hint {
        Some(hint) => whole.with_hint(hint),
        None => whole,
    }
}

fn target(fetch: &Fetch, options: &DownloadOptions) -> Result<Target> {
    if options.cancel.is_cancelled() {
        // Not even a part file is made.
        return Err(failure(fetch, ErrorKind::Cancelled, "it was cancelled"));
    }
    fetch.place.target()
}

/// The outcome, with a hint of a resume only where there is one.
fn hinted<T>(fetch: &Fetch, options: &DownloadOptions, outcome: Result<T>) -> Result<T> {
    if fetch.place.resumes() && options.resume {
        return outcome;
    }
    outcome.map_err(|error| report::without_resume(error, report::STARTS_OVER))
}

impl Chunks {
    /// A cache that gives no chunks gives its blobs in shards, many at once. One that does not
    /// answer is asked again, and told of, by the download.
    async fn are_to_be_had(&self, source: &str, options: &DownloadOptions) -> Result<bool> {
        let store: Arc<dyn ChunkStore> = Arc::new(self.cache.clone());
        let once = RetryPolicy { attempts_max: 1, ..options.retry.clone() };
        match chunked::profile(&store, source, &once, &options.cancel).await {
            Ok(profile) if !profile.can_split && self.always => {
                let message = "the cache gives no chunks";
                Err(Error::new(ErrorKind::Unsupported, Operation::Download, source, message)
                    .with_hint("leave out --chunking always"))
            }
            Ok(profile) => Ok(profile.can_split),
            Err(_) => Ok(true),
        }
    }
}

/// Of several blobs each is told as it ends; in JSON all are told at the end.
fn tell(session: &Session, outcome: &Outcome) {
    match outcome {
        Ok(done) => session.say(&done.text()),
        Err(_) if session.output.json => {}
        // Told once for all.
        Err(error) if error.kind() == ErrorKind::Cancelled => {}
        Err(error) => session.console.line(&Failure::new(error).text()),
    }
}

/// A task that panicked; its message is on standard error already.
fn lost(fetch: &Fetch) -> Error {
    failure(fetch, ErrorKind::Storage, "the transfer's task ended early")
}

fn failure(fetch: &Fetch, kind: ErrorKind, message: &str) -> Error {
    Error::new(kind, Operation::Download, fetch.source.display(), message)
}

fn succeed(session: &Session, done: &Done) -> Exit {
    if session.output.json {
        return session.json(done);
    }
    session.say(&done.text());
    Exit::Success
}

/// The JSON of several blobs.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    bytes: u64,
    seconds: f64,
    requests: u64,
    restarts: u64,
    resumed_bytes: u64,
    failed: usize,
    blobs: Vec<Entry<'a>>,
    /// That of the first blob that failed, which decides the exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Done(Done),
    Failed { source: &'a str, target: String, error: Failure },
}

fn summarise(session: &Session, fetches: &[Fetch], outcomes: &[Outcome], seconds: f64) -> Exit {
    let reports = || outcomes.iter().filter_map(|outcome| outcome.as_ref().ok());
    let first = outcomes.iter().find_map(|outcome| outcome.as_ref().err());
    let summary = Summary {
        bytes: reports().map(|done| done.bytes).sum(),
        seconds,
        requests: reports().map(|done| done.requests).sum(),
        restarts: reports().map(|done| done.restarts).sum(),
        resumed_bytes: reports().map(|done| done.resumed_bytes).sum(),
        failed: outcomes.len() - reports().count(),
        blobs: fetches.iter().zip(outcomes).map(|(fetch, outcome)| entry(fetch, outcome)).collect(),
        error: first.map(Failure::new),
    };
    let mut told = Exit::Success;
    if session.output.json {
        told = session.json(&summary);
    } else {
        session.say(&summary.text());
        let mut failures = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        if let Some(cancelled) = failures.find(|error| error.kind() == ErrorKind::Cancelled) {
            session.console.line(&Failure::new(cancelled).text());
        }
    }
    first.map_or(told, Exit::from)
}

fn entry<'a>(fetch: &'a Fetch, outcome: &Outcome) -> Entry<'a> {
    match outcome {
        Ok(done) => Entry::Done(done.clone()),
        Err(error) => Entry::Failed {
            source: fetch.source.display(),
            target: fetch.place.name(),
            error: Failure::new(error),
        },
    }
}

impl Summary<'_> {
    fn text(&self) -> String {
        let fetched = self.bytes.saturating_sub(self.resumed_bytes);
        format!(
            "{} of {}: {} in {}, {}, {}, {}",
            self.blobs.len() - self.failed,
            count(self.blobs.len() as u64, "blob"),
            size::human(self.bytes),
            report::seconds(self.seconds),
            size::human_rate(report::rate(fetched, self.seconds)),
            count(self.requests, "request"),
            count(self.restarts, "restart"),
        )
    }
}
