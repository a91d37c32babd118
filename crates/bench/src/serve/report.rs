//! The results as tables.

use std::fmt::Write as _;

use clap::ValueEnum as _;
use serde::Serialize;

use super::column::Column;
use super::contender::Contender;
use super::goals::goals;
use super::pressure::Pressure;
use super::startup::Start;
use super::workers::Sample;
use crate::figures::{median, ratio, verdict};
use crate::machine::Machine;

/// All results, and the conditions of the measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) runs: u32,
    pub(crate) machine: Machine,
    /// Contenders that were not measured, and why.
    pub(crate) left_out: Vec<String>,
    pub(crate) rows: Vec<Row>,
    pub(crate) startup: Vec<Start>,
    pub(crate) pressure: Vec<Pressure>,
}

/// One column of one contender in one run.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) contender: Contender,
    pub(crate) column: Column,
    pub(crate) sample: Sample,
}

impl Report {
    fn samples(&self, contender: Contender, column: Column) -> Vec<&Sample> {
        let rows = self.rows.iter();
        let rows = rows.filter(|row| row.contender == contender && row.column == column);
        rows.map(|row| &row.sample).collect()
    }

    /// The median of a figure over the runs.
    fn figure(
        &self,
        contender: Contender,
        column: Column,
        figure: fn(&Sample) -> f64,
    ) -> Option<f64> {
        let samples = self.samples(contender, column);
        (!samples.is_empty()).then(|| median(samples.into_iter().map(figure)))
    }

    /// MiB/s or operations a second.
    pub(crate) fn rate(&self, contender: Contender, column: Column) -> Option<f64> {
        let rate = if column.is_bytes() { Sample::mib_per_s } else { Sample::per_s };
        self.figure(contender, column, rate)
    }

    pub(crate) fn cpu_us(&self, contender: Contender, column: Column) -> Option<f64> {
        self.figure(contender, column, Sample::cpu_us)
    }

    /// For people.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = format!("{} runs each, in turns, median; {}.\n", self.runs, self.machine);
        for reason in &self.left_out {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "Left out: {reason}.");
        }
        if !self.rows.is_empty() {
            self.write_table(&mut text, "Rates", |one, column| {
                self.rate(one, column).map(|rate| format!("{rate:.0}"))
            });
            self.write_table(
                &mut text,
                "Server CPU: s/GiB, or us for an operation",
                |one, column| {
                    let cost =
                        if column.is_bytes() { Sample::cpu_s_per_gib } else { Sample::cpu_us };
                    let digits = if column.is_bytes() { 2 } else { 1 };
                    self.figure(one, column, cost).map(|cost| format!("{cost:.digits$}"))
                },
            );
            self.write_table(
                &mut text,
                "The load generator's part of the CPU, %",
                |one, column| {
                    let share = self.figure(one, column, Sample::client_share);
                    share.map(|share| format!("{:.0}", share * 100.0))
                },
            );
            self.write_table(&mut text, "p99 of a call, ms", |one, column| {
                let p99 = self.figure(one, column, |sample| sample.p99_ms);
                p99.map(|p99| format!("{p99:.2}"))
            });
            self.write_table(&mut text, "Peak memory since the start, MiB", |one, column| {
                let rss = self.samples(one, column).iter().map(|sample| sample.rss_kib_max).max();
                rss.map(|kib| format!("{}", kib >> 10))
            });
            self.write_goals(&mut text);
        }
        self.write_startup(&mut text);
        self.write_pressure(&mut text);
        text
    }

    fn write_table(
        &self,
        text: &mut String,
        title: &str,
        cell: impl Fn(Contender, Column) -> Option<String>,
    ) {
        let is_measured =
            |contender: &Contender| self.rows.iter().any(|row| row.contender == *contender);
        let contenders: Vec<Contender> =
            Contender::value_variants().iter().copied().filter(is_measured).collect();
        let _ = writeln!(text, "\n### {title}\n");
        let heads: Vec<&str> = contenders.iter().map(|one| one.label()).collect();
        let _ = writeln!(text, "| | {} |", heads.join(" | "));
        let _ = writeln!(text, "|---|{}", "---|".repeat(heads.len()));
        for column in Column::value_variants() {
            let cells: Vec<Option<String>> =
                contenders.iter().map(|one| cell(*one, *column)).collect();
            if cells.iter().all(Option::is_none) {
                continue;
            }
            let cells: Vec<String> =
                cells.into_iter().map(|one| one.unwrap_or_else(|| "-".to_owned())).collect();
            let _ = writeln!(text, "| {} | {} |", column.label(), cells.join(" | "));
        }
    }

    fn write_goals(&self, text: &mut String) {
        text.push_str(
            "\n### Against the goals, level `process`\n\n\
             | | goal there | scaled by casd | ours | ours : bare | reached |\n|---|---|---|---|---|---|\n",
        );
        let number = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"))
        };
        for goal in goals(self) {
            let _ = writeln!(
                text,
                "| {} | {:.0} | {} | {} | {} | {} |",
                goal.text,
                goal.there,
                number(goal.here),
                number(goal.ours),
                ratio(goal.to_bare),
                verdict(goal.reached)
            );
        }
    }

    fn write_startup(&self, text: &mut String) {
        if self.startup.is_empty() {
            return;
        }
        text.push_str(
            "\n### Start\n\n| entries | after | listens, ms | first answer, ms | memory, MiB | all \
             asked for, MiB |\n|---|---|---|---|---|---|\n",
        );
        for start in &self.startup {
            let _ = writeln!(
                text,
                "| {} | {} | {:.0} | {:.0} | {:.0} | {:.0} |",
                start.entries,
                start.after,
                start.listening_ms,
                start.answer_ms,
                start.rss_mib,
                start.rss_mib_loaded
            );
        }
    }

    fn write_pressure(&self, text: &mut String) {
        if self.pressure.is_empty() {
            return;
        }
        text.push_str(
            "\n### Reads while three times the limit is written, ms\n\n| | alone p50 / p99 | beside \
             writes p50 / p99 / max | misses | refused writes | written MiB/s | disk : limit |\n\
             |---|---|---|---|---|---|---|\n",
        );
        for one in &self.pressure {
            let _ = writeln!(
                text,
                "| {} | {:.2} / {:.2} | {:.2} / {:.2} / {:.0} | {} of {} | {} | {:.0} | {:.3} |",
                one.contender.label(),
                one.quiet_p50_ms,
                one.quiet_p99_ms,
                one.p50_ms,
                one.p99_ms,
                one.max_ms,
                one.misses,
                one.reads,
                one.refused_writes,
                one.write_mib_per_s,
                one.disk
            );
        }
    }
}
