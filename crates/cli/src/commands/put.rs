//! `tidegate cp SOURCE... grpc://HOST/INSTANCE`: files, standard input or blobs of other remotes into
//! a cache, under their digests. Also into a
//! store on this machine: `store:DIR`.
//!
//! It writes each blob's URL to standard output, in the order of the files, for use in later
//! commands.

use std::fmt::Write as _;
use std::time::Instant;

use serde::Serialize;
use tidegate::{Client, Error, Form, Location, Report, Result};
use tidegate_core::printable::escaped;

use super::cp::invalid;
use crate::args::CpArgs;
use crate::exit::Exit;
use crate::local::check_inputs;
use crate::progress::{Display, Followed};
use crate::put_url::PutUrl;
use crate::report::{self, Failure, count};
use crate::session::Session;
use crate::size;
use crate::source::Source;
use crate::store_url::Stores;

pub(crate) async fn run(session: Session, args: &CpArgs, cache: &str) -> Exit {
    let mut stores = Stores::default();
    let (client, target, url, files) = match plan(args, cache, &mut stores) {
        Ok(planned) => planned,
        Err(error) => return session.fail(&error),
    };
    let followed = |source: &Source| {
        let (name, url) = (source.name(), url.to_string());
        Followed::new(source.short_name()).between(&session.console, &name, &url)
    };
    let blobs: Vec<_> = files.iter().map(followed).collect();
    let display = (!session.is_silent()).then(|| Display::start(&session.console, blobs.clone()));
    let begun = Instant::now();
    let mut outcomes = Vec::new();
    // One file after another: each uses all cores and, if there is enough to send, all of the link.
    for (file, blob) in files.iter().zip(blobs) {
        let start = Instant::now();
        blob.begin();
        let upload =
            args.transfer.upload_to(target.display(), client.upload(file.to_upload(), &target));
        let upload = upload.map(|upload| {
            let upload = upload
                .chunks(args.cache.chunking.policy())
                .confirm(args.cache.confirm)
                .progress(blob.progress())
                .cancel(session.cancel.clone());
            match args.cache.function() {
                Some(function) => upload.digest_function(function),
                None => upload,
            }
        });
        let put = match upload {
            Ok(upload) => upload.await,
            Err(error) => Err(error),
        };
        let put = put.map_err(|error| report::without_resume(error, SENT_STAYS));
        blob.end(put.as_ref().err());
        outcomes.push(put.map(|report| Put::new(file.name(), &url, &report, start)));
    }
    if let Some(display) = display {
        display.end().await;
    }
    let seconds = begun.elapsed().as_secs_f64();
    drop(target);
    stores.close().await;
    tell(&session, (&files, &url), &outcomes, seconds)
}

/// The hint of an interrupted upload.
const SENT_STAYS: &str = "run the same command again; chunks that arrived are not sent again";

fn plan(
    args: &CpArgs,
    cache: &str,
    stores: &mut Stores,
) -> Result<(Client, Location, PutUrl, Vec<Source>)> {
    let names = args.sources().unwrap_or_default();
    let all: Vec<&str> = names.iter().copied().chain([cache]).collect();
    let client = args.remote.client(&all, args.transfer.budget())?;
    let url = PutUrl::parse(cache)?;
    if url.digest().is_some() && names.len() > 1 {
        return Err(invalid(&url.to_string(), "it names one blob, but there are several files")
            .with_hint("leave out the digest"));
    }
    let seed = (!args.cache.seed.is_empty()).then_some("--seed");
    let index = args.cache.keep_index.then_some("--keep-index");
    let list = args.checksums.is_some().then_some("--checksums");
    let mirror = (!args.mirror.is_empty()).then_some("--mirror");
    let described = args.upload.given();
    if let Some(option) = described {
        return Err(invalid(option, "it is for what is stored in a bucket or at a web server"));
    }
    if let Some(option) = args.version.name().or(seed).or(index).or(list).or(mirror) {
        return Err(invalid(option, "it is for what is fetched, and this puts files"));
    }
    check_inputs(&names)?;
    let files =
        names.iter().map(|name| Source::parse(&client, name)).collect::<Result<Vec<_>>>()?;
    let target = url.locate(&client, stores)?;
    Ok((client, target, url, files))
}

/// A finished upload of one file.
#[derive(Clone, Debug, Serialize)]
struct Put {
    source: String,
    /// The blob's URL.
    target: String,
    digest: String,
    bytes: u64,
    seconds: f64,
    requests: u64,
    retries: u64,
    /// `present`, `whole` or `chunked`.
    outcome: &'static str,
    /// Distinct chunks; a blob that was sent whole counts as one.
    chunks: u64,
    sent_chunks: u64,
    sent_bytes: u64,
    held_bytes_peak: u64,
    notes: Vec<String>,
}

