//! `read`: one object as one stream, through each reader, from one server.
//!
//! In every round each reader reads each object once, and the next round begins with another
//! reader. Ours and curl are one process a read; the whole processor time counts, start and end
//! included. The clients of other languages read several times in a process and count a read's own
//! time, because users do not start a virtual machine for each object. The costs of restarts and of
//! the first byte are measured separately; see [`restarts`] and [`first_byte`].

mod first_byte;
mod goals;
mod ours;
pub(crate) mod programs;
mod reader;
mod report;
mod restarts;
pub(crate) mod server;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use tempfile::TempDir;

use crate::machine::Machine;
use crate::progress::progress;
use crate::publish::PublishOptions;
use crate::scratch::disk_folder;
pub(crate) use ours::{ReadOnceOptions, run_once};
use programs::Programs;
use reader::{Origin, Reader};
use report::{LinkReport, Report, Row, Sample};
use server::{Blob, Link, Server};

/// What to measure, and where to put the results.
#[derive(Debug, Args)]
pub(crate) struct ReadBenchOptions {
    /// Rounds; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Reads of one process of a peer in another language
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    times: u32,
    /// Readers to measure; without it all that are installed
    #[arg(long, value_enum, value_delimiter = ',')]
    readers: Vec<Reader>,
    /// Objects to read; without it all
    #[arg(long, value_enum, value_delimiter = ',')]
    objects: Vec<Blob>,
    /// Links to read over; without it both
    #[arg(long, value_enum, value_delimiter = ',')]
    links: Vec<Link>,
    /// Folder for 1.4 GiB of objects; without it, one for temporary files that is on a disk
    #[arg(long)]
    dir: Option<PathBuf>,
    #[command(flatten)]
    publish: PublishOptions,
}

/// The requested values, or all of them.
fn chosen<T: ValueEnum + Copy>(asked: &[T]) -> Vec<T> {
    if asked.is_empty() { T::value_variants().to_vec() } else { asked.to_vec() }
}

/// Measures, and prints and writes the report.
pub(crate) fn run(options: &ReadBenchOptions) -> Result<()> {
    let readers = chosen(&options.readers);
    progress("finding and building the readers");
    let programs = Programs::build(&readers)?;
    for (name, reason) in &programs.missing {
        progress(&format!("{name} is left out: {reason}"));
    }
    let readers: Vec<Reader> = readers.into_iter().filter(|one| programs.has(*one)).collect();
    ensure!(!readers.is_empty(), "none of these readers is there");
    let folder = match &options.dir {
        Some(folder) => folder.clone(),
        None => disk_folder()?,
    };
    let scratch = TempDir::with_prefix_in("tidegate-bench.", &folder)
        .with_context(|| format!("creating a folder in {}", folder.display()))?;
    progress("making the objects");
    // The first byte is always measured with the smallest object.
    let server = Server::start(scratch.path(), Blob::value_variants())?;
    let blobs = chosen(&options.objects);
    let mut versions = vec![("nginx".to_owned(), server.version().to_owned())];
    versions.extend(programs.versions.iter().cloned());
    let mut report = Report {
        runs: options.runs,
        machine: Machine::read(),
        versions,
        missing: programs.missing.clone(),
        links: Vec::new(),
        first_byte: None,
        restarts: None,
    };
    for link in chosen(&options.links) {
        progress(link.title());
        let bench = Bench { link, server: &server, programs: &programs, options };
        report.links.push(bench.measure(&readers, &blobs)?);
    }
    if readers.iter().any(|reader| reader.origin() == Origin::Ours) {
        progress("the first byte");
        report.first_byte = Some(first_byte::measure(&programs, &server, options.runs)?);
        drop(server);
        // Last: its server holds an object in this process's memory, and a child's peak would begin
        // there.
        progress("restarts");
        report.restarts = Some(restarts::measure(&programs, options.runs)?);
    }
    options.publish.publish(&report, &report.to_markdown())
}

/// One link with its server and programs.
struct Bench<'a> {
    link: Link,
    server: &'a Server,
    programs: &'a Programs,
    options: &'a ReadBenchOptions,
}

impl Bench<'_> {
    fn measure(&self, readers: &[Reader], blobs: &[Blob]) -> Result<LinkReport> {
        let mut measured: Vec<(Reader, Blob, Vec<Sample>)> = Vec::new();
        for blob in blobs {
            measured.extend(readers.iter().map(|reader| (*reader, *blob, Vec::new())));
        }
        for round in 0..self.options.runs {
            for rows in measured.chunks_mut(readers.len()) {
                let first = round as usize % rows.len();
                let (head, tail) = rows.split_at_mut(first);
                for (reader, blob, samples) in tail.iter_mut().chain(head) {
                    samples.extend(self.read(*reader, *blob)?);
                }
            }
        }
        let rows = measured.into_iter().map(|(reader, blob, runs)| Row::new(reader, blob, runs));
        Ok(LinkReport { link: self.link, rows: rows.collect() })
    }

    fn read(&self, reader: Reader, blob: Blob) -> Result<Vec<Sample>> {
        let endpoint = self.server.endpoint(self.link);
        let samples = self.programs.read(reader, &endpoint, blob, self.options.times)?;
        if let Some(last) = samples.last() {
            progress(&format!(
                "  {:<32} {:<8} {:>8.4} s wall, {:>7.4} s CPU, {:>4} MiB",
                reader.label(),
                blob.label(),
                last.wall_s,
                last.cpu_s,
                last.rss_kib >> 10
            ));
        }
        Ok(samples)
    }
}
