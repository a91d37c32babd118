//! The results as tables.

use std::fmt::Write as _;

use serde::Serialize;

use super::SPARSE_MEMORY;
use super::case::{Link, Tool};
use super::goals::goals;
use crate::figures::{GIB, MIB, least, median, ratio, verdict};
use crate::machine::Machine;
use crate::measure::Usage;

/// All results, and the conditions of the measurement.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) size_bytes: u64,
    pub(super) runs: u32,
    pub(super) machine: Machine,
    /// Each tool and its version.
    pub(super) versions: Vec<(&'static str, String)>,
    pub(super) links: Vec<LinkReport>,
    pub(super) sparse: Option<Sparse>,
}

/// The upload of the sparse file.
#[derive(Debug, Serialize)]
pub(super) struct Sparse {
    pub(super) size_bytes: u64,
    pub(super) usage: Usage,
}

/// One link, with one row for each tool.
#[derive(Debug, Serialize)]
pub(super) struct LinkReport {
    pub(super) link: Link,
    pub(super) server: String,
    pub(super) rows: Vec<Row>,
}

/// One tool on one link.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) tool: Tool,
    pub(super) wall_s_median: f64,
    pub(super) wall_s_min: f64,
    /// The rate of the median run.
    pub(super) mib_per_s: f64,
    /// User and system time of the tool, not of the server; median.
    pub(super) cpu_s_per_gib: f64,
    /// The largest over the runs.
    pub(super) rss_mib_max: f64,
    pub(super) runs: Vec<Usage>,
}

impl LinkReport {
    pub(super) fn new(
        link: Link,
        server: String,
        size_bytes: u64,
        measured: Vec<(Tool, Vec<Usage>)>,
    ) -> Self {
        let rows = measured.into_iter().map(|(tool, runs)| Row::new(tool, size_bytes, runs));
        Self { link, server, rows: rows.collect() }
    }

    pub(super) fn row(&self, tool: Tool) -> Option<&Row> {
        self.rows.iter().find(|row| row.tool == tool)
    }

    /// The median wall time of the fastest peer.
    pub(super) fn fastest_peer_s(&self) -> Option<f64> {
        least(self.rows.iter().filter(|row| row.tool.is_peer()).map(|row| row.wall_s_median))
    }
}

impl Row {
    #[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52 bytes")]
    fn new(tool: Tool, size_bytes: u64, runs: Vec<Usage>) -> Self {
        let size = size_bytes as f64;
        let walls = || runs.iter().map(|run| run.wall_s);
        let wall_s_median = median(walls());
        let rss_kib_max = runs.iter().map(|run| run.rss_kib_max).max().unwrap_or(0);
        Self {
            tool,
            wall_s_median,
            wall_s_min: least(walls()).unwrap_or(f64::INFINITY),
            mib_per_s: size / MIB / wall_s_median,
            cpu_s_per_gib: median(runs.iter().map(|run| run.cpu_s)) / (size / GIB),
            rss_mib_max: rss_kib_max as f64 / 1024.0,
            runs,
        }
    }
}

impl Report {
    pub(super) fn link(&self, link: Link) -> Option<&LinkReport> {
        self.links.iter().find(|report| report.link == link)
    }

    /// For people.
    pub(super) fn to_markdown(&self) -> String {
        let (mib, runs, machine) = (self.size_bytes >> 20, self.runs, &self.machine);
        let mut text = format!("{mib} MiB, {runs} runs each, in turns; {machine}.\n");
        let versions: Vec<String> =
            self.versions.iter().map(|(tool, version)| format!("{tool} ({version})")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "Measured: {}.", versions.join(", "));
        for link in &self.links {
            link.write(&mut text);
        }
        if let Some(Sparse { size_bytes, usage }) = &self.sparse {
            let _ = writeln!(
                text,
                "\nA sparse file of {} GiB, --memory {SPARSE_MEMORY}: {} MiB resident, {:.1} s.",
                size_bytes >> 30,
                usage.rss_kib_max >> 10,
                usage.wall_s,
            );
        }
        text.push_str("\n### Against the goals\n\n| goal | figure | reached |\n|---|---|---|\n");
        for goal in goals(self) {
            let (figure, reached) = (ratio(goal.figure), verdict(goal.reached));
            let _ = writeln!(text, "| {} | {figure} | {reached} |", goal.text);
        }
        text
    }
}

impl LinkReport {
    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "\n### Upload, {}, to {}\n", self.link.title(), self.server);
        text.push_str("| tool | wall s, median (min) | MiB/s | CPU s/GiB | RSS MiB |\n");
        text.push_str("|---|---|---|---|---|\n");
        for row in &self.rows {
            let _ = writeln!(
                text,
                "| {} | {:.2} ({:.2}) | {:.0} | {:.2} | {:.0} |",
                row.tool.label(),
                row.wall_s_median,
                row.wall_s_min,
                row.mib_per_s,
                row.cpu_s_per_gib,
                row.rss_mib_max,
            );
        }
    }
}
