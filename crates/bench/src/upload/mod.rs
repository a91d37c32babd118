//! `upload`: uploads one file to one S3 server with every tool, in turns.
//!
//! On loopback the server is versitygw if it is named. Latency and rates are those of the testkit's
//! server, which drops what arrives. After each upload the object is compared with the file, or its
//! length if the server drops bytes; a wrong object ends the measurement. Uploads with tidegate are
//! verified; they end with a comparison of the checksum of the whole.

mod case;
mod goals;
mod report;
mod server;
mod tools;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use tempfile::TempDir;

use crate::machine::Machine;
use crate::measure::Usage;
use crate::object::Object;
use crate::program::Program;
use crate::progress::progress;
use crate::publish::PublishOptions;
use crate::scratch::disk_folder;
use crate::size;
use case::{Link, Tool};
use report::{LinkReport, Report, Sparse};
use server::Server;
pub(crate) use server::{UploadServerOptions, run_server};
use tools::{Installed, KEY, Source, tidegate};

/// What to measure, and where to put the results.
#[derive(Debug, Args)]
pub(crate) struct UploadBenchOptions {
    /// Length of the file: a number with KiB, MiB, GiB or nothing
    #[arg(long, default_value = "2GiB", value_parser = size::parse)]
    bytes: u64,
    /// Length of the sparse file whose upload shows the memory
    #[arg(long, default_value = "20GiB", value_parser = size::parse)]
    sparse_bytes: u64,
    /// Runs of each tool on each link; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Links to measure; without it all
    #[arg(long, value_enum, value_delimiter = ',')]
    links: Vec<Link>,
    /// The versitygw that serves on loopback; without it the testkit's server, which drops bytes
    #[arg(long, value_name = "PATH")]
    versitygw: Option<PathBuf>,
    /// The s5cmd to measure; without it the installed one
    #[arg(long, value_name = "PATH")]
    s5cmd: Option<PathBuf>,
    /// The rclone to measure; without it the installed one
    #[arg(long, value_name = "PATH")]
    rclone: Option<PathBuf>,
    /// The command `tidegate` to measure; without it, the one of this build
    #[arg(long, value_name = "PATH")]
    tidegate: Option<PathBuf>,
    #[command(flatten)]
    publish: PublishOptions,
}

/// The budget of the upload of the sparse file.
const SPARSE_MEMORY: &str = "128MiB";

/// Measures, and prints and writes the report.
pub(crate) fn run(options: &UploadBenchOptions) -> Result<()> {
    ensure!(!cfg!(debug_assertions), "an unoptimised build measures nothing: use --release");
    let installed = programs(options)?;
    let scratch = TempDir::with_prefix_in("tidegate-bench.", disk_folder()?)
        .context("creating a folder for the file")?;
    let home = scratch.path().join("home");
    fs::create_dir(&home).context("creating a home")?;
    progress(&format!("making a file of {} MiB", options.bytes >> 20));
    let object = Object::create(scratch.path().join("object"), options.bytes)?;
    let source = Source::cut(object, scratch.path())?;
    let mut report = Report {
        size_bytes: options.bytes,
        runs: options.runs,
        machine: Machine::read(),
        versions: installed
            .iter()
            .map(|one| (one.tool.label(), one.program.version.clone()))
            .collect(),
        links: Vec::new(),
        sparse: None,
    };
    let links = [Link::Plain, Link::Delay, Link::Capped];
    let links = if options.links.is_empty() { &links[..] } else { &options.links[..] };
    for link in links {
        let server = match &options.versitygw {
            Some(program) if *link == Link::Plain => {
                Server::versitygw(program, &scratch.path().join("served"))?
            }
            _ => Server::discarding(*link)?,
        };
        let bench = Bench { link: *link, server, source: &source, home: &home };
        report.links.push(bench.measure(options.runs, &installed)?);
    }
    drop(source);
    report.sparse = Some(sparse(options, &installed, scratch.path(), &home)?);
    options.publish.publish(&report, &report.to_markdown())
}

