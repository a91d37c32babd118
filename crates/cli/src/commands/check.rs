//! `tidegate check`: compares blobs with others, or with a list of checksums, without a transfer.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use tidegate::{Budget, Client, Comparison, Difference, ErrorKind, Location, Result};
use tidegate_core::Checksum;
use tidegate_core::printable::escaped;

use super::cp::invalid;
use crate::args::{CheckArgs, Reference};
use crate::checksums::ChecksumList;
use crate::exit::Exit;
use crate::local::is_input;
use crate::progress::{Display, Followed};
use crate::report::{self, Failure, verified_by};
use crate::session::Session;
use crate::store_url::Stores;

pub(crate) async fn run(session: Session, args: &CheckArgs) -> Exit {
    let (client, checks) = match plan(args).await {
        Ok(planned) => planned,
        Err(error) => return session.fail(&report::without_resume(error, report::ASK_AGAIN)),
    };
    let blobs: Vec<Followed> = checks.iter().map(|check| check.followed(&session)).collect();
    let display = (!session.is_silent()).then(|| Display::start(&session.console, blobs.clone()));
    let mut outcomes = Vec::with_capacity(checks.len());
    for (check, blob) in checks.iter().zip(&blobs) {
        blob.begin();
        let outcome = check.run(&client, blob, &session).await;
        blob.end(outcome.as_ref().err());
        let is_over = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Cancelled);
        outcomes.push(outcome.map_err(|e| report::without_resume(e, report::ASK_AGAIN)));
        if is_over {
            break;
        }
    }
    if let Some(display) = display {
        display.end().await;
    }
    reported(&session, &checks, &outcomes)
}

/// One blob, and what it is compared with.
struct Check {
    source: Location,
    with: With,
}

enum With {
    Blob(Location),
    Checksums(Vec<Checksum>, String),
}

async fn plan(args: &CheckArgs) -> Result<(Client, Vec<Check>)> {
    let Some((sources, reference)) = args.compared() else {
        return Err(invalid("the target", "it is missing").with_hint(
            "name what to compare with: a URL, a file, a folder or a list of checksums",
        ));
    };
    if args.names().into_iter().any(is_input) {
        return Err(invalid("standard input", "only files and blobs of remotes can be compared"));
    }
    if sources.len() > 1 && args.version.is_given() {
        return Err(invalid("a version", "it is of one blob, but there are several sources"));
    }
    let client = args.remote.client(&args.names(), Budget::default())?;
    let mut stores = Stores::default();
    let mut blobs = Vec::with_capacity(sources.len());
    for text in &sources {
        blobs.push(args.version.of(stores.source(&client, text)?)?);
    }
    let checks = match reference {
        Reference::List(list) => {
            let list = ChecksumList::load(&client, list).await?;
            let with = |blob: Location| {
                let expected = list.of(blob.file_name(), blob.display())?;
                Ok(Check { source: blob, with: With::Checksums(expected, list.name().to_owned()) })
            };
            blobs.into_iter().map(with).collect::<Result<Vec<Check>>>()?
        }
        Reference::Target(target) => {
            let is_folder = target.ends_with('/') || Path::new(target).is_dir();
            if blobs.len() > 1 && !is_folder {
                return Err(invalid(target, "several sources are compared with files in a folder")
                    .with_hint("name a folder as the target"));
            }
            let mut with = |blob: Location| {
                let name = if is_folder { in_folder(target, &blob)? } else { target.to_owned() };
                Ok(Check { source: blob, with: With::Blob(stores.source(&client, &name)?) })
            };
            blobs.into_iter().map(&mut with).collect::<Result<Vec<Check>>>()?
        }
    };
    Ok((client, checks))
}

/// The name of the source's counterpart in a folder, or below a URL that ends in a slash.
fn in_folder(folder: &str, source: &Location) -> Result<String> {
    let Some(name) = source.file_name() else {
        return Err(invalid(source.display(), "it has no name to look for in the folder"));
    };
    Ok(format!("{}/{name}", folder.trim_end_matches('/')))
}

impl Check {
    fn name(&self) -> String {
        let shown = self.source.display();
        self.source.file_name().unwrap_or(shown).to_owned()
    }

    fn followed(&self, session: &Session) -> Followed {
        let (source, target) = (self.source.display(), self.target());
        Followed::new(self.name()).between(&session.console, source, target)
    }

