//! `tidegate store replay`: the hit rates that stores of several sizes and policies would have had
//! on a trace.
//!
//! The trace is read once to count its blobs, and once for all simulated stores together. Standard
//! input can be read only once, so it needs `--size`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

use serde::Serialize;
use tidegate::{Error, ErrorKind, Operation, Result};
use tidegate_server::trace::replay::{Replay, ReplayOptions, ReplayPolicy, Tally};
use tidegate_server::trace::{TraceError, TraceReader};

use crate::args::ReplayArgs;
use crate::exit::Exit;
use crate::report;
use crate::session::Session;
use crate::size;

const STANDARD_INPUT: &str = "-";

/// The number of sizes without `--size`.
const SIZES: u32 = 5;

/// The smallest of them.
const SIZE_MIN: u64 = 1 << 20;

pub(super) fn run(session: &Session, args: &ReplayArgs) -> Exit {
    match replayed(args) {
        Err(error) => session.fail(&error),
        Ok(outcome) if session.output.json => session.json(&outcome),
        Ok(outcome) => session.print(&outcome.table()),
    }
}

/// The JSON.
#[derive(Debug, Serialize)]
struct Replayed {
    trace: String,
    /// Reads and existence checks.
    requests: u64,
    requested_bytes: u64,
    distinct_bytes: u64,
    stores: Vec<Row>,
}

/// One simulated store.
#[derive(Debug, Serialize)]
struct Row {
    policy: &'static str,
    /// Null for the store without a limit.
    size: Option<u64>,
    hits: u64,
    hit_bytes: u64,
    hit_rate: f64,
    byte_hit_rate: f64,
    written_bytes: u64,
    refused: u64,
}

fn replayed(args: &ReplayArgs) -> Result<Replayed> {
    let name = &*args.trace;
    let mut sizes = args.sizes.clone();
    if sizes.is_empty() {
        if name == STANDARD_INPUT {
            let message = "standard input can be read only once";
            return Err(Error::new(ErrorKind::Invalid, Operation::Read, name, message)
                .with_hint("name the sizes with --size, or write the trace to a file first"));
        }
        let mut unlimited = vec![unlimited()];
        play(name, &mut unlimited)?;
        sizes = default_sizes(unlimited.first().map_or(0, |replay| replay.tally().bytes_max));
    }
    sizes.sort_unstable();
    sizes.dedup();
    let options = ReplayOptions { age_min_ms: args.min_age };
    let mut stores = vec![unlimited()];
    for size in sizes {
        let of_policy = |policy| Replay::new(policy, size, options);
        stores.extend(ReplayPolicy::SIZED.into_iter().map(of_policy));
    }
    play(name, &mut stores)?;
    let all = stores.first().map(|replay| *replay.tally()).unwrap_or_default();
    stores.rotate_left(1);
    Ok(Replayed {
        trace: name.to_owned(),
        requests: all.requests,
        requested_bytes: all.requested_bytes,
        distinct_bytes: all.bytes_max,
        stores: stores.iter().map(Row::new).collect(),
    })
}

fn unlimited() -> Replay {
    Replay::new(ReplayPolicy::Unlimited, 0, ReplayOptions::default())
}

/// The power of two that holds `bytes`, and smaller ones; in ascending order.
fn default_sizes(bytes: u64) -> Vec<u64> {
    let largest = bytes.max(SIZE_MIN).checked_next_power_of_two().unwrap_or(1 << 63);
    let sizes = (0..SIZES).rev().map(|halved| largest >> halved);
    sizes.filter(|size| *size >= SIZE_MIN).collect()
}

/// Sends the trace to all stores.
fn play(name: &str, stores: &mut [Replay]) -> Result<()> {
    let input: Box<dyn BufRead> = if name == STANDARD_INPUT {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(name).map_err(|error| unreadable(name, error))?))
    };
    let mut reader = TraceReader::new(input).map_err(|error| failed(name, error))?;
    while let Some(request) = reader.next_request().map_err(|error| failed(name, error))? {
        for store in &mut *stores {
            store.request(&request);
        }
    }
    Ok(())
}

fn failed(name: &str, error: TraceError) -> Error {
    match error {
        TraceError::Read(error) => unreadable(name, error),
        error => Error::new(ErrorKind::Invalid, Operation::Read, name, "it is not a trace")
            .caused_by(error)
            .with_hint("the format is one request a line; see tidegate store replay --help"),
    }
}

fn unreadable(name: &str, error: io::Error) -> Error {
    let (kind, message, hint) = match error.kind() {
        io::ErrorKind::NotFound => (ErrorKind::NotFound, "there is no such file", "check the path"),
        io::ErrorKind::PermissionDenied => {
            (ErrorKind::NoAccess, "it may not be read", "check the file's permissions")
        }
        io::ErrorKind::IsADirectory => (ErrorKind::Invalid, "expected a file", "check the path"),
        _ => (ErrorKind::Storage, "it cannot be read", "check the path"),
    };
    Error::new(kind, Operation::Read, name, message).caused_by(error).with_hint(hint)
}

impl Row {
    fn new(replay: &Replay) -> Self {
        let tally: &Tally = replay.tally();
        let policy = replay.policy();
        Self {
            policy: policy.name(),
            size: (policy != ReplayPolicy::Unlimited).then(|| replay.limit_bytes()),
            hits: tally.hits,
            hit_bytes: tally.hit_bytes,
            hit_rate: tally.hit_rate(),
            byte_hit_rate: tally.byte_hit_rate(),
            written_bytes: tally.written_bytes,
            refused: tally.refused,
        }
    }
}

impl Replayed {
    fn table(&self) -> String {
        let mut text = format!(
            "{} for {}, {} distinct\n\n",
            report::count(self.requests, "request"),
            size::human(self.requested_bytes),
            size::human(self.distinct_bytes),
        );
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "{:>10}  {:<9}  {:>7}  {:>9}  {:>10}  {:>8}",
            "size", "policy", "hits", "hit bytes", "written", "refused"
        );
        for row in &self.stores {
            let _ = writeln!(
                text,
                "{:>10}  {:<9}  {:>6.2}%  {:>8.2}%  {:>10}  {:>8}",
                row.size.map_or_else(|| "-".to_owned(), size::human),
                row.policy,
                row.hit_rate * 100.0,
                row.byte_hit_rate * 100.0,
                size::human(row.written_bytes),
                row.refused,
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_sizes_are_powers_of_two_that_end_above_all_blobs() {
        assert_eq!(default_sizes(700 << 20), [64 << 20, 128 << 20, 256 << 20, 512 << 20, 1 << 30]);
        assert_eq!(default_sizes(0), [1 << 20]);
        assert_eq!(default_sizes(3 << 20), [1 << 20, 2 << 20, 4 << 20]);
        assert_eq!(default_sizes(u64::MAX).last(), Some(&(1 << 63)));
    }
}
