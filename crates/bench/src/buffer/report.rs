//! The results as tables: compared with Kraken's buffers and with a plain copy, the memory held,
//! and the goals.
//!
//! Ratios are speed-ups of ours, from medians; in brackets, from the best runs. If the two differ
//! much, the machine was busy.

use std::fmt::Write as _;

use serde::Serialize;

use super::condition::{Condition, Hint, Subject};
use super::figure::Figure;
use super::goals::goals;
use crate::figures::{least, verdict};
use crate::machine::Machine;

/// All conditions, and how they were measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) runs: u32,
    pub(crate) machine: Machine,
    /// Version of Go.
    pub(crate) go: Option<String>,
    pub(crate) kraken_missing: Option<String>,
    pub(crate) conditions: Vec<ConditionReport>,
}

/// One condition, with one row for each subject.
#[derive(Debug, Serialize)]
pub(crate) struct ConditionReport {
    pub(crate) condition: Condition,
    pub(crate) rows: Vec<Figure>,
}

/// How many times better one is than another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratios {
    pub(crate) wall: f64,
    pub(crate) wall_best: f64,
    pub(crate) cpu: f64,
    pub(crate) cpu_best: f64,
}

impl ConditionReport {
    /// The row of `subject`, if it ran.
    pub(crate) fn figure(&self, subject: Subject) -> Option<&Figure> {
        self.rows.iter().find(|row| row.subject == subject)
    }

    /// How many times better `subject` is than the best of Kraken's, for each figure separately.
    pub(crate) fn to_kraken(&self, subject: Subject) -> Option<Ratios> {
        let ours = self.figure(subject)?;
        let best = |figure: fn(&Figure) -> f64| {
            least(Subject::KRAKEN.into_iter().filter_map(|peer| self.figure(peer)).map(figure))
        };
        Some(Ratios {
            wall: best(|row| row.wall_ms)? / ours.wall_ms,
            wall_best: best(|row| row.wall_ms_min)? / ours.wall_ms_min,
            cpu: best(|row| row.cpu_ms)? / ours.cpu_ms,
            cpu_best: best(|row| row.cpu_ms_min)? / ours.cpu_ms_min,
        })
    }

    /// The copies to compare `subject` with: those into the same kind of memory.
    fn ceilings(subject: Subject) -> &'static [Subject] {
        match subject {
            Subject::Fresh => &[Subject::CopyFreshHuge, Subject::CopyFresh4k],
            Subject::Recycled => &[Subject::CopyReused],
            _ => &[],
        }
    }

    /// The rate of `subject` divided by that of the fastest plain copy into the same kind of
    /// memory, for the median operation and for the best one.
    pub(crate) fn to_ceiling(&self, subject: Subject) -> Option<(f64, f64)> {
        let ours = self.figure(subject)?;
        let best = |figure: fn(&Figure) -> Option<f64>| {
            least(Self::ceilings(subject).iter().filter_map(|copy| figure(self.figure(*copy)?)))
        };
        let median = best(|row| row.single_ms)? / ours.single_ms?;
        Some((median, best(|row| row.single_ms_min)? / ours.single_ms_min?))
    }
}

impl Report {
    /// The same condition with the whole hint.
    pub(crate) fn hinted_whole(&self, condition: Condition) -> Option<&ConditionReport> {
        let wanted = Condition { hint: Hint::Whole, ..condition };
        self.conditions.iter().find(|row| row.condition == wanted)
    }

