//! `chunked`: blobs as chunks to and from a cache, compared with one chunk at a time, with Bazel,
//! and with the bounds from latency alone.
//!
//! The server is the testkit's, in this process. It delays every response by 25 ± 10 ms (or not at
//! all), holds everything in memory, and does not verify data, so that its share of the cores is
//! small. Each transfer is a process of its own, in turns with the others. The time is from the
//! first call for the blob to its end; connection and capabilities exist before. Chunks are really
//! read, hashed and written, to memory (`/dev/shm`) if there is such a folder.

mod bounds;
mod case;
mod figure;
mod goals;
mod models;
mod once;
mod plain;
mod report;
mod trial;

pub(crate) use once::{ChunkedOnceOptions, run_once};

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::machine::Machine;
use crate::measure::capture;
use crate::progress::progress;
use crate::publish::PublishOptions;
use case::{Case, Way};
use figure::{CaseReport, Figure};
use once::ChunkedOnce;
use report::Report;
use trial::{Hash, Trial};

/// What to measure, and where to put the results.
#[derive(Debug, Args)]
pub(crate) struct ChunkedOptions {
    /// Transfers in each way; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Only this case; may be given several times
    #[arg(long = "case", value_enum)]
    cases: Vec<Case>,
    /// The function that names blobs and chunks
    #[arg(long, value_enum, default_value_t = Hash::Sha256)]
    digest: Hash,
    /// Where the files are; by default in memory, where the system has such a folder
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    publish: PublishOptions,
}

/// One chunk at a time takes seconds and needs no median.
const RUNS_ONE_AT_A_TIME: u32 = 1;

/// Measures, and prints and writes the report.
pub(crate) fn run(options: &ChunkedOptions) -> Result<()> {
    ensure!(!cfg!(debug_assertions), "an unoptimised build measures nothing: use --release");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let cases = if options.cases.is_empty() { Case::ALL.to_vec() } else { options.cases.clone() };
    let mut report = Report {
        runs: options.runs,
        machine: Machine::read(),
        digest: options.digest.label(),
        cases: Vec::new(),
    };
    for case in cases {
        progress(&format!("{}: making the blob", case.label()));
        let trial =
            runtime.block_on(Trial::new(case, options.digest, options.dir.clone(), false))?;
        report.cases.push(measure(&trial, options.runs)?);
    }
    options.publish.publish(&report, &report.to_markdown())
}

/// All ways of one case, in turns.
fn measure(trial: &Trial, runs: u32) -> Result<CaseReport> {
    let mut rows: Vec<(Way, Vec<ChunkedOnce>)> =
        trial.case.ways().iter().map(|way| (*way, Vec::new())).collect();
    for round in 0..runs {
        for (way, samples) in &mut rows {
            if *way == Way::OneAtATime && round >= RUNS_ONE_AT_A_TIME {
                continue;
            }
            let took = in_a_process(&trial.prepare(*way)?)?;
            trial.check(*way)?;
            progress(&format!("  {}: {:.1} ms", way.label(), took.wall_s * 1e3));
            samples.push(took);
        }
    }
    let rows = rows.into_iter().map(|(way, samples)| Figure::new(way, samples)).collect();
    Ok(CaseReport::new(trial.case, rows))
}

fn in_a_process(options: &ChunkedOnceOptions) -> Result<ChunkedOnce> {
    let this = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(this);
    let named = |value: Option<clap::builder::PossibleValue>| {
        value.map(|value| value.get_name().to_owned()).context("it has a name")
    };
    command.args(["chunked-once", &options.url, "--digest", &options.digest]);
    command.args(["--case", &named(options.case.to_possible_value())?]);
    command.args(["--way", &named(options.way.to_possible_value())?]);
    let (output, _) = capture(command.arg("--file").arg(&options.file))?;
    serde_json::from_str(&output).context("reading our own result")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way transfers the blob, and its report matches the transfer.
    #[test]
    fn the_smallest_size_runs() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        for case in Case::ALL {
            let trial = runtime.block_on(Trial::new(case, Hash::Sha256, None, true)).unwrap();
            let mut rows = Vec::new();
            for way in case.ways() {
                let options = trial.prepare(*way).unwrap();
                let took = runtime.block_on(once::transfer(&options)).unwrap();
                trial.check(*way).unwrap();
                let whole = *way == Way::Whole;
                assert_eq!(took.chunks > 1, !whole, "{case:?} {way:?}: {took:?}");
                rows.push(Figure::new(*way, vec![took]));
            }
            let report = CaseReport::new(case, rows);
            let cases = vec![report];
            let machine = Machine::read();
            let report = Report { runs: 1, machine, digest: "SHA-256", cases };
            assert!(report.to_markdown().contains(case.label()));
        }
    }
}
