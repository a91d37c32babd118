//! Runs a suite on a real server.
//!
//! `tidegate-conformance BASE_URL FOLDER [--endpoint URL]` runs the read suite. The server has the files of FOLDER as blobs under `BASE_URL`, and nothing under `BASE_URL/absent`.
//! Credentials come from the environment, as for the command `tidegate`.
//!
//! `tidegate-conformance reapi ADDRESS [--instance NAME] [--deviations FILE]` runs the suite of the
//! Remote Execution API.
//!
//! A FILE of deviations holds what the server does differently, as a JSON object from promises to
//! reasons.
//!
//! `tidegate-conformance write BASE_URL [--endpoint URL] [--deviations FILE] -- PROGRAM [ARGUMENT...]`
//! runs the suites of writers in the empty bucket BASE_URL. PROGRAM is another client of it: see
//! `other_client`.
//!
//! Prints a line a promise, and ends with 1 where one is broken, with 2 where the arguments are wrong.

mod other_client;

use std::io::Write as _;
use std::process::ExitCode;

use async_trait::async_trait;
use bytes::Bytes;
use tidegate::remote::RemoteOptions;
use tidegate::{Client, ClientOptions, Location};
use tidegate_conformance::reapi::{Deviations, check_protocol};
use tidegate_conformance::remote::{ReadPlace, Report, Stored, every_suite, read_suite};

use crate::other_client::OtherClient;

/// Longer files are left out: each range of each blob is read, and held.
const BLOB_BYTES_MAX: u64 = 16 << 20;

const USAGE: &str = "usage: tidegate-conformance BASE_URL FOLDER [--endpoint URL]\n       \
                     tidegate-conformance write BASE_URL [--endpoint URL] [--deviations FILE] -- \
                     PROGRAM [ARGUMENT...]\n       \
                     tidegate-conformance reapi ADDRESS [--instance NAME] [--deviations FILE]";

/// A server that has what a folder has.
struct Mirror {
    blobs: Vec<Stored>,
    absent: Location,
}

#[async_trait]
impl ReadPlace for Mirror {
    fn blobs(&self) -> Vec<Stored> {
        self.blobs.clone()
    }

    fn absent(&self) -> Location {
        self.absent.clone()
    }

    async fn replace(&self, _blob: &Stored, _bytes: Bytes) -> bool {
        false
    }
}

impl Mirror {
    fn new(base: &str, folder: &str, endpoint: Option<String>) -> Result<Self, String> {
        let remote = RemoteOptions { endpoint, ..RemoteOptions::default() };
        let client = Client::new(ClientOptions::default().remote(remote));
        let locate = |name: &str| {
            let located = client.locate(&format!("{base}/{name}"));
            located.map_err(|error| error.chain())
        };
        let mut blobs = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|error| format!("{folder}: {error}"))? {
            let path = entry.map_err(|error| error.to_string())?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let shown = |error| format!("{}: {error}", path.display());
            if std::fs::metadata(&path).map_err(shown)?.len() <= BLOB_BYTES_MAX {
                let bytes = std::fs::read(&path).map_err(shown)?.into();
                blobs.push(Stored { location: locate(&name)?, bytes });
            }
        }
        Ok(Self { blobs, absent: locate("absent")? })
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = arguments.split_first().map(|(first, rest)| (first.as_str(), rest));
    let report = match named {
        Some(("reapi", rest)) => Some(reapi(rest).await),
        Some(("write", rest)) => Some(write(rest).await),
        _ => None,
    };
    match report {
        Some(Ok(report)) => return show(&report),
        Some(Err(error)) => return fail(&error),
        None => {}
    }
    let (base, folder, endpoint) = match arguments.as_slice() {
        [base, folder] => (base, folder, None),
        [base, folder, flag, url] if flag == "--endpoint" => (base, folder, Some(url.clone())),
        _ => return fail(USAGE),
    };
    match Mirror::new(base, folder, endpoint) {
        Ok(mirror) => show(&read_suite(&mirror).await),
        Err(error) => fail(&error),
    }
}

fn read_deviations(file: &str) -> Result<Deviations, String> {
    let json = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    Deviations::from_json(&json).map_err(|error| format!("{file}: {error}"))
}

/// Runs the suites of writers.
async fn write(arguments: &[String]) -> Result<Report, String> {
    let usage = || USAGE.to_owned();
    let (ours, program) = arguments
        .split_at(arguments.iter().position(|argument| argument == "--").ok_or_else(usage)?);
    let [base, flags @ ..] = ours else { return Err(usage()) };
    let (mut endpoint, mut deviations) = (None, Deviations::default());
    for pair in flags.chunks(2) {
        match pair {
            [flag, url] if flag == "--endpoint" => endpoint = Some(url.clone()),
            [flag, file] if flag == "--deviations" => deviations = read_deviations(file)?,
            _ => return Err(usage()),
        }
    }
    let place = OtherClient::start(base, endpoint, &program[1..])?;
    Ok(deviations.apply(every_suite(&place).await))
}

/// Runs the suite of the Remote Execution API.
async fn reapi(arguments: &[String]) -> Result<Report, String> {
    let [address, rest @ ..] = arguments else { return Err(USAGE.to_owned()) };
    let (mut instance, mut deviations) = (String::new(), Deviations::default());
    for pair in rest.chunks(2) {
        match pair {
            [flag, name] if flag == "--instance" => instance.clone_from(name),
            [flag, file] if flag == "--deviations" => {
                deviations = read_deviations(file)?;
            }
            _ => return Err(USAGE.to_owned()),
        }
    }
    // A server keeps the blobs of earlier runs.
    let seed = fastrand::u64(..);
    let report = check_protocol(&format!("http://{address}"), &instance, seed).await?;
    Ok(deviations.apply(report))
}

fn fail(message: &str) -> ExitCode {
    // Nowhere to say that standard error is closed.
    let _ = writeln!(std::io::stderr(), "{message}");
    ExitCode::from(2)
}

fn show(report: &Report) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let mut written = Ok(());
    for promise in &report.kept {
        written = written.and_then(|()| writeln!(out, "kept: {promise}"));
    }
    for broken in &report.broken {
        written = written.and_then(|()| writeln!(out, "{broken}"));
    }
    ExitCode::from(u8::from(written.is_err() || !report.broken.is_empty()))
}
