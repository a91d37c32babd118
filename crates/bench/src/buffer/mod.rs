//! `buffer`: fills an in-memory buffer from many threads, next to Kraken's two and to the limit of
//! memory.
//!
//! All subjects share the noise of the machine: under each condition every subject runs once a
//! round, directly after another, and the next round begins with a different one. Each run is a
//! process of its own, so that no subject inherits another's heap. Our harness is `cargo bench -p
//! tidegate --bench shard_buffer`, whose docs define one operation; Kraken's is
//! `peers/kraken-buffer`.

mod condition;
mod figure;
mod goals;
mod programs;
mod report;

use anyhow::Result;
use clap::Args;

use crate::machine::Machine;
use crate::progress::progress;
use crate::publish::PublishOptions;
use condition::{Condition, Subject};
use figure::{Figure, Sample};
use programs::Programs;
use report::{ConditionReport, Report};

/// What to measure, and where to put the results.
#[derive(Debug, Args)]
pub(crate) struct BufferOptions {
    /// Runs of each subject under each condition; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Milliseconds that one run goes on, at least one operation
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    ms: u32,
    /// Leave out the conditions under which Kraken's buffers take seconds: no or half a hint
    #[arg(long)]
    whole_only: bool,
    #[command(flatten)]
    publish: PublishOptions,
}

/// Measures, and prints and writes the report.
pub(crate) fn run(options: &BufferOptions) -> Result<()> {
    progress("building the programs to measure");
    let programs = Programs::build()?;
    if let Some(reason) = &programs.kraken_missing {
        progress(&format!("Kraken's buffers are left out: {reason}"));
    }
    let mut conditions = Condition::all();
    conditions.retain(|condition| !options.whole_only || condition.is_hinted_whole());
    let mut measured: Vec<Vec<(Subject, Vec<Sample>)>> = conditions
        .iter()
        .map(|condition| {
            let subjects = condition.subjects(programs.has_kraken());
            subjects.into_iter().map(|subject| (subject, Vec::new())).collect()
        })
        .collect();
    for round in 0..options.runs {
        progress(&format!("round {} of {}", round + 1, options.runs));
        for (condition, rows) in conditions.iter().zip(&mut measured) {
            let first = round as usize % rows.len().max(1);
            let (head, tail) = rows.split_at_mut(first);
            for (subject, samples) in tail.iter_mut().chain(head) {
                samples.push(programs.run(*subject, *condition, options.ms)?);
            }
        }
    }
    let conditions = conditions.into_iter().zip(measured).map(|(condition, rows)| {
        let rows = rows.into_iter().map(|(subject, samples)| Figure::new(subject, samples));
        ConditionReport { condition, rows: rows.collect() }
    });
    let report = Report {
        runs: options.runs,
        machine: Machine::read(),
        go: programs.go_version.clone(),
        kraken_missing: programs.kraken_missing.clone(),
        conditions: conditions.collect(),
    };
    options.publish.publish(&report, &report.to_markdown())
}
