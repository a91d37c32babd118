//! The results, as JSON for programs and as Markdown for people.
//!
//! Figures are medians over the runs, next to the best run, and ratios to the best peer of the same
//! case. Absolute figures cannot be compared between machines or hours.

use std::fmt::Write as _;

use serde::Serialize;

use super::case::Case;
use super::tools::{Role, Tool};
use crate::figures::{GIB, MIB, median, ratio};
use crate::machine::Machine;
use crate::measure::Usage;

/// All cases, and the conditions of the measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Length of the object.
    pub(crate) size_bytes: u64,
    /// Runs of each tool in each case.
    pub(crate) runs: u32,
    pub(crate) machine: Machine,
    /// Program and version.
    pub(crate) versions: Vec<(String, String)>,
    /// Requested tools that were not found.
    pub(crate) not_installed: Vec<&'static str>,
    pub(crate) cases: Vec<CaseReport>,
}

/// One case, with one row for each tool.
#[derive(Debug, Serialize)]
pub(crate) struct CaseReport {
    pub(crate) case: Case,
    pub(crate) rows: Vec<Row>,
    /// Tools without a row, and why.
    pub(crate) left_out: Vec<(Tool, &'static str)>,
}

/// One tool in one case.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) tool: Tool,
    pub(crate) role: Role,
    pub(crate) wall_s_median: f64,
    pub(crate) wall_s_min: f64,
    /// The rate of the median run.
    pub(crate) mib_per_s: f64,
    /// User and system time of the tool, not of the server; median.
    pub(crate) cpu_s_per_gib: f64,
    /// The largest over the runs.
    pub(crate) rss_mib_max: f64,
    /// Median wall time divided by that of the fastest peer: below 1 is faster.
    pub(crate) wall_to_best_peer: Option<f64>,
    /// Processor time divided by that of the peer that uses least: below 1 is less.
    pub(crate) cpu_to_best_peer: Option<f64>,
    /// Throughput divided by that of the reference.
    pub(crate) rate_to_reference: Option<f64>,
    pub(crate) runs: Vec<Usage>,
}

impl CaseReport {
    /// Summarises the runs of every tool of one case.
    pub(crate) fn new(
        case: Case,
        size_bytes: u64,
        measured: Vec<(Tool, Vec<Usage>)>,
        left_out: Vec<(Tool, &'static str)>,
    ) -> Self {
        let mut rows: Vec<Row> = measured
            .into_iter()
            .filter(|(_, runs)| !runs.is_empty())
            .map(|(tool, runs)| Row::new(tool, size_bytes, runs))
            .collect();
        let least = |role: Role, figure: fn(&Row) -> f64| {
            rows.iter().filter(|row| row.role == role).map(figure).min_by(f64::total_cmp)
        };
        let best_wall_s = least(Role::Peer, |row| row.wall_s_median);
        let best_cpu = least(Role::Peer, |row| row.cpu_s_per_gib);
        let reference_wall_s = least(Role::Reference, |row| row.wall_s_median);
        for row in &mut rows {
            row.wall_to_best_peer = best_wall_s.map(|best| row.wall_s_median / best);
            row.cpu_to_best_peer = best_cpu.map(|best| row.cpu_s_per_gib / best);
            row.rate_to_reference = reference_wall_s.map(|wall_s| wall_s / row.wall_s_median);
        }
        Self { case, rows, left_out }
    }
}

impl Row {
    #[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52 bytes")]
    fn new(tool: Tool, size_bytes: u64, runs: Vec<Usage>) -> Self {
        let size = size_bytes as f64;
        let wall_s_median = median(runs.iter().map(|run| run.wall_s));
        let rss_kib_max = runs.iter().map(|run| run.rss_kib_max).max().unwrap_or(0);
        Self {
            tool,
            role: tool.role(),
            wall_s_median,
            wall_s_min: runs.iter().map(|run| run.wall_s).fold(f64::INFINITY, f64::min),
            mib_per_s: size / MIB / wall_s_median,
            cpu_s_per_gib: median(runs.iter().map(|run| run.cpu_s)) / (size / GIB),
            rss_mib_max: rss_kib_max as f64 / 1024.0,
            wall_to_best_peer: None,
            cpu_to_best_peer: None,
            rate_to_reference: None,
            runs,
        }
    }
}

impl Report {
    /// A heading and a table for each case.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} MiB, {} runs each, in turns; {}.",
            self.size_bytes / 1_048_576,
            self.runs,
            self.machine,
        );
        let versions: Vec<String> = self
            .versions
            .iter()
            .map(|(program, version)| format!("{program} ({version})"))
            .collect();
        let _ = writeln!(text, "Measured: {}.", versions.join(", "));
        if !self.not_installed.is_empty() {
            let _ = writeln!(text, "Not installed: {}.", self.not_installed.join(", "));
        }
        for case in &self.cases {
            case.write_markdown(&mut text);
        }
        text
    }
}

