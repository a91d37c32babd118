//! The end of a command that moves several blobs: what is said of each, and of all.

use serde::Serialize;
use tidegate::{ErrorKind, Result};

use crate::exit::Exit;
use crate::report::{self, Done, Failure, count};
use crate::session::Session;

/// The result of one blob.
pub(crate) type Outcome = Result<Done>;

/// A blob's source and target in reports.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    source: String,
    target: String,
}

impl Named {
    pub(crate) fn new(source: &str, target: &str) -> Self {
        Self { source: source.to_owned(), target: target.to_owned() }
    }
}

/// Reports the outcomes, in the order of `names`. The exit code is that of the first blob that
/// failed.
pub(crate) fn finish(
    session: &Session,
    names: &[Named],
    outcomes: &[Outcome],
    seconds: f64,
) -> Exit {
    match outcomes {
        [Ok(done)] => succeed(session, done),
        [Err(error)] => session.fail(error),
        _ => summarise(session, names, outcomes, seconds),
    }
}

/// With several blobs, each is reported when it ends; in JSON all are reported at the end.
pub(crate) fn tell(session: &Session, outcome: &Outcome) {
    match outcome {
        Ok(done) => session.say(&done.text(session.output.verbose)),
        Err(_) if session.output.json => {}
        // Reported once for all blobs.
        Err(error) if error.kind() == ErrorKind::Cancelled => {}
        Err(error) => session.console.line(&Failure::new(error).text()),
    }
}

fn succeed(session: &Session, done: &Done) -> Exit {
    if session.output.json {
        return session.json(done);
    }
    session.say_result(&done.text(session.output.verbose));
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
    /// The error of the first blob that failed, which decides the exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Done(&'a Done),
    Failed { source: &'a str, target: &'a str, error: Failure },
}

fn summarise(session: &Session, names: &[Named], outcomes: &[Outcome], seconds: f64) -> Exit {
    let reports = || outcomes.iter().filter_map(|outcome| outcome.as_ref().ok());
    let first = outcomes.iter().find_map(|outcome| outcome.as_ref().err());
    let summary = Summary {
        bytes: reports().map(|done| done.bytes).sum(),
        seconds,
        requests: reports().map(|done| done.requests).sum(),
        restarts: reports().map(|done| done.restarts).sum(),
        resumed_bytes: reports().map(|done| done.resumed_bytes).sum(),
        failed: outcomes.len() - reports().count(),
        blobs: names.iter().zip(outcomes).map(|(named, outcome)| entry(named, outcome)).collect(),
        error: first.map(Failure::new),
    };
    let mut printed = Exit::Success;
    if session.output.json {
        printed = session.json(&summary);
    } else {
        session.say(&summary.text());
        let mut failures = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        if let Some(cancelled) = failures.find(|error| error.kind() == ErrorKind::Cancelled) {
            session.console.line(&Failure::new(cancelled).text());
        }
    }
    first.map_or(printed, Exit::from)
}

fn entry<'a>(named: &'a Named, outcome: &'a Outcome) -> Entry<'a> {
    match outcome {
        Ok(done) => Entry::Done(done),
        Err(error) => Entry::Failed {
            source: &named.source,
            target: &named.target,
            error: Failure::new(error),
        },
    }
}

impl Summary<'_> {
    /// `2 of 3 blobs  1.95 KiB in 0.12 s (16.3 KiB/s)`.
    fn text(&self) -> String {
        let fetched = self.bytes.saturating_sub(self.resumed_bytes);
        format!(
            "{} of {}  {}",
            self.blobs.len() - self.failed,
            count(self.blobs.len() as u64, "blob"),
            report::pace(self.bytes, fetched, self.seconds),
        )
    }
}
