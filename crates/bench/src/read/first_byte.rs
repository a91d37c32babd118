//! Time to the first byte of a small object on a connection that is already there.
//!
//! Both readers fetch the same object again and again in one process, so that every time but the
//! first finds a connection. curl's is its own `time_starttransfer`, from the beginning of that
//! transfer until the first byte of the answer, which is one of its head; ours is from opening a
//! channel until the first bytes of the body are in hand, which is a little later. The whole
//! transfer is given too.

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::ours::ReadOnce;
use super::programs::Programs;
use super::server::{Blob, Link, Server};
use crate::figures::{least, median};
use crate::measure::capture;

/// Transfers of one run that count.
const TRANSFERS: u32 = 200;

/// Milliseconds, one per run: the median over its transfers.
#[derive(Debug, Default, Serialize)]
pub(crate) struct FirstByte {
    pub(crate) transfers_per_run: u32,
    pub(crate) ours: Times,
    pub(crate) curl: Option<Times>,
}

/// One reader's.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Times {
    pub(crate) first_byte_ms: Vec<f64>,
    pub(crate) total_ms: Vec<f64>,
    /// Of the slowest transfer: what a stall would hide from a median.
    pub(crate) total_ms_max: Vec<f64>,
}

impl Times {
    fn add(&mut self, transfers: &[(f64, f64)]) {
        // The first one made the connection.
        let warm = || transfers.iter().skip(1);
        self.first_byte_ms.push(median(warm().map(|(first, _)| first * 1e3)));
        self.total_ms.push(median(warm().map(|(_, total)| total * 1e3)));
        self.total_ms_max.push(warm().map(|(_, total)| total * 1e3).fold(0.0, f64::max));
    }

    /// The median run's and the best run's time to the first byte.
    pub(crate) fn first_byte(&self) -> (f64, f64) {
        sum_up(&self.first_byte_ms)
    }

    /// The median run's and the best run's time for all of it.
    pub(crate) fn total(&self) -> (f64, f64) {
        sum_up(&self.total_ms)
    }

    /// The slowest transfer of the median run.
    pub(crate) fn slowest(&self) -> f64 {
        sum_up(&self.total_ms_max).0
    }
}

fn sum_up(runs: &[f64]) -> (f64, f64) {
    (median(runs.iter().copied()), least(runs.iter().copied()).unwrap_or_default())
}

/// Measures both, in turns.
pub(crate) fn measure(programs: &Programs, server: &Server, runs: u32) -> Result<FirstByte> {
    let endpoint = server.endpoint(Link::Plain);
    let mut found = FirstByte { transfers_per_run: TRANSFERS, ..FirstByte::default() };
    for round in 0..runs {
        if round % 2 == 0 {
            found.ours.add(&ours(programs, &endpoint)?);
        }
        if let Some(transfers) = curl(programs, &endpoint)? {
            found.curl.get_or_insert_default().add(&transfers);
        }
        if round % 2 == 1 {
            found.ours.add(&ours(programs, &endpoint)?);
        }
    }
    Ok(found)
}

fn ours(programs: &Programs, endpoint: &str) -> Result<Vec<(f64, f64)>> {
    let mut command = programs.own(endpoint, &format!("gs://bench/{}", Blob::O256k.name()));
    command.arg("--times").arg((TRANSFERS + 1).to_string());
    let (output, _) = capture(&mut command)?;
    let reads = output.lines().map(|line| {
        let read: ReadOnce = serde_json::from_str(line).context("reading our own result")?;
        ensure!(read.bytes == Blob::O256k.len_bytes(), "read {} bytes", read.bytes);
        Ok((read.first_byte_s, read.wall_s))
    });
    reads.collect()
}

fn curl(programs: &Programs, endpoint: &str) -> Result<Option<Vec<(f64, f64)>>> {
    let Some(mut command) = programs.curl() else { return Ok(None) };
    command.args(["--write-out", "%{time_starttransfer} %{time_total}\n"]);
    // curl makes as many addresses of it; the server does not look at the query.
    let addresses = format!("{endpoint}/bench/{}?[0-{TRANSFERS}]", Blob::O256k.name());
    let (output, _) = capture(command.arg(addresses))?;
    let read = |line: &str| -> Result<(f64, f64)> {
        let (first, total) = line.split_once(' ').context("curl did not say what it took")?;
        Ok((first.parse()?, total.parse()?))
    };
    output.lines().map(read).collect::<Result<_>>().map(Some)
}
