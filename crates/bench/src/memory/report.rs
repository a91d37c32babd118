//! The results as a table.

use std::fmt::Write as _;

use serde::Serialize;

use super::Contender;
use crate::figures::{GIB, MIB, least, median};
use crate::machine::Machine;
use crate::read::server::{Blob, Link};

/// One fetch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Sample {
    /// The first fetch of its process.
    pub(crate) fresh: bool,
    pub(crate) wall_s: f64,
    pub(crate) cpu_s: f64,
    /// Peak resident set of the process, KiB.
    pub(crate) rss_kib: u64,
}

/// All results, and the conditions of the measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) runs: u32,
    pub(crate) machine: Machine,
    pub(crate) object_store: String,
    pub(crate) rows: Vec<Row>,
}

/// One way, object and link.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    contender: Contender,
    blob: Blob,
    link: Link,
    samples: Vec<Sample>,
}

impl Contender {
    fn label(self) -> &'static str {
        match self {
            Self::Download => "tidegate, download to memory, verified",
            Self::Vec => "one stream into a long enough Vec, verified",
            Self::VecGrowing => "one stream into an empty Vec, verified",
            Self::Vecs => "32 ranges at once into Vecs, joined",
            Self::GetRanges => "object_store, get_ranges",
            Self::ConcurrentGetRange => "object_store, 32 get_range at once, joined",
        }
    }
}

impl Row {
    pub(crate) fn new(contender: Contender, blob: Blob, link: Link, samples: Vec<Sample>) -> Self {
        Self { contender, blob, link, samples }
    }

    #[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52 bytes")]
    fn write(&self, text: &mut String) {
        let bytes = self.blob.len_bytes() as f64;
        let rate = |fresh: bool| {
            let walls = || self.samples.iter().filter(move |s| s.fresh == fresh).map(|s| s.wall_s);
            let best = bytes / MIB / least(walls()).unwrap_or(f64::INFINITY);
            format!("{:.0} ({best:.0})", bytes / MIB / median(walls()))
        };
        let cpu = |fresh: bool| {
            let times = self.samples.iter().filter(|s| s.fresh == fresh);
            median(times.map(|s| s.cpu_s)) / (bytes / GIB)
        };
        let rss_kib = self.samples.iter().map(|s| s.rss_kib).max().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.2} | {:.2} | {} |",
            self.contender.label(),
            self.blob.label(),
            rate(true),
            rate(false),
            cpu(true),
            cpu(false),
            rss_kib >> 10,
        );
    }
}

impl Report {
    /// For people.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = format!("{} runs each, in turns; {}.\n", self.runs, self.machine);
        let _ = writeln!(text, "object_store {}.", self.object_store);
        for link in [Link::Plain, Link::Delay] {
            let title = if link == Link::Plain { "loopback" } else { "+20 ms for each answer" };
            let _ = writeln!(text, "\n### Into memory, {title}\n");
            text.push_str(
                "| way | object | MiB/s, first | MiB/s, later | CPU s/GiB, first | later | RSS MiB |\n",
            );
            text.push_str("|---|---|---|---|---|---|---|\n");
            for row in self.rows.iter().filter(|row| row.link == link) {
                row.write(&mut text);
            }
        }
        text
    }
}