    fn target(&self) -> &str {
        match &self.with {
            With::Blob(target) => target.display(),
            With::Checksums(_, list) => list,
        }
    }

    async fn run(&self, client: &Client, blob: &Followed, session: &Session) -> Result<Comparison> {
        let builder = match &self.with {
            With::Blob(target) => client.compare(&self.source, target),
            With::Checksums(expected, _) => client.compare_with(&self.source, expected.clone()),
        };
        builder.progress(blob.progress()).cancel(session.cancel.clone()).await
    }
}

/// The JSON of one comparison.
#[derive(Debug, Serialize)]
struct Checked<'a> {
    source: &'a str,
    target: &'a str,
    /// `same`, `different`, `unknown` or `failed`.
    result: &'static str,
    /// What proved that they are the same.
    verified: Vec<String>,
    /// Why they differ, or why that is not known.
    reason: Option<String>,
    error: Option<Failure>,
}

/// The JSON of the command.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    blobs: Vec<Checked<'a>>,
    same: usize,
    different: usize,
    unknown: usize,
    failed: usize,
}

impl<'a> Checked<'a> {
    fn new(check: &'a Check, outcome: &Result<Comparison>) -> Self {
        let (source, target) = (check.source.display(), check.target());
        let mut checked =
            Self { source, target, result: "failed", verified: vec![], reason: None, error: None };
        match outcome {
            Err(error) => checked.error = Some(Failure::new(error)),
            Ok(Comparison::Same(verified)) => {
                checked.result = "same";
                checked.verified = verified_by(verified);
            }
            Ok(Comparison::Different(difference)) => {
                checked.result = "different";
                checked.reason = Some(described(difference));
            }
            Ok(Comparison::Unknown(reason)) => {
                checked.result = "unknown";
                checked.reason = Some(reason.to_string());
            }
            Ok(_) => {}
        }
        checked
    }

    /// `disk.img  same: sha256`.
    fn text(&self, name: &str) -> String {
        let mut text = format!("{}  {}", escaped(name), self.result);
        if let Some(error) = &self.error {
            return error.text();
        }
        let by = Some(self.verified.join(", ")).filter(|by| !by.is_empty());
        if let Some(detail) = by.as_ref().or(self.reason.as_ref()) {
            // Writing to a String cannot fail.
            let _ = write!(text, ": {}", escaped(detail));
        }
        text
    }

    fn exit(&self, outcome: &Result<Comparison>) -> Exit {
        match (outcome, self.result) {
            (Err(error), _) => Exit::from(error),
            (_, "same") => Exit::Success,
            (_, "different") => Exit::Integrity,
            _ => Exit::Failure,
        }
    }
}

fn described(difference: &Difference) -> String {
    match difference {
        Difference::Length { one, other } => format!("{one} and {other} bytes"),
        Difference::Checksum { one, other } => format!("{one} and {other}"),
        _ => "they differ".to_owned(),
    }
}

/// Prints every comparison. The exit code is that of the first one that is not `same`; one that
/// differs comes first.
fn reported(session: &Session, checks: &[Check], outcomes: &[Result<Comparison>]) -> Exit {
    let blobs: Vec<Checked<'_>> =
        checks.iter().zip(outcomes).map(|(check, outcome)| Checked::new(check, outcome)).collect();
    let count = |result| blobs.iter().filter(|blob| blob.result == result).count();
    let exits = || blobs.iter().zip(outcomes).map(|(blob, outcome)| blob.exit(outcome));
    let exit = exits()
        .find(|exit| *exit == Exit::Integrity)
        .or_else(|| exits().find(|exit| *exit != Exit::Success))
        .unwrap_or(Exit::Success);
    let printed = if session.output.json {
        let [same, different] = [count("same"), count("different")];
        let [unknown, failed] = [count("unknown"), count("failed")];
        session.json(&Summary { blobs, same, different, unknown, failed })
    } else {
        let mut text = String::new();
        for (check, blob) in checks.iter().zip(&blobs) {
            let line = blob.text(&check.name());
            if blob.error.is_some() {
                session.console.line(&line);
            } else if blob.result != "same" || !session.output.quiet {
                text = text + &line + "\n";
            }
        }
        session.print(&text)
    };
    if exit == Exit::Success { printed } else { exit }
}