impl Put {
    fn new(source: String, url: &PutUrl, report: &Report, start: Instant) -> Self {
        let chunks = report.chunks.unwrap_or_default();
        let digest = report.digest.map(|digest| digest.to_string()).unwrap_or_default();
        Self {
            source,
            target: url.with_digest(report.digest).to_string(),
            digest,
            bytes: report.bytes,
            seconds: start.elapsed().as_secs_f64(),
            requests: report.totals.requests,
            retries: report.totals.restarts,
            outcome: match report.form {
                // The chunks that were sent completed the blob, before the cache was asked for it.
                Form::Present if chunks.moved.chunks > 0 => "chunked",
                Form::Present => "present",
                Form::Whole => "whole",
                _ => "chunked",
            },
            chunks: chunks.distinct.chunks,
            sent_chunks: chunks.moved.chunks,
            sent_bytes: chunks.moved.bytes,
            held_bytes_peak: report.held_bytes_peak,
            notes: report.notes.clone(),
        }
    }

    /// `disk.img  10.0 MiB in 0.31 s (32.3 MiB/s)  sent 3 of 40 chunks, 1.20 MiB`, and one line more
    /// for each note; if `verbose`, one with the details.
    fn text(&self, verbose: bool) -> String {
        let sent = match self.outcome {
            "present" => "already in the cache".to_owned(),
            "whole" => "sent whole".to_owned(),
            _ => format!(
                "sent {} of {}, {}",
                self.sent_chunks,
                count(self.chunks, "chunk"),
                size::human(self.sent_bytes),
            ),
        };
        let pace = report::pace(self.bytes, self.bytes, self.seconds);
        let mut text = format!("{}  {pace}  {sent}", escaped(&self.source));
        if verbose {
            let (source, target) = (escaped(&self.source), escaped(&self.target));
            let (requests, retries) =
                (count(self.requests, "request"), count(self.retries, "restart"));
            // Writing to a String cannot fail.
            let _ = write!(text, "\n  {source} -> {target}: {requests}, {retries}");
        }
        self.notes.iter().fold(text, |text, note| format!("{text}\nnote: {}", escaped(note)))
    }
}

/// The JSON of several files.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    bytes: u64,
    seconds: f64,
    requests: u64,
    retries: u64,
    sent_bytes: u64,
    failed: usize,
    blobs: Vec<Entry<'a>>,
    /// The error of the first file that failed, which decides the exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Put(&'a Put),
    Failed { source: String, target: String, error: Failure },
}

impl<'a> Summary<'a> {
    fn new((files, url): (&[Source], &PutUrl), outcomes: &'a [Result<Put>], seconds: f64) -> Self {
        let puts = || outcomes.iter().filter_map(|outcome| outcome.as_ref().ok());
        let entry = |(file, outcome): (&Source, &'a Result<Put>)| match outcome {
            Ok(put) => Entry::Put(put),
            Err(error) => Entry::Failed {
                source: file.name(),
                target: url.to_string(),
                error: Failure::new(error),
            },
        };
        Self {
            bytes: puts().map(|put| put.bytes).sum(),
            seconds,
            requests: puts().map(|put| put.requests).sum(),
            retries: puts().map(|put| put.retries).sum(),
            sent_bytes: puts().map(|put| put.sent_bytes).sum(),
            failed: outcomes.len() - puts().count(),
            blobs: files.iter().zip(outcomes).map(entry).collect(),
            error: first_failure(outcomes).map(Failure::new),
        }
    }
}

fn first_failure(outcomes: &[Result<Put>]) -> Option<&Error> {
    outcomes.iter().find_map(|outcome| outcome.as_ref().err())
}

/// Reports the outcomes of `to`'s files, in their order.
fn tell(
    session: &Session,
    to: (&[Source], &PutUrl),
    outcomes: &[Result<Put>],
    seconds: f64,
) -> Exit {
    let end = first_failure(outcomes).map_or(Exit::Success, Exit::from);
    if session.output.json {
        match outcomes {
            [Ok(put)] => return session.json(put),
            [Err(error)] => return session.fail(error),
            _ => {}
        }
        let printed = session.json(&Summary::new(to, outcomes, seconds));
        return if end == Exit::Success { printed } else { end };
    }
    for outcome in outcomes {
        match outcome {
            Ok(put) => {
                session.say(&put.text(session.output.verbose));
                match session.print(&format!("{}\n", put.target)) {
                    Exit::Success => {}
                    // A reader of the URLs must not take some of them for all.
                    failed => return failed,
                }
            }
            Err(error) => session.console.line(&Failure::new(error).text()),
        }
    }
    end
}