impl CaseReport {
    fn write_markdown(&self, text: &mut String) {
        let _ = writeln!(text, "\n### {}\n", self.case.title());
        text.push_str(
            "| tool | wall s, median (min) | MiB/s | CPU s/GiB | RSS MiB \
             | wall : best peer | CPU : best peer | rate : reference |\n\
             |---|---|---|---|---|---|---|---|\n",
        );
        for row in &self.rows {
            let _ = writeln!(
                text,
                "| {} | {:.2} ({:.2}) | {:.0} | {:.2} | {:.0} | {} | {} | {} |",
                row.tool.label(),
                row.wall_s_median,
                row.wall_s_min,
                row.mib_per_s,
                row.cpu_s_per_gib,
                row.rss_mib_max,
                ratio(row.wall_to_best_peer),
                ratio(row.cpu_to_best_peer),
                ratio(row.rate_to_reference),
            );
        }
        // A reference that belongs to another case is not worth a line.
        let peers = self.left_out.iter().filter(|(tool, _)| tool.role() != Role::Reference);
        for (index, (tool, reason)) in peers.enumerate() {
            let _ = writeln!(
                text,
                "{}{} is left out: {reason}.",
                if index == 0 { "\n" } else { "" },
                tool.label()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(wall_s: f64, cpu_s: f64) -> Usage {
        Usage { wall_s, cpu_s, rss_kib_max: 10 * 1024 }
    }

    fn report() -> Report {
        let measured = vec![
            (Tool::Tidegate, vec![usage(3.0, 2.0), usage(1.0, 1.0), usage(2.0, 1.5)]),
            (Tool::Curl, vec![usage(4.0, 3.0)]),
            (Tool::S5cmd, vec![usage(8.0, 2.0)]),
            (Tool::Cp, vec![usage(1.0, 0.5)]),
            (Tool::Rclone, vec![]),
        ];
        let left_out = vec![(Tool::Aria2c, "it was not asked"), (Tool::CurlX32, "elsewhere")];
        Report {
            size_bytes: 1 << 31,
            runs: 3,
            machine: Machine { cores: 2, processor: "Some CPU".into(), kernel: "6.18".into() },
            versions: vec![("curl".into(), "curl 8".into())],
            not_installed: vec!["rclone"],
            cases: vec![CaseReport::new(Case::Disk, 1 << 31, measured, left_out)],
        }
    }

    #[test]
    fn the_table_compares_with_the_best_peer_and_the_reference() {
        let text = report().to_markdown();
        // Fastest peer: curl with 4 s; least processor time: s5cmd with 1 s/GiB; reference: cp with
        // 1 s.
        for line in [
            "| tidegate | 2.00 (1.00) | 1024 | 0.75 | 10 | 0.50 | 0.75 | 0.50 |",
            "| curl | 4.00 (4.00) | 512 | 1.50 | 10 | 1.00 | 1.50 | 0.25 |",
            "| s5cmd | 8.00 (8.00) | 256 | 1.00 | 10 | 2.00 | 1.00 | 0.12 |",
            "| cp of the local file | 1.00 (1.00) | 2048 | 0.25 | 10 | 0.25 | 0.25 | 1.00 |",
            "aria2c -x8 is left out: it was not asked.",
            "Not installed: rclone.",
        ] {
            assert!(text.lines().any(|actual| actual == line), "no line {line:?} in:\n{text}");
        }
        assert!(!text.contains("32 curls") && !text.contains("| rclone"), "{text}");
    }

    #[test]
    fn without_a_peer_there_is_no_ratio() {
        let alone = vec![(Tool::Tidegate, vec![usage(2.0, 1.0)])];
        let case = CaseReport::new(Case::Null, 1 << 30, alone, vec![]);
        let mut text = String::new();
        case.write_markdown(&mut text);
        assert!(text.contains("| 512 | 1.00 | 10 | - | - | - |"), "{text}");
    }

    #[test]
    fn json_holds_every_run() {
        let json = serde_json::to_value(report()).unwrap();
        let row = &json["cases"][0]["rows"][0];
        assert_eq!(json["cases"][0]["case"], "disk");
        assert_eq!(row["tool"], "tidegate");
        assert_eq!(row["role"], "ours");
        assert_eq!(row["runs"].as_array().unwrap().len(), 3);
        assert_eq!(row["wall_s_median"], 2.0);
    }
}
