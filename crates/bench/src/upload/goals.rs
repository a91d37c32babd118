//! The goals of uploads, and whether this run reached them, by medians.

use super::case::{Link, Tool};
use super::report::{LinkReport, Report};

/// One goal, and this run's figure.
pub(super) struct Goal {
    pub(super) text: &'static str,
    /// `None` if it was not measured.
    pub(super) figure: Option<f64>,
    pub(super) reached: Option<bool>,
}

impl Goal {
    fn at_most(text: &'static str, bound: f64, figure: Option<f64>) -> Self {
        Self { text, figure, reached: figure.map(|figure| figure <= bound) }
    }

    fn at_least(text: &'static str, bound: f64, figure: Option<f64>) -> Self {
        Self { text, figure, reached: figure.map(|figure| figure >= bound) }
    }
}

/// All goals. A goal about several links is judged by the worst one.
pub(super) fn goals(report: &Report) -> Vec<Goal> {
    let cpu = report.link(Link::Plain).and_then(|link| {
        let of = |tool| Some(link.row(tool)?.cpu_s_per_gib);
        Some(of(Tool::Tidegate)? / of(Tool::S5cmd)?)
    });
    let wall =
        |link: &LinkReport| Some(link.row(Tool::Tidegate)?.wall_s_median / link.fastest_peer_s()?);
    let rate = |link: &LinkReport| {
        let of = |tool| Some(link.row(tool)?.mib_per_s);
        Some(of(Tool::Tidegate)? / of(Tool::CurlX32)?)
    };
    let wall = report.links.iter().filter_map(wall).max_by(f64::total_cmp);
    let rate = report.links.iter().filter_map(rate).min_by(f64::total_cmp);
    let ours = report.links.iter().filter_map(|link| link.row(Tool::Tidegate));
    let sparse = report.sparse.iter().flat_map(|sparse| u32::try_from(sparse.usage.rss_kib_max));
    let resident = ours.map(|row| row.rss_mib_max).chain(sparse.map(|kib| f64::from(kib) / 1024.0));
    vec![
        Goal::at_most("loopback: CPU over that of s5cmd, at most 0.5", 0.5, cpu),
        Goal::at_most("every link: wall over that of the fastest peer, at most 1", 1.0, wall),
        Goal::at_most(
            "every link and the sparse file: resident MiB, at most 96",
            96.0,
            resident.max_by(f64::total_cmp),
        ),
        Goal::at_least("latency: rate over that of 32 curls, at least 0.8", 0.8, rate),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::measure::Usage;
    use crate::upload::report::Sparse;

    fn row(tool: Tool, wall_s: f64, cpu_s: f64) -> (Tool, Vec<Usage>) {
        (tool, vec![Usage { wall_s, cpu_s, rss_kib_max: 50 << 10 }])
    }

    #[test]
    fn the_worst_link_counts() {
        let plain = vec![row(Tool::Tidegate, 1.0, 1.0), row(Tool::S5cmd, 2.0, 4.0)];
        let capped = vec![
            row(Tool::Tidegate, 3.0, 1.0),
            row(Tool::S5cmd, 2.0, 1.0),
            row(Tool::CurlX32, 1.5, 1.0),
        ];
        let usage = Usage { wall_s: 9.0, cpu_s: 9.0, rss_kib_max: 97 << 10 };
        let report = Report {
            size_bytes: 1 << 30,
            runs: 1,
            machine: Machine { cores: 2, processor: "Some CPU".into(), kernel: "6.18".into() },
            versions: Vec::new(),
            links: vec![
                LinkReport::new(Link::Plain, "one".into(), 1 << 30, plain),
                LinkReport::new(Link::Capped, "other".into(), 1 << 30, capped),
            ],
            sparse: Some(Sparse { size_bytes: 20 << 30, usage }),
        };
        let found: Vec<_> = goals(&report).iter().map(|goal| (goal.figure, goal.reached)).collect();
        assert_eq!(
            found,
            [
                (Some(0.25), Some(true)),
                (Some(1.5), Some(false)),
                (Some(97.0), Some(false)),
                (Some(0.5), Some(false)),
            ]
        );
        let text = report.to_markdown();
        assert!(text.contains("| tidegate, verified | 1.00 (1.00) | 1024 | 1.00 | 50 |"), "{text}");
        assert!(text.contains("20 GiB, --memory 128MiB: 97 MiB resident"), "{text}");
    }
}
