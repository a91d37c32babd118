//! `tidegate demo serve`: a cache server in this process gets a file as chunks, the same file again, and
//! an edited copy, which is then fetched beside the first one. A table shows what moved and what the
//! server stored. No files remain.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use serde::Serialize;
use tidegate::{
    ChunkPolicy, Client, Durability, Error, ErrorKind, Operation, Report, Result, Target,
};
use tidegate_server::serve::{ServeOptions, Server};
use tidegate_server::store::{LocalStore, StoreOptions};
use tokio_util::sync::CancellationToken;

use super::edit::edited_copy;
use super::stage::Stage;
use crate::args::DemoServeArgs;
use crate::exit::Exit;
use crate::report;
use crate::session::Session;
use crate::size;

/// The limit of the store: both files, and what a store needs to work in.
const STORE_BYTES_MIN: u64 = 1 << 30;

/// The JSON.
#[derive(Debug, Serialize)]
struct Shown {
    bytes: u64,
    steps: Vec<Step>,
}

/// What one step cost.
#[derive(Debug, Serialize)]
struct Step {
    name: &'static str,
    bytes: u64,
    seconds: f64,
    /// Bytes between the client and the server.
    moved_bytes: u64,
    chunks: u64,
    moved_chunks: u64,
    /// Bytes that the server added to its store.
    stored_bytes: u64,
    verified: Vec<String>,
}

pub(super) async fn run(session: &Session, args: &DemoServeArgs) -> Exit {
    match demonstrate(session, args).await {
        Err(error) => session.fail(&error),
        Ok(shown) if session.output.json => session.json(&shown),
        Ok(shown) => session.print(&shown.text()),
    }
}

async fn demonstrate(session: &Session, args: &DemoServeArgs) -> Result<Shown> {
    // Dropping it removes the folder, also on an error.
    let stage = Stage::set(session, Some(args.size), args.seed).await?;
    let store = StoreOptions::new(STORE_BYTES_MIN.max(args.size.saturating_mul(4)));
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::bind(ServeOptions::new(stage.beside("cache"), store, listen)).await?;
    let url = format!("grpc://{}", server.address());
    let store = server.store().clone();
    let stop = CancellationToken::new();
    let serving = tokio::spawn(server.run(stop.clone()));
    let steps = Steps { session, stage: &stage, store, url, client: Client::default() };
    let shown = steps.all().await;
    drop(steps);
    stop.cancel();
    // It fails only if the runtime ends.
    serving.await.unwrap_or_else(|_| Err(super::stage::cancelled()))?;
    shown
}

struct Steps<'a> {
    session: &'a Session,
    stage: &'a Stage,
    store: LocalStore,
    url: String,
    client: Client,
}

impl Steps<'_> {
    async fn all(&self) -> Result<Shown> {
        let (first, edited) = (self.stage.file(), self.stage.beside("edited"));
        let (from, to) = (first.clone(), edited.clone());
        let copied = tokio::task::spawn_blocking(move || edited_copy(&from, &to)).await;
        let copied = copied.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        copied.map_err(|error| {
            let target = edited.display().to_string();
            Error::new(ErrorKind::Storage, Operation::Write, target, "it cannot be written")
                .caused_by(error)
        })?;
        let mut steps = Vec::new();
        let mut digest = None;
        let puts = [("a file", &first), ("the same again", &first), ("an edited copy", &edited)];
        for (name, file) in puts {
            self.session.say(&format!("putting {name} ..."));
            let target = self.client.locate_target(&self.url)?;
            let upload = self.client.upload(file, &target).chunks(ChunkPolicy::Required);
            let (step, report) =
                self.step(name, upload.cancel(self.session.cancel.clone())).await?;
            digest = report.digest;
            steps.push(step);
        }
        let Some(digest) = digest else { return Err(super::stage::cancelled()) };
        self.session.say("fetching the edited copy beside the file ...");
        let (function, hash) = (digest.function.name(), digest.checksum().hex());
        let url = format!("{}/{function}/{hash}/{}", self.url, digest.len);
        let source = self.client.locate(&url)?;
        let download = self
            .client
            .download(&source, Target::file(self.stage.target()))
            .chunks(ChunkPolicy::Required)
            .seed(first)
            .seed_indexes(false)
            .durability(Durability::None)
            .resume(false)
            .cancel(self.session.cancel.clone());
        let (step, report) = self.step("fetched beside it", download).await?;
        if !report.is_verified() {
            let message = "the copy arrived, but was not verified";
            let shown = source.display();
            return Err(Error::new(ErrorKind::Integrity, Operation::Verify, shown, message));
        }
        steps.push(step);
        Ok(Shown { bytes: self.stage.bytes, steps })
    }

    /// Measures one transfer.
    async fn step(
        &self,
        name: &'static str,
        transfer: impl IntoFuture<Output = Result<Report>>,
    ) -> Result<(Step, Report)> {
        let before = self.store.counts().value_bytes_written;
        let start = Instant::now();
        let report = transfer.into_future().await;
        let report = report.map_err(|error| report::without_resume(error, report::STARTS_OVER))?;
        let chunks = report.chunks.unwrap_or_default();
        let step = Step {
            name,
            bytes: report.bytes,
            seconds: start.elapsed().as_secs_f64(),
            moved_bytes: chunks.moved.bytes,
            chunks: chunks.distinct.chunks,
            moved_chunks: chunks.moved.chunks,
            stored_bytes: self.store.counts().value_bytes_written - before,
            verified: report::verified_by(&report.verified),
        };
        Ok((step, report))
    }
}

impl Shown {
    fn text(&self) -> String {
        let mut text = format!(
            "\n{} through a cache server in this process, in chunks that the content cuts\n\n",
            size::human(self.bytes)
        );
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{:<19}{:>8}{:>12}{:>12}  chunks", "", "time", "moved", "stored");
        for step in &self.steps {
            let _ = writeln!(
                text,
                "{:<19}{:>8}{:>12}{:>12}  {} of {}",
                step.name,
                report::seconds(step.seconds),
                size::human(step.moved_bytes),
                size::human(step.stored_bytes),
                step.moved_chunks,
                step.chunks,
            );
        }
        text.push_str(
            "\nevery chunk was compared with its digest, and the fetched copy as a whole\n",
        );
        text
    }
}
