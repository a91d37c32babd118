//! `tidegate demo`: shows on any machine, offline, what is special. A blob behind a server that
//! simulates a cloud is fetched with one stream and then in shards. Then a copy is killed and
//! resumed, and a bit is flipped on the way.
//!
//! The first two runs meet the same faults, to the same kind of file, and both are verified against
//! the server's checksum. No files remain, also after Ctrl-C.

mod edit;
mod interruption;
mod serve;
mod stage;
mod table;

use tidegate::remote::RemoteOptions;
use tidegate::{
    Client, ClientOptions, Durability, Error, ErrorKind, Location, Operation, Report, Result,
    StateFolder, Target,
};
use tidegate_testkit::{Fault, Flavour, NetworkProfile, RangeMatch, Rule};
use tidegate_testkit::{Server, ServerOptions, SplitMix64};

use crate::args::{DemoArgs, DemoCommand};
use crate::exit::Exit;
use crate::progress::{Display, Followed};
use crate::report::{self, Done};
use crate::session::Session;
use interruption::{flip_a_bit, kill_and_resume};
use stage::Stage;
use table::Table;

/// The blob's path on the server.
const PATH: &str = "/demo/blob";
/// The same as a URL.
const URL: &str = "gs://demo/blob";
/// Connections cut in each run: enough to be visible, too few to hide the rates.
const CUTS: u64 = 4;
/// The cut of a shard comes within this many bytes: fewer than the smallest planned shard has.
const CUT_BYTES_MAX: u64 = 4 << 20;

/// One way to fetch the blob.
#[derive(Clone, Copy, Debug)]
struct Way {
    name: &'static str,
    window: u32,
}

const WAYS: [Way; 2] =
    [Way { name: "one stream", window: 1 }, Way { name: "32 shards at once", window: 32 }];

pub(crate) async fn run(session: Session, args: &DemoArgs) -> Exit {
    if let Some(DemoCommand::Serve(args)) = &args.command {
        return serve::run(&session, args).await;
    }
    match demonstrate(&session, args).await {
        Err(error) => session.fail(&error),
        Ok(table) if session.output.json => session.json(&table),
        Ok(table) => session.print(&table.text()),
    }
}

async fn demonstrate(session: &Session, args: &DemoArgs) -> Result<Table> {
    // Dropping it removes the folder, also on an error.
    let stage = Stage::set(session, args.size, args.seed).await?;
    let server = start(&stage, session).await?;
    let remote = RemoteOptions {
        endpoint: Some(server.endpoint()),
        anonymous: true,
        ..RemoteOptions::default()
    };
    let kept = StateFolder::at(stage.state().join("tidegate"));
    let client = Client::new(ClientOptions::default().remote(remote).state(kept));
    let source = client.locate(URL)?;
    let mut runs = Vec::new();
    for way in WAYS {
        break_connections(&server, way, args.seed, stage.bytes);
        let report = fetch(session, &client, way, &source, &stage).await?;
        if !report.is_verified() {
            let message = "the blob arrived, but was not verified";
            let shown = source.display();
            return Err(Error::new(ErrorKind::Integrity, Operation::Verify, shown, message));
        }
        runs.push((way.name, Done::new(source.display(), "a file", &report)));
    }
    let resumed = kill_and_resume(session, &client, &server, &source, &stage).await?;
    let caught = flip_a_bit(session, &client, &server, &source, &stage).await?;
    server.shutdown().await;
    Ok(Table::new(stage.bytes, runs, resumed, caught))
}

/// Starts the server. The blob's checksum is computed first, so that the first request does not
/// wait.
async fn start(stage: &Stage, session: &Session) -> Result<Server> {
    let options =
        ServerOptions { profile: NetworkProfile::CLOUD, ..ServerOptions::of(Flavour::Gcs) };
    let failed = |error| {
        let message = "it cannot be started";
        Error::new(ErrorKind::Storage, Operation::Connect, "the demo's server", message)
            .caused_by(error)
    };
    let server = Server::start(options).await.map_err(failed)?;
    server.put(PATH, stage.blob()?);
    tokio::select! {
        biased;
        () = session.cancel.cancelled() => Err(stage::cancelled()),
        prepared = server.prepare(PATH) => prepared.map(|()| server).map_err(failed),
    }
}

/// Cuts some connections, one in each part of the blob. A rule is for the request that asks for a
/// certain byte. One stream is cut at that byte, a shard soon after its start.
fn break_connections(server: &Server, way: Way, seed: u64, len_bytes: u64) {
    let mut random = SplitMix64::new(seed);
    server.script().clear();
    let part = len_bytes / CUTS;
    let mut begin = 0;
    for cut in 0..CUTS {
        let byte = cut * part + random.below(part.max(1));
        let after = match way.window {
            1 => byte - begin,
            _ => random.below(CUT_BYTES_MAX.min(len_bytes)),
        };
        server.script().push(Rule::new(Fault::CutAfter(after)).range(RangeMatch::Covers(byte)));
        begin = byte;
    }
}

async fn fetch(
    session: &Session,
    client: &Client,
    way: Way,
    source: &Location,
    stage: &Stage,
) -> Result<Report> {
    let blob = Followed::new(way.name.to_owned());
    let target = stage.target().display().to_string();
    let blob = blob.between(&session.console, source.display(), &target);
    session.say(&format!("fetching with {} ...", way.name));
    let download = client
        .download(source, Target::file(stage.target()))
        .window(way.window)
        .durability(Durability::None)
        .resume(false)
        .progress(blob.progress())
        .cancel(session.cancel.clone());
    let display =
        (!session.is_silent()).then(|| Display::start(&session.console, vec![blob.clone()]));
    blob.begin();
    let outcome = download.await;
    let report = outcome.map_err(|error| report::without_resume(error, report::STARTS_OVER));
    blob.end(report.as_ref().err());
    if let Some(display) = display {
        display.end().await;
    }
    // Frees the disk space for the next run.
    stage.clear();
    report
}
