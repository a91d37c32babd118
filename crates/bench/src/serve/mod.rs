//! `serve`: the cache server under load by its protocols, beside other caches and a bare program.
//!
//! Every contender gets the same load from this program, in turns within one run, with an empty
//! folder each time. The bare program receives, hashes, writes and sends, over plain sockets: the
//! kernel's part and the hash. Columns are those in which caches were compared before, so that the
//! figures of another machine can be scaled by a peer that ran there and runs here.
//!
//! | file | idea |
//! |---|---|
//! | `contender` | the servers, and how each is started |
//! | `process` | a server's process: its address, its processor time, its memory |
//! | `column` | what is measured |
//! | `blobs` | what is sent |
//! | `workers` | calls in parallel, and their latencies |
//! | `load` | the calls of each column |
//! | `bare` | the bare program, and its load |
//! | `startup` | the time to the first answer, and memory, with many entries |
//! | `pressure` | reads while three times the limit is written |
//! | `goals`, `report` | the results |

mod bare;
mod blobs;
mod column;
mod contender;
mod goals;
mod load;
mod pressure;
mod process;
mod report;
mod startup;
mod workers;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use tempfile::TempDir;

use self::blobs::Blobs;
use self::column::Column;
use self::contender::{Contender, Programs};
use self::report::{Report, Row};
use crate::machine::Machine;
use crate::progress::progress;
use crate::publish::PublishOptions;
use crate::scratch::disk_folder;
use crate::size;
pub(crate) use bare::{BareOptions, run_bare};

/// What to measure, and where to put the results.
#[derive(Debug, Args)]
pub(crate) struct ServeBenchOptions {
    /// Rounds; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Only these parts
    #[arg(long, value_delimiter = ',', default_values = ["rates", "startup", "pressure"])]
    parts: Vec<Part>,
    /// Only these contenders
    #[arg(long, value_delimiter = ',')]
    contenders: Vec<Contender>,
    /// Only these columns
    #[arg(long, value_delimiter = ',')]
    columns: Vec<Column>,
    /// Length of a large blob
    #[arg(long, default_value = "64MiB", value_parser = size::parse)]
    large_bytes: u64,
    /// Large blobs of a column
    #[arg(long, default_value_t = 16)]
    large_count: usize,
    /// Blobs of 4 KiB of a column
    #[arg(long, default_value_t = 20_000)]
    small_count: usize,
    /// Duration of the columns without blobs, in seconds
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Entries for the start-up
    #[arg(long, value_delimiter = ',', default_values = ["1000000", "8000000"])]
    entries: Vec<u64>,
    /// The limit of the store; three times as much is written
    #[arg(long, default_value = "4GiB", value_parser = size::parse)]
    limit: u64,
    /// The folder for the stores; on a disk
    #[arg(long)]
    dir: Option<PathBuf>,
    #[command(flatten)]
    programs: Programs,
    #[command(flatten)]
    publish: PublishOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Rates,
    Startup,
    Pressure,
}

/// Measures, and prints and writes the report.
pub(crate) fn run(options: &ServeBenchOptions) -> Result<()> {
    ensure!(!cfg!(debug_assertions), "an unoptimised build measures nothing: use --release");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let folder = options.dir.clone().map_or_else(disk_folder, Ok)?;
    let scratch = TempDir::with_prefix_in("tidegate-bench.", folder)
        .context("creating a folder for the stores")?;
    let bed = Bed { options, folder: scratch.path().to_owned() };
    let (contenders, left_out) = bed.contenders();
    let mut report = Report {
        runs: options.runs,
        machine: Machine::read(),
        left_out,
        rows: Vec::new(),
        startup: Vec::new(),
        pressure: Vec::new(),
    };
    if options.parts.contains(&Part::Rates) {
        report.rows = runtime.block_on(bed.rates(&contenders))?;
    }
    if options.parts.contains(&Part::Startup) {
        for entries in &options.entries {
            report.startup.extend(runtime.block_on(startup::measure(&bed, *entries))?);
        }
    }
    if options.parts.contains(&Part::Pressure) {
        for contender in contenders {
            report.pressure.extend(runtime.block_on(pressure::measure(&bed, contender))?);
        }
    }
    options.publish.publish(&report, &report.to_markdown())
}

/// What all parts need.
struct Bed<'a> {
    options: &'a ServeBenchOptions,
    folder: PathBuf,
}

impl Bed<'_> {
    /// Those that can be measured, and why others cannot.
    fn contenders(&self) -> (Vec<Contender>, Vec<String>) {
        let (mut found, mut left_out) = (Vec::new(), Vec::new());
        let wanted = |one: &Contender| {
            self.options.contenders.is_empty() || self.options.contenders.contains(one)
        };
        for contender in Contender::value_variants().iter().copied().filter(wanted) {
            match self.options.programs.of(contender) {
                Ok(_) => found.push(contender),
                Err(reason) => {
                    let reason = format!("{}: {reason:#}", contender.label());
                    progress(&format!("left out: {reason}"));
                    left_out.push(reason);
                }
            }
        }
        (found, left_out)
    }

    fn columns(&self) -> Vec<Column> {
        let wanted =
            |one: &Column| self.options.columns.is_empty() || self.options.columns.contains(one);
        Column::value_variants().iter().copied().filter(wanted).collect()
    }

    async fn rates(&self, contenders: &[Contender]) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for run in 0..self.options.runs {
            progress(&format!("run {} of {}: making blobs", run + 1, self.options.runs));
            let blobs = Blobs::new(self.options, u64::from(run))?;
            for contender in contenders {
                let server = self.options.programs.start(*contender, &self.folder, None).await?;
                let load = load::Load::connect(*contender, &server, &blobs, self.options).await?;
                for column in self.columns() {
                    let sample = load.measure(column, &server).await?;
                    progress(&format!("  {} {}: {sample}", contender.label(), column.label()));
                    rows.push(Row { contender: *contender, column, sample });
                }
                drop(load);
                server.end()?;
            }
        }
        Ok(rows)
    }
}
