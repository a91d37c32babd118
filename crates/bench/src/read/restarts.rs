//! The cost of restarts: reading through a connection that breaks every MiB.
//!
//! The server waits 20 ms before each response and cuts each body after 1 MiB. The comparison is
//! with latency alone: the same number of requests of 1 MiB each, in sequence by the same reader,
//! to the same server without cuts, on connections that stay open. A restart has more work: it must
//! notice the break, connect again and find its position.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use tidegate_testkit::{
    Blob, Fault, Flavour, NetworkProfile, Rule, Server, ServerOptions, pseudo_random,
};

use super::ours::ReadOnce;
use super::programs::Programs;
use crate::figures::median;
use crate::measure::capture;

const OBJECT_BYTES: u64 = 64 << 20;
const CUT_BYTES: u64 = 1 << 20;
const PATH: &str = "/bench/cut";

/// Seconds, one per run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Restarts {
    pub(crate) object_bytes: u64,
    pub(crate) latency_ms: u64,
    /// Requests of one read through cuts.
    pub(crate) requests: u64,
    /// In one request, without a cut.
    pub(crate) whole_s: Vec<f64>,
    /// In as many requests as the cuts cause, without a cut.
    pub(crate) ranges_s: Vec<f64>,
    /// Through a cut every MiB.
    pub(crate) cuts_s: Vec<f64>,
}

impl Restarts {
    /// The extra time of a read through cuts, as a share of the time for latency alone; by medians.
    pub(crate) fn overhead(&self) -> f64 {
        let of = |runs: &[f64]| median(runs.iter().copied());
        of(&self.cuts_s) / of(&self.ranges_s) - 1.0
    }
}

/// Measures the three, in turns. Starts its own server, which ends with this call.
pub(crate) fn measure(programs: &Programs, runs: u32) -> Result<Restarts> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting a runtime for the server that cuts")?;
    let profile = NetworkProfile::CLOUD_UNCAPPED;
    let start = |cuts: bool| -> Result<Server> {
        let options = ServerOptions { profile, ..ServerOptions::of(Flavour::Gcs) };
        let server = runtime.block_on(Server::start(options)).context("starting a server")?;
        let len = usize::try_from(OBJECT_BYTES).context("a length beyond this platform")?;
        server.put(PATH, Blob::new(pseudo_random(len, 1)));
        runtime.block_on(server.prepare(PATH)).context("preparing an object")?;
        if cuts {
            server.script().push(Rule::new(Fault::CutAfter(CUT_BYTES)).always());
        }
        Ok(server)
    };
    let (steady, cutting) = (start(false)?, start(true)?);
    let mut found = Restarts {
        object_bytes: OBJECT_BYTES,
        latency_ms: profile.latency_ms,
        ..Restarts::default()
    };
    for _ in 0..runs {
        let ranges = CUT_BYTES.to_string();
        found.whole_s.push(read(programs, &steady, &[])?.wall_s);
        let alone = read(programs, &steady, &["--range-bytes", &ranges])?;
        found.ranges_s.push(alone.wall_s);
        let through = read(programs, &cutting, &[])?;
        ensure!(through.verified, "what came through the cuts was not verified");
        ensure!(
            through.requests == alone.requests,
            "{} requests through the cuts, expected {}",
            through.requests,
            alone.requests
        );
        found.cuts_s.push(through.wall_s);
        found.requests = through.requests;
    }
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(found)
}

fn read(programs: &Programs, server: &Server, arguments: &[&str]) -> Result<ReadOnce> {
    let mut command = programs.own(&server.endpoint(), "gs://bench/cut");
    let (output, _) = capture(command.args(arguments))?;
    let read: ReadOnce = serde_json::from_str(&output).context("reading our own result")?;
    ensure!(read.bytes == OBJECT_BYTES, "{} bytes came, expected {OBJECT_BYTES}", read.bytes);
    Ok(read)
}