    /// Four tables.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "{} runs each, in turns; {}.", self.runs, self.machine);
        if let Some(version) = &self.go {
            let _ = writeln!(text, "Measured: Kraken's buffers with {version}.");
        }
        if let Some(reason) = &self.kraken_missing {
            let _ = writeln!(text, "Kraken's buffers are left out: {reason}");
        }
        self.write_beside_kraken(&mut text);
        self.write_ceilings(&mut text);
        self.write_held(&mut text);
        self.write_goals(&mut text);
        text
    }

    fn write_beside_kraken(&self, text: &mut String) {
        text.push_str(
            "\n### Beside Kraken's buffers\n\n\
             | hint | shards | calls | Kraken before | after | after, doubling | ours, recycled \
             | ours, fresh | recycled: wall | CPU | fresh: wall | CPU |\n\
             |---|---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for row in self.conditions.iter().filter(|row| row.condition.is_krakens()) {
            let at = row.condition;
            let _ = write!(text, "| {} | {} | {} ", at.hint_label(), at.shards, at.call_label());
            for subject in Subject::KRAKEN.into_iter().chain([Subject::Recycled, Subject::Fresh]) {
                let _ = write!(text, "| {} ", wall_and_cpu(row.figure(subject)));
            }
            for subject in [Subject::Recycled, Subject::Fresh] {
                let ratios = row.to_kraken(subject);
                let _ = write!(text, "| {} ", times(ratios.map(|r| (r.wall, r.wall_best))));
                let _ = write!(text, "| {} ", times(ratios.map(|r| (r.cpu, r.cpu_best))));
            }
            text.push_str("|\n");
        }
    }

    fn write_ceilings(&self, text: &mut String) {
        text.push_str(
            "\n### Beside a plain copy, whole hint\n\n\
             | shards | calls | threads | recycled GiB/s | copy, reused | rate : copy \
             | fresh GiB/s | copy, fresh huge | copy, fresh 4 KiB | rate : copy |\n\
             |---|---|---|---|---|---|---|---|---|---|\n",
        );
        for row in self.conditions.iter().filter(|row| row.condition.is_hinted_whole()) {
            let at = row.condition;
            let blob = row.figure(Subject::Fresh).and_then(|row| row.largest(|run| run.blob_bytes));
            let rate = |subject| rate(blob, row.figure(subject));
            let share = |subject| shares(row.to_ceiling(subject));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                at.shards,
                at.call_label(),
                at.threads,
                rate(Subject::Recycled),
                rate(Subject::CopyReused),
                share(Subject::Recycled),
                rate(Subject::Fresh),
                rate(Subject::CopyFreshHuge),
                rate(Subject::CopyFresh4k),
                share(Subject::Fresh),
            );
        }
    }

    fn write_held(&self, text: &mut String) {
        text.push_str(
            "\n### What is held, MiB\n\n\
             | hint | shards | calls | blob | ours: committed | resident | lock waits \
             | Kraken before: allocated | after | after, doubling |\n\
             |---|---|---|---|---|---|---|---|---|---|\n",
        );
        for row in self.conditions.iter().filter(|row| row.condition.is_krakens()) {
            let at = row.condition;
            let Some(fresh) = row.figure(Subject::Fresh) else { continue };
            let waits = [Subject::Fresh, Subject::Recycled].into_iter();
            let waits = waits.filter_map(|s| row.figure(s)?.largest(|run| run.lock_waits)).max();
            let _ = write!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} ",
                at.hint_label(),
                at.shards,
                at.call_label(),
                mib(fresh.largest(|run| run.blob_bytes)),
                mib(fresh.largest(|run| run.committed_bytes)),
                mib(fresh.largest(|run| run.resident_bytes)),
                waits.map_or_else(|| "-".into(), |waits| waits.to_string()),
            );
            for peer in Subject::KRAKEN {
                let allocated = row.figure(peer).and_then(|row| row.largest(|r| r.committed_bytes));
                let _ = write!(text, "| {} ", mib(allocated));
            }
            text.push_str("|\n");
        }
    }

    fn write_goals(&self, text: &mut String) {
        text.push_str("\n### Against the goals\n\n| goal | worst case | where | reached |\n");
        text.push_str("|---|---|---|---|\n");
        for goal in goals(self) {
            let worst = crate::figures::ratio(goal.worst);
            let place = goal.condition.as_deref().unwrap_or("-");
            let _ =
                writeln!(text, "| {} | {worst} | {place} | {} |", goal.text, verdict(goal.reached));
        }
    }
}

fn wall_and_cpu(figure: Option<&Figure>) -> String {
    figure.map_or_else(|| "-".into(), |row| format!("{:.2} ({:.2})", row.wall_ms, row.cpu_ms))
}

fn times(ratios: Option<(f64, f64)>) -> String {
    ratios.map_or_else(|| "-".into(), |(median, best)| format!("{median:.1} ({best:.1})"))
}

fn shares(ratios: Option<(f64, f64)>) -> String {
    ratios.map_or_else(|| "-".into(), |(median, best)| format!("{median:.2} ({best:.2})"))
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52 bytes")]
fn rate(blob: Option<u64>, figure: Option<&Figure>) -> String {
    let rate = blob
        .zip(figure)
        .map(|(bytes, row)| bytes as f64 / (row.single_ms.unwrap_or(row.wall_ms) / 1e3));
    rate.map_or_else(|| "-".into(), |rate| format!("{:.1}", rate / crate::figures::GIB))
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52 bytes")]
fn mib(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".into(), |bytes| format!("{:.1}", bytes as f64 / crate::figures::MIB))
}
