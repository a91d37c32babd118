//! `memory`: a whole blob into memory, by `download`, by hand-written code, and by `object_store`.
//!
//! Each way is a process that fetches the blob several times. The first fetch uses fresh memory, as
//! in a command; later fetches use recycled memory, as in a server. All ways except the two with
//! one stream request ranges of 8 MiB, up to 32 at once. Our download is verified; the hand-written
//! code with ranges and `object_store` are not.

mod once;
mod report;

use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use tempfile::TempDir;

use crate::machine::Machine;
use crate::measure::capture;
use crate::progress::progress;
use crate::publish::PublishOptions;
use crate::read::programs::{build_object_store, parse_read};
use crate::read::server::{Blob, Link, Server};
use crate::scratch::disk_folder;
use once::{MemoryOnce, Way};
pub(crate) use once::{MemoryOnceOptions, run_once};
use report::{Report, Row, Sample};

/// What to measure, and where to put the results.
#[derive(Debug, Args)]
pub(crate) struct MemoryBenchOptions {
    /// Rounds; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Repetitions in one process; the first one finds fresh memory
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=100))]
    times: u32,
    #[command(flatten)]
    publish: PublishOptions,
}

/// Smaller objects are one request in every way.
const BLOBS: [Blob; 2] = [Blob::O64m, Blob::O1g];

/// One row of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    Download,
    Vec,
    VecGrowing,
    Vecs,
    /// `get_ranges` of adjacent ranges, which it merges into one request.
    GetRanges,
    /// `get_range`, with as many in flight as ours.
    ConcurrentGetRange,
}

impl Contender {
    const ALL: [Self; 6] = [
        Self::Download,
        Self::Vec,
        Self::VecGrowing,
        Self::Vecs,
        Self::GetRanges,
        Self::ConcurrentGetRange,
    ];

    fn way(self) -> Option<Way> {
        match self {
            Self::Download => Some(Way::Download),
            Self::Vec => Some(Way::Vec),
            Self::VecGrowing => Some(Way::VecGrowing),
            Self::Vecs => Some(Way::Vecs),
            Self::GetRanges | Self::ConcurrentGetRange => None,
        }
    }
}

/// Measures, and prints and writes the report.
pub(crate) fn run(options: &MemoryBenchOptions) -> Result<()> {
    ensure!(!cfg!(debug_assertions), "an unoptimised build measures nothing: use --release");
    let object_store = build_object_store();
    let scratch = TempDir::with_prefix_in("tidegate-bench.", disk_folder()?)
        .context("creating a folder for the objects")?;
    progress("making the objects");
    let server = Server::start(scratch.path(), &BLOBS)?;
    let mut report = Report {
        runs: options.runs,
        machine: Machine::read(),
        object_store: match &object_store {
            Ok((_, version)) => version.clone(),
            Err(error) => format!("not measured: {error:#}"),
        },
        rows: Vec::new(),
    };
    let this = std::env::current_exe().context("finding this program")?;
    for link in Link::value_variants() {
        for blob in BLOBS {
            let mut rows: Vec<(Contender, Vec<Sample>)> =
                Contender::ALL.into_iter().map(|one| (one, Vec::new())).collect();
            rows.retain(|(one, _)| one.way().is_some() || object_store.is_ok());
            for _ in 0..options.runs {
                for (contender, samples) in &mut rows {
                    let endpoint = server.endpoint(*link);
                    let taken = match (contender.way(), &object_store) {
                        (Some(way), _) => bring(Command::new(&this), way, &endpoint, blob, options),
                        (None, Ok((program, _))) => bring_ranges(
                            Command::new(program),
                            *contender,
                            &endpoint,
                            blob,
                            options,
                        ),
                        (None, Err(_)) => continue,
                    }?;
                    progress(&format!("  {contender:?} {} {link:?}: {taken:?}", blob.label()));
                    samples.extend(taken);
                }
            }
            let sum_up = |(contender, samples)| Row::new(contender, blob, *link, samples);
            report.rows.extend(rows.into_iter().map(sum_up));
        }
    }
    options.publish.publish(&report, &report.to_markdown())
}

fn bring(
    mut command: Command,
    way: Way,
    endpoint: &str,
    blob: Blob,
    options: &MemoryBenchOptions,
) -> Result<Vec<Sample>> {
    let name = way.to_possible_value().context("every way has a name")?;
    command.args(["memory-once", "--endpoint", endpoint, "--way", name.get_name()]);
    command.args(["--times", &options.times.to_string()]);
    command.args(["--len-bytes", &blob.len_bytes().to_string()]);
    let (output, usage) = capture(command.arg(format!("gs://bench/{}", blob.name())))?;
    let lines = output.lines().enumerate().map(|(index, line)| {
        let took: MemoryOnce = serde_json::from_str(line).context("reading our own result")?;
        ensure!(took.bytes == blob.len_bytes(), "{} bytes came", took.bytes);
        ensure!(took.verified == (way != Way::Vecs), "{way:?} verified: {}", took.verified);
        let (fresh, rss_kib) = (index == 0, usage.rss_kib_max);
        Ok(Sample { fresh, wall_s: took.wall_s, cpu_s: took.cpu_s, rss_kib })
    });
    lines.collect()
}

fn bring_ranges(
    mut command: Command,
    contender: Contender,
    endpoint: &str,
    blob: Blob,
    options: &MemoryBenchOptions,
) -> Result<Vec<Sample>> {
    let mode = if contender == Contender::GetRanges { "get_ranges" } else { "memory" };
    command.args(["peer", mode, endpoint, "bench", &options.times.to_string(), "32", "8"]);
    let (output, usage) = capture(command.arg(blob.name()))?;
    let reads = output.lines().filter(|line| line.starts_with("R ")).enumerate();
    let samples = reads.map(|(index, line)| {
        let read = parse_read(line, usage.rss_kib_max)?;
        ensure!(read.bytes == blob.len_bytes(), "{} bytes came", read.bytes);
        let (fresh, rss_kib) = (index == 0, read.rss_kib);
        Ok(Sample { fresh, wall_s: read.wall_s, cpu_s: read.cpu_s, rss_kib })
    });
    samples.collect()
}
