//! The goals of one stream, and whether this run reached them.
//!
//! They are judged by medians, and by the worst link and object of each goal. Our reader here is
//! the verified stream of frames, as an engine would pass it on.

use super::reader::Reader;
use super::report::{Report, Row};
use super::server::Blob;

/// The objects that are large enough for a rate.
const LARGE: [Blob; 3] = [Blob::O64m, Blob::O256m, Blob::O1g];

/// One goal, and this run's figure.
pub(crate) struct Goal {
    pub(crate) text: &'static str,
    pub(crate) figure: Option<String>,
    pub(crate) reached: Option<bool>,
}

impl Goal {
    fn at_least(text: &'static str, bound: f64, figures: Vec<f64>) -> Self {
        let worst = figures.into_iter().min_by(f64::total_cmp);
        Self::judge(text, worst, |worst| worst >= bound)
    }

    fn at_most(text: &'static str, bound: f64, figures: Vec<f64>) -> Self {
        let worst = figures.into_iter().max_by(f64::total_cmp);
        Self::judge(text, worst, |worst| worst <= bound)
    }

    fn judge(text: &'static str, worst: Option<f64>, reached: impl Fn(f64) -> bool) -> Self {
        let figure = worst.map(|worst| format!("{worst:.2}"));
        Self { text, figure, reached: worst.map(reached) }
    }
}

/// All goals of one stream.
pub(crate) fn goals(report: &Report) -> Vec<Goal> {
    let against = |peer: Reader, blobs: &[Blob], figure: fn(&Row) -> f64| {
        let mut ratios = Vec::new();
        for link in &report.links {
            for blob in blobs {
                let ours = link.row(Reader::Frames, *blob);
                if let Some((ours, peer)) = ours.zip(link.row(peer, *blob)) {
                    ratios.push(figure(ours) / figure(peer));
                }
            }
        }
        ratios
    };
    // For less than a GiB, processor time is too short for the kernel's clock ticks.
    let largest = [Blob::O1g];
    let first_byte = report.first_byte.as_ref().and_then(|found| {
        let (ours, _) = found.ours.first_byte();
        Some(ours / found.curl.as_ref()?.first_byte().0)
    });
    let restarts = report.restarts.as_ref().map(super::restarts::Restarts::overhead);
    vec![
        Goal::at_least(
            "rate over curl's, 64 MiB and up, at least 1",
            1.0,
            against(Reader::Curl, &LARGE, |row| row.mib_per_s),
        ),
        Goal::at_most(
            "CPU over curl's, 1 GiB, at most 1",
            1.0,
            against(Reader::Curl, &largest, |row| row.cpu_s_per_gib),
        ),
        Goal::at_most(
            "CPU over that of Java's current reader, 1 GiB, at most 0.6",
            0.6,
            against(Reader::JavaCurrent, &largest, |row| row.cpu_s_per_gib),
        ),
        Goal::at_most(
            "memory over that of Java's current reader, 1 GiB, at most 0.33",
            1.0 / 3.0,
            against(Reader::JavaCurrent, &largest, |row| row.rss_mib_max),
        ),
        Goal::at_most(
            "first byte of the answer, 256 KiB, warm connection, over curl's, at most 1",
            1.0,
            first_byte.into_iter().collect(),
        ),
        Goal::at_most(
            "a cut every MiB over latency alone, at most 0.1 more",
            0.1,
            restarts.into_iter().collect(),
        ),
    ]
}
