//! `tidegate uploads list|abort URL`: the unfinished uploads below a URL.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tidegate::remote::UnfinishedUpload;
use tidegate::{Budget, Client, Location, Result};
use tidegate_core::printable::escaped;

use crate::args::{RemoteArgs, UploadsAbortArgs, UploadsCommand, UploadsListArgs};
use crate::exit::Exit;
use crate::report::{self, count};
use crate::session::Session;

pub(crate) async fn run(session: Session, command: &UploadsCommand) -> Exit {
    let outcome = match command {
        UploadsCommand::List(args) => list(&session, args).await,
        UploadsCommand::Abort(args) => abort(&session, args).await,
    };
    let outcome = outcome.map_err(|error| report::without_resume(error, report::ASK_AGAIN));
    outcome.unwrap_or_else(|error| session.fail(&error))
}

/// The JSON of one upload.
#[derive(Debug, Serialize)]
struct Entry {
    target: String,
    /// Seconds since it began, if the remote says when.
    age_seconds: Option<u64>,
}

impl Entry {
    fn new(prefix: &Location, upload: &UnfinishedUpload) -> Self {
        let bucket = prefix.display().strip_suffix(prefix.blob.as_str());
        let bucket = bucket.unwrap_or_else(|| prefix.display());
        Self {
            target: format!("{bucket}{}", upload.upload.blob),
            age_seconds: age(upload).map(|age| age.as_secs()),
        }
    }

    /// `3d 2h  s3://bucket/key`.
    fn line(&self) -> String {
        let age = self.age_seconds.map_or("unknown".to_owned(), |seconds| {
            let minutes = Duration::from_secs(seconds - seconds % 60);
            match seconds {
                0..60 => format!("{seconds}s"),
                _ => humantime::format_duration(minutes).to_string(),
            }
        });
        format!("{age:<14}{}", escaped(&self.target))
    }
}

fn age(upload: &UnfinishedUpload) -> Option<Duration> {
    SystemTime::now().duration_since(upload.began?).ok()
}

async fn all(
    session: &Session,
    remote: &RemoteArgs,
    prefix: &str,
) -> Result<(Client, Location, Vec<UnfinishedUpload>)> {
    let client = remote.client(&[prefix], Budget::default())?;
    let prefix = client.locate_prefix(prefix)?;
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let cancel = session.cancel.clone();
        let page = client.unfinished_uploads(&prefix, from.as_ref(), cancel).await?;
        found.extend(page.uploads);
        match page.next {
            Some(next) => from = Some(next),
            None => return Ok((client, prefix, found)),
        }
    }
}

async fn list(session: &Session, args: &UploadsListArgs) -> Result<Exit> {
    let (_, prefix, found) = all(session, &args.remote, &args.prefix).await?;
    let entries: Vec<Entry> = found.iter().map(|upload| Entry::new(&prefix, upload)).collect();
    if session.output.json {
        return Ok(session.json(&entries));
    }
    let text = entries.iter().fold(String::new(), |mut text, entry| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", entry.line());
        text
    });
    session.say(&count(entries.len() as u64, "unfinished upload"));
    Ok(session.print(&text))
}

async fn abort(session: &Session, args: &UploadsAbortArgs) -> Result<Exit> {
    let (client, prefix, found) = all(session, &args.remote, &args.prefix).await?;
    // An upload of unknown age may be in use.
    let is_old = |upload: &&UnfinishedUpload| {
        let least = Duration::from_millis(args.older_than_ms);
        least.is_zero() || age(upload).is_some_and(|age| age >= least)
    };
    let (mut aborted, mut kept) = (Vec::new(), 0);
    for upload in &found {
        if !is_old(&upload) {
            kept += 1;
            continue;
        }
        client.abort_upload(&prefix, &upload.upload, session.cancel.clone()).await?;
        aborted.push(Entry::new(&prefix, upload));
    }
    if session.output.json {
        return Ok(session.json(&aborted));
    }
    let done = count(aborted.len() as u64, "unfinished upload");
    session.say(&format!("aborted {done}, left {kept} that may be in use"));
    Ok(Exit::Success)
}