/// The programs, ours first. Fails if ours is missing.
fn programs(options: &UploadBenchOptions) -> Result<Vec<Installed>> {
    let mut installed = Vec::new();
    for tool in Tool::ALL {
        let named = |path: &Option<PathBuf>, name: &str| match path {
            Some(path) => Program::at(path.clone())
                .with_context(|| format!("{} does not print its version", path.display()))
                .map(Some),
            None => Ok(Program::find(name)),
        };
        let program = match tool {
            Tool::Tidegate => Some(Program::tidegate(options.tidegate.as_deref())?),
            Tool::S5cmd => named(&options.s5cmd, "s5cmd")?,
            Tool::Rclone => named(&options.rclone, "rclone")?,
            Tool::CurlX32 => Program::find("curl"),
        };
        match program {
            Some(program) => installed.push(Installed { tool, program }),
            None => progress(&format!("{} is not installed", tool.label())),
        }
    }
    Ok(installed)
}

/// One link with its server.
struct Bench<'a> {
    link: Link,
    server: Server,
    source: &'a Source,
    home: &'a Path,
}

impl Bench<'_> {
    fn measure(&self, rounds: u32, installed: &[Installed]) -> Result<LinkReport> {
        progress(&format!("{}, {}", self.link.title(), self.server.name));
        // The curls are the reference for latency. On loopback they only show the server.
        let fits = |one: &&Installed| one.tool != Tool::CurlX32 || self.link != Link::Plain;
        let mut measured: Vec<(&Installed, Vec<Usage>)> =
            installed.iter().filter(fits).map(|one| (one, Vec::new())).collect();
        self.source.object.warm().context("reading the file")?;
        for round in 0..rounds {
            let first = round as usize % measured.len().max(1);
            // No tool must always run after the same tool.
            let (head, tail) = measured.split_at_mut(first);
            for (one, runs) in tail.iter_mut().chain(head) {
                let usage = self.run_once(one)?;
                progress(&format!(
                    "  {:<20} {:>7.2} s wall, {:>6.2} s CPU, {:>4} MiB",
                    one.tool.label(),
                    usage.wall_s,
                    usage.cpu_s,
                    usage.rss_kib_max >> 10
                ));
                runs.push(usage);
            }
        }
        let measured = measured.into_iter().map(|(one, runs)| (one.tool, runs)).collect();
        let (server, len_bytes) = (self.server.name.clone(), self.source.object.len_bytes);
        Ok(LinkReport::new(self.link, server, len_bytes, measured))
    }

    fn run_once(&self, one: &Installed) -> Result<Usage> {
        self.server.clear(KEY)?;
        let mut run = one.upload(self.source, &self.server, self.home);
        // Otherwise the previous run's dirty pages would be written during this run.
        rustix::fs::sync();
        let usage = run.measure()?;
        for (key, len_bytes) in self.source.made(one.tool)? {
            let checked = match one.tool {
                Tool::CurlX32 => self.server.check_len(&key, len_bytes),
                _ => self.server.check(&key, &self.source.object),
            };
            checked.with_context(|| format!("{} is wrong", one.tool.label()))?;
        }
        Ok(usage)
    }
}

/// Uploads a sparse file once: the memory counts, not the time.
fn sparse(
    options: &UploadBenchOptions,
    installed: &[Installed],
    scratch: &Path,
    home: &Path,
) -> Result<Sparse> {
    progress(&format!(
        "a sparse file of {} GiB, --memory {SPARSE_MEMORY}",
        options.sparse_bytes >> 30
    ));
    let path = scratch.join("sparse");
    let file = File::create_new(&path).context("creating the sparse file")?;
    file.set_len(options.sparse_bytes).context("creating the sparse file")?;
    let server = Server::discarding(Link::Plain)?;
    let ours = installed.first().context("tidegate is missing")?;
    let flags = ["--memory", SPARSE_MEMORY];
    let usage = tidegate(&ours.program, &flags, &path, &server, home).measure()?;
    server.check_len(KEY, options.sparse_bytes)?;
    Ok(Sparse { size_bytes: options.sparse_bytes, usage })
}
