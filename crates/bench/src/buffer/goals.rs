//! The goals of the buffer, and whether this run reached them.
//!
//! Each goal is judged by its worst case over all its conditions, by medians.

use super::condition::{Call, Condition, Hint, Subject};
use super::report::{ConditionReport, Ratios, Report};

/// One huge page in addition to the requested size.
const HUGE_PAGE_BYTES: f64 = 2_097_152.0;

/// One goal, and this run's figure.
pub(crate) struct Goal {
    pub(crate) text: &'static str,
    /// The worst figure; `None` if it was not measured.
    pub(crate) worst: Option<f64>,
    /// The condition of the worst figure.
    pub(crate) condition: Option<String>,
    pub(crate) reached: Option<bool>,
}

impl Goal {
    /// A goal with a lower bound.
    fn at_least(text: &'static str, bound: f64, figures: Vec<(f64, Condition)>) -> Self {
        let worst = figures.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        Self::judge(text, worst, |figure| figure >= bound)
    }

    /// A goal with an upper bound.
    fn at_most(text: &'static str, bound: f64, figures: Vec<(f64, Condition)>) -> Self {
        let worst = figures.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        Self::judge(text, worst, |figure| figure <= bound)
    }

    fn judge(
        text: &'static str,
        worst: Option<(f64, Condition)>,
        reached: impl Fn(f64) -> bool,
    ) -> Self {
        let condition = worst.map(|(_, at)| {
            let Condition { shards, threads, .. } = at;
            format!("{} hint, {shards}, {}, {threads} threads", at.hint_label(), at.call_label())
        });
        let worst = worst.map(|(figure, _)| figure);
        Self { text, worst, condition, reached: worst.map(reached) }
    }
}

/// All goals of the buffer.
pub(crate) fn goals(report: &Report) -> Vec<Goal> {
    let mut goals = beside_kraken(report);
    goals.extend(beside_itself(report));
    goals.extend(beside_copies(report));
    goals
}

/// The values of `figure` under all conditions that have one.
fn collect(
    report: &Report,
    figure: impl Fn(&ConditionReport) -> Option<f64>,
) -> Vec<(f64, Condition)> {
    let found = report.conditions.iter();
    found.filter_map(|row| Some((figure(row)?, row.condition))).collect()
}

fn beside_kraken(report: &Report) -> Vec<Goal> {
    let against = |subject: Subject, figure: fn(Ratios) -> f64| {
        collect(report, |row| {
            row.to_kraken(subject).filter(|_| row.condition.is_hinted_whole()).map(figure)
        })
    };
    vec![
        Goal::at_least(
            "recycled, whole hint: wall of Kraken's best over ours, at least 4",
            4.0,
            against(Subject::Recycled, |ratios| ratios.wall),
        ),
        Goal::at_least(
            "recycled, whole hint: CPU of Kraken's best over ours, at least 4",
            4.0,
            against(Subject::Recycled, |ratios| ratios.cpu),
        ),
        Goal::at_least(
            "fresh, whole hint: wall of Kraken's best over ours, at least 1.3",
            1.3,
            against(Subject::Fresh, |ratios| ratios.wall),
        ),
        Goal::at_least(
            "fresh, whole hint: CPU of Kraken's best over ours, at least 1.3",
            1.3,
            against(Subject::Fresh, |ratios| ratios.cpu),
        ),
    ]
}

fn beside_itself(report: &Report) -> Vec<Goal> {
    let grown = |subject: Subject| {
        collect(report, |row| {
            let at = row.condition;
            let wrong = at.hint != Hint::Whole && at.call == Call::Small;
            let right = report.hinted_whole(at)?.figure(subject)?.wall_ms;
            wrong.then_some(row.figure(subject)?.wall_ms / right)
        })
    };
    let held = |row: &ConditionReport| {
        let figure = row.figure(Subject::Fresh)?;
        let blob = as_f64(figure.largest(|run| run.blob_bytes)?);
        let committed = as_f64(figure.largest(|run| run.committed_bytes)?);
        let resident = as_f64(figure.largest(|run| run.resident_bytes)?);
        Some((committed.max(resident) - HUGE_PAGE_BYTES) / blob)
    };
    let waits = |row: &ConditionReport| {
        let of = |subject| row.figure(subject)?.largest(|run| run.lock_waits);
        Some(as_f64(of(Subject::Fresh)?.max(of(Subject::Recycled)?)))
    };
    vec![
        Goal::at_most(
            "recycled, half or no hint, 32 KiB calls: wall over that with the whole, at most 1.1",
            1.1,
            grown(Subject::Recycled),
        ),
        Goal::at_most(
            "fresh, half or no hint, 32 KiB calls: wall over that with the whole, at most 1.1",
            1.1,
            grown(Subject::Fresh),
        ),
        Goal::at_most(
            "fresh: memory held, less one huge page, over the blob, at most 1.05",
            1.05,
            collect(report, held),
        ),
        Goal::at_most("waits for a lock while writing, 0", 0.0, collect(report, waits)),
    ]
}

fn beside_copies(report: &Report) -> Vec<Goal> {
    let rate = |subject: Subject, threads: u32| {
        collect(report, |row| {
            let (median, _best) = row.to_ceiling(subject)?;
            (row.condition.threads == threads).then_some(median)
        })
    };
    vec![
        Goal::at_least(
            "recycled, one thread: rate over that of a plain copy, at least 0.8",
            0.8,
            rate(Subject::Recycled, 1),
        ),
        Goal::at_least(
            "recycled, two threads: rate over that of a plain copy, at least 0.8",
            0.8,
            rate(Subject::Recycled, 2),
        ),
        Goal::at_least(
            "fresh, one thread: rate over that of a plain copy, at least 0.8",
            0.8,
            rate(Subject::Fresh, 1),
        ),
        Goal::at_least(
            "fresh, two threads: rate over that of a plain copy, at least 0.8",
            0.8,
            rate(Subject::Fresh, 2),
        ),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52 bytes")]
fn as_f64(number: u64) -> f64 {
    number as f64
}
