//! `fetch`: fetches the same object with every tool, in turns, from one server.
//!
//! All tools share the noise of the machine. In every round each tool runs once, and the next round
//! starts with another tool. All read the same warm object. Targets are deleted and the disk is
//! synced before each run. The output of each tool is compared with the object, byte by byte; a
//! wrong output gets no time.

mod case;
mod report;
mod server;
mod tools;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use tempfile::TempDir;

use crate::machine::Machine;
use crate::measure::Usage;
use crate::object::Object;
use crate::program::Program;
use crate::progress::progress;
use crate::scratch::disk_folder;
use crate::size;
use case::{Case, Sink};
use report::{CaseReport, Report};
use server::Server;
use tools::{Fetch, Role, Tool};

/// What to measure, and where to put the results.
#[derive(Debug, Args)]
pub(crate) struct FetchOptions {
    /// Length of the object: a number with KiB, MiB, GiB or nothing
    #[arg(long, default_value = "2GiB", value_parser = size::parse)]
    size: u64,
    /// Runs of each tool in each case; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Conditions to measure under; without it the five that matter most
    #[arg(long, value_enum, value_delimiter = ',')]
    cases: Vec<Case>,
    /// Tools to measure; without it all that are installed
    #[arg(long, value_enum, value_delimiter = ',')]
    tools: Vec<Tool>,
    /// Folder on the disk to measure; without it, one for temporary files that is on a disk
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The command `tidegate` to measure; without it, the one of this build
    #[arg(long)]
    tidegate: Option<PathBuf>,
    /// Write the figures of every run as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write the tables as Markdown; they go to standard output too
    #[arg(long)]
    markdown: Option<PathBuf>,
}

/// Folders that live as long as the measurement.
struct Scratch {
    disk: TempDir,
    tmpfs: Option<TempDir>,
}

/// Measures, and prints and writes the report.
pub(crate) fn run(options: &FetchOptions) -> Result<()> {
    let cases = if options.cases.is_empty() { &Case::DEFAULTS[..] } else { &options.cases };
    let tools = if options.tools.is_empty() { Tool::value_variants() } else { &options.tools[..] };
    let programs = find_programs(options, tools)?;
    let scratch = Scratch::new(options, cases)?;
    let folder = scratch.disk.path();
    for name in ["served", "nginx", "home"] {
        fs::create_dir(folder.join(name)).with_context(|| format!("creating {name}"))?;
    }
    progress(&format!("making an object of {} MiB", options.size >> 20));
    let object = Object::create(folder.join("served/object"), options.size)?;
    let server = Server::start(&folder.join("nginx"), &object)?;
    let mut report = Report {
        size_bytes: options.size,
        runs: options.runs,
        machine: Machine::read(),
        versions: vec![("nginx".into(), server.version().to_owned())],
        not_installed: not_installed(tools, &programs),
        cases: Vec::new(),
    };
    let found =
        programs.iter().map(|(name, program)| ((*name).to_owned(), program.version.clone()));
    report.versions.extend(found);
    for &case in cases {
        let bench = Bench { case, server: &server, object: &object, scratch: &scratch };
        report.cases.push(bench.measure(options.runs, tools, &programs)?);
    }
    drop(server);
    publish(options, &report)
}

/// One case with its server, programs and folders.
struct Bench<'a> {
    case: Case,
    server: &'a Server,
    object: &'a Object,
    scratch: &'a Scratch,
}

