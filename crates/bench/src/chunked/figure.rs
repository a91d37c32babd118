//! The summary of the runs of one case, and the computed bounds.

use serde::Serialize;

use super::bounds::{any_order_ms, in_order_ms};
use super::case::{Case, Way};
use super::once::ChunkedOnce;
use crate::figures::{least, median};

/// One way, over all runs.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) way: Way,
    pub(crate) wall_ms: f64,
    pub(crate) wall_ms_min: f64,
    pub(crate) cpu_ms: f64,
    /// Bytes held of the budget; the largest over the runs.
    pub(crate) held_bytes_max: Option<u64>,
    /// Peak memory of the process; the largest over the runs.
    pub(crate) rss_kib_max: Option<u64>,
    pub(crate) runs: Vec<ChunkedOnce>,
}

impl Figure {
    pub(crate) fn new(way: Way, runs: Vec<ChunkedOnce>) -> Self {
        let wall = || runs.iter().map(|run| run.wall_s * 1e3);
        Self {
            way,
            wall_ms: median(wall()),
            wall_ms_min: least(wall()).unwrap_or_default(),
            cpu_ms: median(runs.iter().map(|run| run.cpu_s * 1e3)),
            held_bytes_max: runs.iter().filter_map(|run| run.held_bytes_peak).max(),
            rss_kib_max: runs.iter().filter_map(|run| run.rss_kib).max(),
            runs,
        }
    }
}

/// The bounds from latency alone for the chunks, without the calls before and after them.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "units come last")]
pub(crate) struct Bounds {
    pub(crate) in_order_16_ms: f64,
    pub(crate) any_order_16_ms: f64,
    pub(crate) any_order_64_ms: f64,
    /// All in one call.
    pub(crate) one_call_ms: f64,
}

/// One case.
#[derive(Debug, Serialize)]
pub(crate) struct CaseReport {
    pub(crate) case: Case,
    pub(crate) chunks: u64,
    pub(crate) bounds: Option<Bounds>,
    pub(crate) rows: Vec<Figure>,
}

impl CaseReport {
    pub(crate) fn new(case: Case, rows: Vec<Figure>) -> Self {
        let chunks =
            rows.iter().flat_map(|row| &row.runs).map(|run| run.chunks).max().unwrap_or_default();
        let bounds = case.latency().map(|latency| Bounds {
            in_order_16_ms: in_order_ms(chunks, 16, latency),
            any_order_16_ms: any_order_ms(chunks, 16, latency),
            any_order_64_ms: any_order_ms(chunks, 64, latency),
            one_call_ms: latency.mean_ms(),
        });
        Self { case, chunks, bounds, rows }
    }

    pub(crate) fn row(&self, way: Way) -> Option<&Figure> {
        self.rows.iter().find(|row| row.way == way)
    }

    /// The time of the calls that no window can hide.
    pub(crate) fn fixed_ms(&self) -> f64 {
        let mean_ms = self.case.latency().map_or(0.0, super::bounds::Latency::mean_ms);
        mean_ms * f64::from(self.case.fixed_calls())
    }
}
