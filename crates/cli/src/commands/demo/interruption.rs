//! A copy that is killed and resumed, and a byte that the network flips.

use std::process::Stdio;
use std::time::Duration;

use serde::Serialize;
use tidegate::{Client, Durability, Error, ErrorKind, Location, Operation, Report, Result, Target};
use tidegate_testkit::{Fault, Rule, Server};
use tokio::process::{Child, Command};

use super::stage::{self, Stage};
use super::{PATH, URL};
use crate::session::Session;

/// So that the copy takes long enough to be killed in the middle.
const WINDOW: u32 = 4;

/// How often the demo looks how far the copy is.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A copy that was killed and resumed.
#[derive(Debug, Serialize)]
pub(super) struct Resumption {
    /// Bytes that the server had sent when the process was killed.
    pub(super) killed_after_bytes: u64,
    /// Of these, bytes that the second run found on disk and verified.
    pub(super) resumed_bytes: u64,
    pub(super) verified: Vec<&'static str>,
}

/// A copy with one bit that was flipped on the way.
#[derive(Debug, Serialize)]
pub(super) struct Caught {
    pub(super) flipped_at: u64,
    pub(super) error: String,
}

/// Copies the blob with a process of its own, kills it with SIGKILL in the middle, and copies again.
pub(super) async fn kill_and_resume(
    session: &Session,
    client: &Client,
    server: &Server,
    source: &Location,
    stage: &Stage,
) -> Result<Resumption> {
    session.say("killing a copy in the middle, and running it again ...");
    server.script().clear();
    server.clear_log();
    let mut child = spawn(server, stage)?;
    let killed_after_bytes = tokio::select! {
        biased;
        () = session.cancel.cancelled() => return Err(stage::cancelled()),
        bytes = half_sent(server, stage.bytes / 2) => bytes,
        // It was faster, or it failed: the second run shows which.
        _ = child.wait() => sent(server),
    };
    // It fails only if the process has ended.
    let _ = child.kill().await;
    let report = fetch(session, client, source, stage).await?;
    stage.clear();
    Ok(Resumption {
        killed_after_bytes,
        resumed_bytes: report.resumed_bytes,
        verified: report
            .verified
            .checksums()
            .iter()
            .map(|found| found.algorithm().name())
            .collect(),
    })
}

/// Fetches the blob while the server flips one bit of it. The result is the error that this must
/// give.
pub(super) async fn flip_a_bit(
    session: &Session,
    client: &Client,
    server: &Server,
    source: &Location,
    stage: &Stage,
) -> Result<Caught> {
    session.say("flipping one bit on the way ...");
    let flipped_at = stage.bytes / 2;
    server.script().clear();
    server.script().push(Rule::new(Fault::FlipBit(flipped_at)).path(PATH).always());
    let fetched = fetch(session, client, source, stage).await;
    server.script().clear();
    let is_left = stage.target().exists();
    stage.clear();
    match fetched {
        Err(error) if error.kind() == ErrorKind::Integrity && !is_left => {
            Ok(Caught { flipped_at, error: error.to_string() })
        }
        Err(error) => Err(error),
        Ok(_) => {
            let message = "the flipped bit was not noticed";
            let shown = source.display();
            Err(Error::new(ErrorKind::Integrity, Operation::Verify, shown, message))
        }
    }
}

async fn fetch(
    session: &Session,
    client: &Client,
    source: &Location,
    stage: &Stage,
) -> Result<Report> {
    client
        .download(source, Target::file(stage.target()))
        .durability(Durability::None)
        .cancel(session.cancel.clone())
        .await
}

/// `tidegate cp` as users run it.
fn spawn(server: &Server, stage: &Stage) -> Result<Child> {
    let failed = |error| {
        let message = "the copy's process cannot be started";
        Error::new(ErrorKind::Storage, Operation::Download, "the demo", message).caused_by(error)
    };
    Command::new(std::env::current_exe().map_err(failed)?)
        .args(["cp", "--quiet", "--anonymous", "--no-proxy", "--durability", "none"])
        .args(["--window", &WINDOW.to_string(), "--endpoint", &server.endpoint(), URL])
        .arg(stage.target())
        .env("XDG_STATE_HOME", stage.state())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)
}

/// Waits until the server has sent this much; returns how much it had sent then.
async fn half_sent(server: &Server, half: u64) -> u64 {
    loop {
        let sent = sent(server);
        if sent >= half {
            return sent;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn sent(server: &Server) -> u64 {
    server.log().iter().map(|logged| logged.bytes_sent).sum()
}