impl Bench<'_> {
    fn measure(
        &self,
        rounds: u32,
        tools: &[Tool],
        programs: &BTreeMap<&'static str, Program>,
    ) -> Result<CaseReport> {
        progress(self.case.title());
        let fits = |tool: &&Tool| {
            tool.left_out(self.case).is_none() && programs.contains_key(tool.program())
        };
        let mut measured: Vec<(Tool, Vec<Usage>)> =
            tools.iter().filter(fits).map(|tool| (*tool, Vec::new())).collect();
        self.object.warm().context("reading the object")?;
        for round in 0..rounds {
            let first = round as usize % measured.len().max(1);
            // No tool must always run after the same tool, whose dirty pages would slow it.
            let (head, tail) = measured.split_at_mut(first);
            for (tool, runs) in tail.iter_mut().chain(head) {
                let usage = self.run_once(*tool, &programs[tool.program()])?;
                progress(&format!(
                    "  {:<26} {:>7.2} s wall, {:>6.2} s CPU, {:>4} MiB",
                    tool.label(),
                    usage.wall_s,
                    usage.cpu_s,
                    usage.rss_kib_max >> 10
                ));
                runs.push(usage);
            }
        }
        let left_out = tools
            .iter()
            .filter_map(|tool| tool.left_out(self.case).map(|reason| (*tool, reason)))
            .collect();
        Ok(CaseReport::new(self.case, self.object.len_bytes, measured, left_out))
    }

    fn run_once(&self, tool: Tool, program: &Program) -> Result<Usage> {
        let parent = match self.case.sink() {
            Sink::Tmpfs => self.scratch.tmpfs.as_ref().unwrap_or(&self.scratch.disk).path(),
            Sink::Null | Sink::Disk => self.scratch.disk.path(),
        };
        let out = TempDir::with_prefix_in("out.", parent).context("creating a target folder")?;
        let target = match self.case.sink() {
            Sink::Null => PathBuf::from("/dev/null"),
            Sink::Disk | Sink::Tmpfs => out.path().join("target"),
        };
        let home = self.scratch.disk.path().join("home");
        let fetch = Fetch {
            case: self.case,
            server: self.server,
            object: self.object,
            target: &target,
            home: &home,
        };
        let mut run = fetch.run(tool, program)?;
        // Otherwise the previous run's dirty pages would be written during this run.
        rustix::fs::sync();
        let usage = run.measure()?;
        if self.case.sink() != Sink::Null && tool != Tool::CurlX32 {
            self.object
                .ensure_same(&target)
                .with_context(|| format!("{} is wrong", tool.label()))?;
        }
        Ok(usage)
    }
}

impl Scratch {
    fn new(options: &FetchOptions, cases: &[Case]) -> Result<Self> {
        let folder = match &options.dir {
            Some(folder) => folder.clone(),
            None => disk_folder()?,
        };
        let disk = TempDir::with_prefix_in("tidegate-bench.", &folder)
            .with_context(|| format!("creating a folder in {}", folder.display()))?;
        let tmpfs = cases.iter().any(|case| case.sink() == Sink::Tmpfs);
        let tmpfs = tmpfs
            .then(|| TempDir::with_prefix_in("tidegate-bench.", "/dev/shm"))
            .transpose()
            .context("creating a folder in /dev/shm")?;
        Ok(Self { disk, tmpfs })
    }
}

/// The installed programs of `tools`. Fails if our own program is missing.
fn find_programs(
    options: &FetchOptions,
    tools: &[Tool],
) -> Result<BTreeMap<&'static str, Program>> {
    let mut programs = BTreeMap::new();
    for tool in tools {
        let name = tool.program();
        if programs.contains_key(name) {
            continue;
        }
        let program = match tool.role() {
            Role::Ours => Some(Program::tidegate(options.tidegate.as_deref())?),
            Role::Peer | Role::Reference => Program::find(name),
        };
        if let Some(program) = program {
            programs.insert(name, program);
        }
    }
    ensure!(!programs.is_empty(), "none of these tools is installed");
    Ok(programs)
}

fn not_installed(tools: &[Tool], found: &BTreeMap<&str, Program>) -> Vec<&'static str> {
    let mut missing: Vec<_> = tools.iter().map(|tool| tool.program()).collect();
    missing.retain(|name| !found.contains_key(name));
    missing.dedup();
    missing
}

fn publish(options: &FetchOptions, report: &Report) -> Result<()> {
    let markdown = report.to_markdown();
    if let Some(path) = &options.markdown {
        fs::write(path, &markdown).with_context(|| format!("writing {}", path.display()))?;
    }
    if let Some(path) = &options.json {
        let json = serde_json::to_string_pretty(report)? + "\n";
        fs::write(path, json).with_context(|| format!("writing {}", path.display()))?;
    }
    io::stdout().write_all(markdown.as_bytes()).context("printing the tables")
}
