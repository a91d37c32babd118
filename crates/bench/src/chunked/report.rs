//! The results as tables.

use std::fmt::Write as _;

use serde::Serialize;

use super::case::Case;
use super::figure::{CaseReport, Figure};
use super::goals::goals;
use crate::figures::{ratio, verdict};
use crate::machine::Machine;

/// All results, and the conditions of the measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) runs: u32,
    pub(crate) machine: Machine,
    pub(crate) digest: &'static str,
    pub(crate) cases: Vec<CaseReport>,
}

impl Report {
    pub(crate) fn case(&self, case: Case) -> Option<&CaseReport> {
        self.cases.iter().find(|report| report.case == case)
    }

    /// For people.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = format!(
            "{} runs each, in turns, median (best); {}; {}.\n",
            self.runs, self.digest, self.machine
        );
        for case in &self.cases {
            case.write(&mut text);
        }
        text.push_str("\n### Against the goals\n\n| goal | figure | reached |\n|---|---|---|\n");
        for goal in goals(self) {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} |",
                goal.text,
                ratio(goal.figure),
                verdict(goal.reached)
            );
        }
        text
    }
}

impl CaseReport {
    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "\n### {}, {} chunks\n", self.case.label(), self.chunks);
        text.push_str("| way | wall ms | CPU ms | held of the budget MiB | RSS MiB |\n");
        text.push_str("|---|---|---|---|---|\n");
        for row in &self.rows {
            row.write(text);
        }
        let Some(bounds) = self.bounds else { return };
        for (label, ms) in [
            ("bound: 16 in order, chunks only", bounds.in_order_16_ms),
            ("bound: 16 in any order, chunks only", bounds.any_order_16_ms),
            ("bound: 64 in any order, chunks only", bounds.any_order_64_ms),
            ("bound: one call, chunks only", bounds.one_call_ms),
        ] {
            let _ = writeln!(text, "| {label} | {ms:.1} | - | - | - |");
        }
        let (calls, ms) = (self.case.fixed_calls(), self.fixed_ms());
        let _ = writeln!(
            text,
            "\nBeside the chunks, {calls} calls whose latency ({ms:.0} ms on average) no window hides."
        );
    }
}

impl Figure {
    fn write(&self, text: &mut String) {
        let mib = |kib: Option<u64>| kib.map_or_else(|| "-".into(), |kib| format!("{}", kib >> 10));
        let _ = writeln!(
            text,
            "| {} | {:.1} ({:.1}) | {:.0} | {} | {} |",
            self.way.label(),
            self.wall_ms,
            self.wall_ms_min,
            self.cpu_ms,
            mib(self.held_bytes_max.map(|bytes| bytes >> 10)),
            mib(self.rss_kib_max),
        );
    }
}
