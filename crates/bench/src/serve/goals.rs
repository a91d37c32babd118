//! The goals of the server, scaled from the machine on which they were set.
//!
//! A goal is a figure beside which buildbox-casd was measured. It is reached if ours, relative to casd
//! in this run, is at least as far above it; or if it is 0.9 of the bare program's.

use super::column::Column;
use super::contender::Contender;
use super::report::Report;

/// A goal, and casd's figure of the same machine.
struct Wanted {
    column: Column,
    goal: f64,
    casd: f64,
}

const fn wanted(column: Column, goal: f64, casd: f64) -> Wanted {
    Wanted { column, goal, casd }
}

/// 1.5 times the best of five caches; for single blobs of 4 KiB, 1.25 times the better of two.
const WANTED: [Wanted; 13] = [
    wanted(Column::Write1, 600.0, 253.0),
    wanted(Column::Read1, 1400.0, 639.0),
    wanted(Column::Write8, 600.0, 375.0),
    wanted(Column::Read8, 1400.0, 564.0),
    wanted(Column::SmallWrite8, 5_616.0, 4_493.0),
    wanted(Column::SmallRead8, 17_965.0, 7_157.0),
    wanted(Column::SmallWrite64, 6_220.0, 4_976.0),
    wanted(Column::SmallRead64, 24_810.0, 8_325.0),
    wanted(Column::BatchUpdate, 70_000.0, 22_312.0),
    wanted(Column::BatchRead, 135_000.0, 90_497.0),
    wanted(Column::FindMissing, 2_500.0, 778.0),
    wanted(Column::UpdateResult, 22_000.0, 4_499.0),
    wanted(Column::GetResult, 25_000.0, 8_334.0),
];

/// Processor time of an operation, in microseconds: at most half of bazel-remote's, and casd's.
const WANTED_CPU: [Wanted; 4] = [
    wanted(Column::SmallWrite8, 135.0, 320.0),
    wanted(Column::SmallRead8, 32.0, 165.0),
    wanted(Column::SmallWrite64, 105.0, 320.0),
    wanted(Column::SmallRead64, 25.0, 166.0),
];

/// One goal, and this run's figures.
pub(crate) struct Goal {
    pub(crate) text: String,
    /// On the machine on which it was set.
    pub(crate) there: f64,
    /// Scaled to this one; `None` without casd.
    pub(crate) here: Option<f64>,
    pub(crate) ours: Option<f64>,
    pub(crate) to_bare: Option<f64>,
    pub(crate) reached: Option<bool>,
}

/// All goals, for the level `process`.
pub(crate) fn goals(report: &Report) -> Vec<Goal> {
    let rates = WANTED.iter().map(|wanted| {
        let rate = |contender| report.rate(contender, wanted.column);
        let (ours, bare) = (rate(Contender::Tidegate), rate(Contender::Bare));
        let here = rate(Contender::Casd).map(|casd| wanted.goal * casd / wanted.casd);
        let to_bare = ours.zip(bare).map(|(ours, bare)| ours / bare);
        let above = ours.zip(here).map(|(ours, here)| ours >= here);
        let near = to_bare.map(|ratio| ratio >= 0.9);
        let text = wanted.column.label().to_owned();
        let reached = match (above, near) {
            (None, None) => None,
            (above, near) => Some(above == Some(true) || near == Some(true)),
        };
        Goal { text, there: wanted.goal, here, ours, to_bare, reached }
    });
    let costs = WANTED_CPU.iter().map(|wanted| {
        let cost = |contender| report.cpu_us(contender, wanted.column);
        let (ours, bare) = (cost(Contender::Tidegate), cost(Contender::Bare));
        let here = cost(Contender::Casd).map(|casd| wanted.goal * casd / wanted.casd);
        let text = format!("CPU us at most, {}", wanted.column.label());
        let to_bare = ours.zip(bare).map(|(ours, bare)| ours / bare);
        let reached = ours.zip(here).map(|(ours, here)| ours <= here);
        Goal { text, there: wanted.goal, here, ours, to_bare, reached }
    });
    rates.chain(costs).collect()
}
