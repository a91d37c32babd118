//! Time to the first byte of a small object on an open connection.
//!
//! Each reader fetches the same object repeatedly in one process, so that every fetch but the first
//! finds a connection. curl's figure is its own `time_starttransfer`, from the beginning of that
//! transfer until the first byte of the response, which belongs to its head. Ours has two figures:
//! from opening a channel until the head of the response has been read, and until the first bytes
//! of the body are available, which curl does not report. The time of the whole transfer is given
//! too.
//!
//! A bare socket shows the cost of server and kernel alone: a thread writes the request's bytes,
//! waits in `read` for as much as curl and ours take at first, and does not parse it. There, head
//! and body arrive in one read.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::ours::ReadOnce;
use super::programs::Programs;
use super::server::{Blob, Link, Server};
use crate::figures::{least, median};
use crate::measure::capture;

/// Transfers of one run that count.
const TRANSFERS: u32 = 200;

/// The most that curl and the engine take in their first read.
const FIRST_BYTES_MAX: usize = 16 << 10;

/// Milliseconds, one per run: the median over its transfers.
#[derive(Debug, Default, Serialize)]
pub(crate) struct FirstByte {
    pub(crate) transfers_per_run: u32,
    pub(crate) ours: Times,
    /// The same on a thread without a runtime.
    pub(crate) blocking: Times,
    pub(crate) curl: Option<Times>,
    pub(crate) socket: Times,
}

/// One transfer, in seconds.
struct Transfer {
    first_byte: f64,
    body: Option<f64>,
    total: f64,
}

/// The figures of one reader.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Times {
    /// Until the response.
    pub(crate) first_byte_ms: Vec<f64>,
    /// Until the first bytes of the body, if the reader reports it.
    pub(crate) body_ms: Vec<f64>,
    pub(crate) total_ms: Vec<f64>,
    /// Time of the slowest transfer: it shows a stall that a median hides.
    pub(crate) total_ms_max: Vec<f64>,
}

impl Times {
    fn add(&mut self, transfers: &[Transfer]) {
        // The first one made the connection.
        let warm = || transfers.iter().skip(1);
        self.first_byte_ms.push(median(warm().map(|transfer| transfer.first_byte * 1e3)));
        if warm().all(|transfer| transfer.body.is_some()) {
            self.body_ms.push(median(warm().filter_map(|transfer| transfer.body).map(|s| s * 1e3)));
        }
        self.total_ms.push(median(warm().map(|transfer| transfer.total * 1e3)));
        let slowest_s = warm().map(|transfer| transfer.total).fold(0.0, f64::max);
        self.total_ms_max.push(slowest_s * 1e3);
    }

    /// The median run's and the best run's time to the first byte.
    pub(crate) fn first_byte(&self) -> (f64, f64) {
        sum_up(&self.first_byte_ms)
    }

    /// The median run's time to the first bytes of the body.
    pub(crate) fn body(&self) -> Option<f64> {
        (!self.body_ms.is_empty()).then(|| sum_up(&self.body_ms).0)
    }

    /// The median run's and the best run's time for the whole transfer.
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

/// Measures them in turns.
pub(crate) fn measure(programs: &Programs, server: &Server, runs: u32) -> Result<FirstByte> {
    let endpoint = server.endpoint(Link::Plain);
    let mut found = FirstByte { transfers_per_run: TRANSFERS, ..FirstByte::default() };
    for round in 0..runs {
        if round % 2 == 0 {
            found.ours.add(&ours(programs, &endpoint, "frames")?);
        }
        if let Some(transfers) = curl(programs, &endpoint)? {
            found.curl.get_or_insert_default().add(&transfers);
        }
        if round % 2 == 1 {
            found.ours.add(&ours(programs, &endpoint, "frames")?);
        }
        found.socket.add(&socket(&endpoint)?);
        found.blocking.add(&ours(programs, &endpoint, "blocking")?);
    }
    Ok(found)
}

fn ours(programs: &Programs, endpoint: &str, face: &str) -> Result<Vec<Transfer>> {
    let mut command = programs.own(endpoint, &format!("gs://bench/{}", Blob::O256k.name()));
    command.args(["--face", face, "--times"]).arg((TRANSFERS + 1).to_string());
    let (output, _) = capture(&mut command)?;
    let reads = output.lines().map(|line| {
        let read: ReadOnce = serde_json::from_str(line).context("reading our own result")?;
        ensure!(read.bytes == Blob::O256k.len_bytes(), "read {} bytes", read.bytes);
        Ok(Transfer { first_byte: read.head_s, body: Some(read.first_byte_s), total: read.wall_s })
    });
    reads.collect()
}

fn socket(endpoint: &str) -> Result<Vec<Transfer>> {
    let address = endpoint.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).context("connecting to the server")?;
    stream.set_nodelay(true)?;
    let path = Blob::O256k.name();
    let request = format!("GET /bench/{path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let body_len = usize::try_from(Blob::O256k.len_bytes())?;
    let mut taken = vec![1; FIRST_BYTES_MAX + body_len];
    let mut transfers = Vec::new();
    for _ in 0..=TRANSFERS {
        let started = Instant::now();
        stream.write_all(request.as_bytes()).context("sending a request")?;
        let mut len = stream.read(&mut taken[..FIRST_BYTES_MAX]).context("reading an answer")?;
        let first_byte = started.elapsed().as_secs_f64();
        let head = taken[..len].windows(4).position(|four| four == b"\r\n\r\n");
        let end = head.context("the answer does not begin with its head")? + 4 + body_len;
        while len < end {
            let more = stream.read(&mut taken[len..end]).context("reading an answer")?;
            ensure!(more > 0, "the answer ended early");
            len += more;
        }
        let total = started.elapsed().as_secs_f64();
        transfers.push(Transfer { first_byte, body: Some(first_byte), total });
    }
    Ok(transfers)
}

fn curl(programs: &Programs, endpoint: &str) -> Result<Option<Vec<Transfer>>> {
    let Some(mut command) = programs.curl() else { return Ok(None) };
    command.args(["--write-out", "%{time_starttransfer} %{time_total}\n"]);
    // curl makes one address for each number; the server ignores the query.
    let addresses = format!("{endpoint}/bench/{}?[0-{TRANSFERS}]", Blob::O256k.name());
    let (output, _) = capture(command.arg(addresses))?;
    let read = |line: &str| -> Result<Transfer> {
        let (first, total) = line.split_once(' ').context("curl did not say what it took")?;
        Ok(Transfer { first_byte: first.parse()?, body: None, total: total.parse()? })
    };
    output.lines().map(read).collect::<Result<_>>().map(Some)
}
