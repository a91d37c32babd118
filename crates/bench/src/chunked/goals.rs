//! The goals of chunked transfers, and whether this run reached them, by medians.

use super::case::{Case, Way};
use super::figure::Figure;
use super::report::Report;

/// One goal, and this run's figure.
pub(crate) struct Goal {
    pub(crate) text: String,
    /// `None` if it was not measured.
    pub(crate) figure: Option<f64>,
    pub(crate) reached: Option<bool>,
}

impl Goal {
    fn at_most(text: impl Into<String>, bound: f64, figure: Option<f64>) -> Self {
        Self { text: text.into(), figure, reached: figure.map(|figure| figure <= bound) }
    }

    fn at_least(text: impl Into<String>, bound: f64, figure: Option<f64>) -> Self {
        Self { text: text.into(), figure, reached: figure.map(|figure| figure >= bound) }
    }
}

/// Peak memory that a transfer may hold.
const HELD_MIB_MAX: f64 = 64.0;

/// All goals.
pub(crate) fn goals(report: &Report) -> Vec<Goal> {
    let wall = |case: Case, way: Way| Some(report.case(case)?.row(way)?.wall_ms);
    let small = |case: Case| Some(wall(case, Way::Adaptive)? - report.case(case)?.fixed_ms());
    let down = |against: Option<f64>| Some(wall(Case::LargeDown, Way::Adaptive)? / against?);
    let bounds = report.case(Case::LargeDown).and_then(|case| case.bounds);
    let up = |way: Way| Some(wall(Case::LargeUp, Way::Bazel)? / wall(Case::LargeUp, way)?);
    let plain = |case: Case| Some(wall(case, Way::Whole)? / wall(case, Way::Adaptive)?);
    vec![
        Goal::at_most(
            "32 x 1 KiB down, less the latency of Split, at most 40 ms",
            40.0,
            small(Case::SmallDown),
        ),
        Goal::at_most(
            "32 KiB up, less the latency of FindMissing and Splice, at most 40 ms",
            40.0,
            small(Case::SmallUp),
        ),
        Goal::at_most(
            "512 x 1 MiB down: wall over the bound of 64 in any order, at most 1.3",
            1.3,
            down(bounds.map(|bounds| bounds.any_order_64_ms)),
        ),
        Goal::at_most(
            "512 x 1 MiB down: wall over that of bare calls, 64 in any order, at most 1.3",
            1.3,
            down(wall(Case::LargeDown, Way::Bare64)),
        ),
        Goal::at_least(
            "512 MiB up: wall of Bazel's over ours, at least 2.5",
            2.5,
            up(Way::Adaptive),
        ),
        Goal::at_most(
            "peak memory held of the budget, MiB, at most 64",
            HELD_MIB_MAX,
            largest(report, |row| row.held_bytes_max.map(|bytes| bytes >> 10)),
        ),
        Goal::at_most(
            "peak resident set, MiB, at most 64",
            HELD_MIB_MAX,
            largest(report, |row| row.rss_kib_max),
        ),
        Goal::at_least(
            "512 MiB down, no latency: rate over that of the whole blob, at least 0.8",
            0.8,
            plain(Case::PlainDown),
        ),
        Goal::at_least(
            "512 MiB up, no latency: rate over that of the whole blob, at least 0.8",
            0.8,
            plain(Case::PlainUp),
        ),
    ]
}

/// The largest of our figures over all cases, in MiB from KiB.
fn largest(report: &Report, of: impl Fn(&Figure) -> Option<u64>) -> Option<f64> {
    let rows = report.cases.iter().flat_map(|case| &case.rows);
    let largest = rows.filter(|row| row.way.is_ours()).filter_map(of).max()?;
    Some(f64::from(u32::try_from(largest).unwrap_or(u32::MAX)) / 1024.0)
}
