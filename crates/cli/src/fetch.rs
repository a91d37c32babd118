//! Transfers of one command: some blobs side by side, one display, one report.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use tidegate::download::{DownloadOptions, Progress, Report, Target, download};
use tidegate::remote::Location;
use tidegate::{Error, ErrorKind, Operation, Result};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::exit::Exit;
use crate::progress::Display;
use crate::report::{self, Done, Failure, count};
use crate::session::Session;
use crate::size;

/// Blobs under way at once. Small blobs are one request each, so that a few side by side hide
/// the latency; large ones share the budget anyway.
const BLOBS_MAX: usize = 8;

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
}

/// What became of one blob.
type Outcome = Result<Report>;

impl Place {
    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdout => "-".to_owned(),
        }
    }

    /// Whether an interrupted transfer leaves something to go on with.
    fn resumes(&self) -> bool {
        matches!(self, Self::File(path) if !path.starts_with("/dev"))
    }

    fn target(&self) -> Result<Target> {
        match self {
            Self::File(path) => Ok(Target::File(path.clone())),
            Self::Stdout => {
                let name = "standard output";
                Ok(Target::Writer { writer: Box::new(stdout(name)?), name: name.to_owned() })
            }
        }
    }
}

/// Standard output without the line buffer that the standard library puts before it.
fn stdout(name: &str) -> Result<File> {
    let fd = io::stdout().as_fd().try_clone_to_owned().map_err(|error| {
        Error::new(ErrorKind::Storage, Operation::Write, name, "it is not open").caused_by(error)
    })?;
    Ok(File::from(fd))
}

/// Fetches all of `fetches` and reports. One that fails does not stop the others; the exit code is
/// that of the first one that failed, in the order given.
pub(crate) async fn run(session: &Session, fetches: Vec<Fetch>, options: DownloadOptions) -> Exit {
    let start = std::time::Instant::now();
    let outcomes = fetch_all(session, &fetches, options).await;
    let seconds = start.elapsed().as_secs_f64();
    match (fetches.as_slice(), outcomes.as_slice()) {
        ([fetch], [Ok(report)]) => succeed(session, &done(fetch, report)),
        ([_], [Err(error)]) => session.fail(error),
        _ => summarise(session, &fetches, &outcomes, seconds),
    }
}

/// Fetches all, at most [`BLOBS_MAX`] at once, with a display; outcomes are in the order of
/// `fetches`.
async fn fetch_all(session: &Session, fetches: &[Fetch], options: DownloadOptions) -> Vec<Outcome> {
    let progress: Vec<Arc<Progress>> = fetches.iter().map(|_| Arc::default()).collect();
    let display =
        (!session.is_silent()).then(|| Display::start(&session.console, progress.clone()));
    let slots = Arc::new(Semaphore::new(BLOBS_MAX));
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
                tell(&session, &fetch, &outcome);
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

/// Fetches one blob, without a word.
pub(crate) async fn fetch_one(fetch: &Fetch, options: &DownloadOptions) -> Outcome {
    if options.cancel.is_cancelled() {
        // Not even a part file is made.
        return Err(failure(fetch, ErrorKind::Cancelled, "it was cancelled"));
    }
    let target = fetch.place.target()?;
    let outcome = Box::pin(download(&fetch.source, target, options)).await;
    if fetch.place.resumes() && options.resume {
        return outcome;
    }
    outcome.map_err(|error| report::without_resume(error, report::STARTS_OVER))
}

/// Of several blobs each is told as it ends; in JSON all are told at the end.
fn tell(session: &Session, fetch: &Fetch, outcome: &Outcome) {
    match outcome {
        Ok(report) => session.say(&done(fetch, report).text()),
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

fn done(fetch: &Fetch, report: &Report) -> Done {
    Done::new(fetch.source.display(), &fetch.place.name(), report)
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
        bytes: reports().map(|report| report.bytes).sum(),
        seconds,
        requests: reports().map(|report| report.totals.requests).sum(),
        restarts: reports().map(|report| report.totals.restarts).sum(),
        resumed_bytes: reports().map(|report| report.resumed_bytes).sum(),
        failed: outcomes.len() - reports().count(),
        blobs: fetches.iter().zip(outcomes).map(|(fetch, outcome)| entry(fetch, outcome)).collect(),
        error: first.map(Failure::new),
    };
    if session.output.json {
        session.json(&summary);
    } else {
        session.say(&summary.text());
        let mut failures = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        if let Some(cancelled) = failures.find(|error| error.kind() == ErrorKind::Cancelled) {
            session.console.line(&Failure::new(cancelled).text());
        }
    }
    first.map_or(Exit::Success, Exit::from)
}

fn entry<'a>(fetch: &'a Fetch, outcome: &Outcome) -> Entry<'a> {
    match outcome {
        Ok(report) => Entry::Done(done(fetch, report)),
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
