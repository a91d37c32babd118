//! The results as tables: rates, processor time and memory of each link, the first byte, restarts,
//! and the goals.

use std::fmt::Write as _;

use serde::Serialize;

use super::first_byte::FirstByte;
use super::goals::goals;
use super::reader::{Origin, Reader};
use super::restarts::Restarts;
use super::server::{Blob, Link};
use crate::figures::{GIB, MIB, least, median, verdict};
use crate::machine::Machine;

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Sample {
    /// Without the start of the program.
    pub(crate) wall_s: f64,
    /// User and system time: for ours and curl of the whole process, for the others of the read.
    pub(crate) cpu_s: f64,
    /// Peak resident set of the process, KiB.
    pub(crate) rss_kib: u64,
    pub(crate) bytes: u64,
}

/// All results, and the conditions of the measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) runs: u32,
    pub(crate) machine: Machine,
    /// Program and version.
    pub(crate) versions: Vec<(String, String)>,
    /// Requested readers that are missing, and why.
    pub(crate) missing: Vec<(String, String)>,
    pub(crate) links: Vec<LinkReport>,
    pub(crate) first_byte: Option<FirstByte>,
    pub(crate) restarts: Option<Restarts>,
}

/// One link, with one row for each reader and object.
#[derive(Debug, Serialize)]
pub(crate) struct LinkReport {
    pub(crate) link: Link,
    pub(crate) rows: Vec<Row>,
}

/// One reader and object.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) reader: Reader,
    pub(crate) origin: Origin,
    pub(crate) blob: Blob,
    /// The rate of the median read.
    pub(crate) mib_per_s: f64,
    /// The rate of the best read.
    pub(crate) mib_per_s_max: f64,
    /// Median.
    pub(crate) cpu_s_per_gib: f64,
    /// The least over the reads.
    pub(crate) cpu_s_per_gib_min: f64,
    /// The largest over the reads.
    pub(crate) rss_mib_max: f64,
    pub(crate) runs: Vec<Sample>,
}

impl Row {
    /// Summarises the reads.
    #[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52 bytes")]
    pub(crate) fn new(reader: Reader, blob: Blob, runs: Vec<Sample>) -> Self {
        let bytes = blob.len_bytes() as f64;
        let rss_kib = runs.iter().map(|run| run.rss_kib).max().unwrap_or_default();
        let wall = || runs.iter().map(|run| run.wall_s);
        let cpu = || runs.iter().map(|run| run.cpu_s / (bytes / GIB));
        Self {
            reader,
            origin: reader.origin(),
            blob,
            mib_per_s: bytes / MIB / median(wall()),
            mib_per_s_max: bytes / MIB / least(wall()).unwrap_or(f64::INFINITY),
            cpu_s_per_gib: median(cpu()),
            cpu_s_per_gib_min: least(cpu()).unwrap_or_default(),
            rss_mib_max: rss_kib as f64 / 1024.0,
            runs,
        }
    }
}

impl LinkReport {
    /// The row of `reader` and `blob`.
    pub(crate) fn row(&self, reader: Reader, blob: Blob) -> Option<&Row> {
        self.rows.iter().find(|row| row.reader == reader && row.blob == blob)
    }

    /// Readers in the order of the first object; objects in the order of the rows.
    fn readers(&self) -> Vec<Reader> {
        let first = self.rows.first().map(|row| row.blob);
        self.rows.iter().filter(|row| Some(row.blob) == first).map(|row| row.reader).collect()
    }

    fn blobs(&self) -> Vec<Blob> {
        let mut blobs: Vec<Blob> = self.rows.iter().map(|row| row.blob).collect();
        blobs.dedup();
        blobs
    }

    fn write_markdown(&self, text: &mut String) {
        let blobs = self.blobs();
        let Some(largest) = blobs.last() else { return };
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, "\n### {}\n\n| reader ", self.link.title());
        for blob in &blobs {
            let _ = write!(text, "| {}: MiB/s, median (best) ", blob.label());
        }
        let name = largest.label();
        let _ = writeln!(text, "| {name}: CPU s/GiB, median (least) | {name}: RSS MiB |");
        let _ = writeln!(text, "|{}", "---|".repeat(blobs.len() + 3));
        for reader in self.readers() {
            let _ = write!(text, "| {} ", reader.label());
            for blob in &blobs {
                let rate = self.row(reader, *blob);
                let rate =
                    rate.map(|row| format!("{:.0} ({:.0})", row.mib_per_s, row.mib_per_s_max));
                let _ = write!(text, "| {} ", rate.unwrap_or_else(|| "-".into()));
            }
            if let Some(row) = self.row(reader, *largest) {
                let Row { cpu_s_per_gib, cpu_s_per_gib_min, rss_mib_max, .. } = row;
                let cpu = format!("{cpu_s_per_gib:.2} ({cpu_s_per_gib_min:.2})");
                let _ = writeln!(text, "| {cpu} | {rss_mib_max:.0} |");
            }
        }
    }
}

impl Report {
    /// One table for each link, and three more.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{} rounds, in turns; {}.", self.runs, self.machine);
        let versions: Vec<String> =
            self.versions.iter().map(|(name, version)| format!("{name} ({version})")).collect();
        let _ = writeln!(text, "Measured: {}.", versions.join(", "));
        for (name, reason) in &self.missing {
            let reason = reason.lines().next().unwrap_or_default();
            let _ = writeln!(text, "{name} is left out: {reason}");
        }
        for link in &self.links {
            link.write_markdown(&mut text);
        }
        if let Some(found) = &self.first_byte {
            write_first_byte(&mut text, found);
        }
        if let Some(found) = &self.restarts {
            write_restarts(&mut text, found);
        }
        text.push_str("\n### Against the goals\n\n| goal | figure | reached |\n|---|---|---|\n");
        for goal in goals(self) {
            let figure = goal.figure.as_deref().unwrap_or("-");
            let _ = writeln!(text, "| {} | {figure} | {} |", goal.text, verdict(goal.reached));
        }
        text
    }
}

fn write_first_byte(text: &mut String, found: &FirstByte) {
    text.push_str(
        "\n### First byte of 256 KiB, warm connection\n\n\
         | reader | first byte of the answer ms, median (best) | of its body ms | all of it ms | slowest transfer ms |\n\
         |---|---|---|---|---|\n",
    );
    let readers = [
        ("tidegate", Some(&found.ours)),
        ("tidegate, blocking", Some(&found.blocking)),
        ("curl", found.curl.as_ref()),
        ("a bare socket", Some(&found.socket)),
    ];
    for (name, times) in readers {
        let Some(times) = times else { continue };
        let ((first, first_best), (total, total_best)) = (times.first_byte(), times.total());
        let body = times.body().map_or_else(String::new, |ms| format!("{ms:.3}"));
        let _ = writeln!(
            text,
            "| {name} | {first:.3} ({first_best:.3}) | {body} | {total:.3} ({total_best:.3}) | {:.1} |",
            times.slowest()
        );
    }
}

fn write_restarts(text: &mut String, found: &Restarts) {
    let of = |runs: &[f64]| median(runs.iter().copied());
    let Restarts { requests, latency_ms, object_bytes, .. } = found;
    let _ = writeln!(
        text,
        "\n### Restarts\n\n{} MiB, {latency_ms} ms before each answer.\n\n\
         | | requests | s |\n|---|---|---|\n\
         | at once | 1 | {:.3} |\n\
         | in ranges of 1 MiB, no cut | {requests} | {:.3} |\n\
         | through a cut every MiB | {requests} | {:.3} |",
        object_bytes >> 20,
        of(&found.whole_s),
        of(&found.ranges_s),
        of(&found.cuts_s),
    );
}

#[cfg(test)]
mod tests {
    use super::super::first_byte::Times;
    use super::*;

    fn row(reader: Reader, blob: Blob, wall_s: f64, cpu_s: f64, rss_mib: u64) -> Row {
        let sample = Sample { wall_s, cpu_s, rss_kib: rss_mib << 10, bytes: blob.len_bytes() };
        Row::new(reader, blob, vec![sample, Sample { wall_s: 2.0 * wall_s, ..sample }, sample])
    }

    fn report() -> Report {
        let rows = vec![
            row(Reader::Frames, Blob::O64m, 0.03125, 0.01, 9),
            row(Reader::Curl, Blob::O64m, 0.0625, 0.02, 11),
            row(Reader::Frames, Blob::O1g, 0.5, 0.25, 9),
            row(Reader::Curl, Blob::O1g, 0.5, 0.2, 11),
        ];
        Report {
            runs: 3,
            machine: Machine { cores: 2, processor: "Some CPU".into(), kernel: "6.18".into() },
            versions: vec![("curl".into(), "curl 8".into())],
            missing: vec![("Go client".into(), "go is not installed\nat all".into())],
            links: vec![LinkReport { link: Link::Plain, rows }],
            first_byte: Some(FirstByte {
                transfers_per_run: 2,
                ours: Times {
                    first_byte_ms: vec![0.1, 0.3, 0.2],
                    body_ms: vec![0.4],
                    total_ms: vec![0.5],
                    total_ms_max: vec![9.0],
                },
                blocking: Times {
                    first_byte_ms: vec![0.3],
                    body_ms: vec![0.3],
                    total_ms: vec![0.6],
                    total_ms_max: vec![2.0],
                },
                curl: Some(Times {
                    first_byte_ms: vec![0.2],
                    body_ms: Vec::new(),
                    total_ms: vec![0.4],
                    total_ms_max: vec![1.0],
                }),
                socket: Times {
                    first_byte_ms: vec![0.05],
                    body_ms: vec![0.05],
                    total_ms: vec![0.1],
                    total_ms_max: vec![0.2],
                },
            }),
            restarts: Some(Restarts {
                object_bytes: 64 << 20,
                latency_ms: 20,
                requests: 64,
                whole_s: vec![0.1],
                ranges_s: vec![2.0],
                cuts_s: vec![2.1],
            }),
        }
    }

    #[test]
    fn the_tables_hold_what_was_measured() {
        let text = report().to_markdown();
        for line in [
            "| tidegate, stream | 2048 (2048) | 2048 (2048) | 0.25 (0.25) | 9 |",
            "| curl | 1024 (1024) | 2048 (2048) | 0.20 (0.20) | 11 |",
            "| tidegate | 0.200 (0.100) | 0.400 | 0.500 (0.500) | 9.0 |",
            "| tidegate, blocking | 0.300 (0.300) | 0.300 | 0.600 (0.600) | 2.0 |",
            "| curl | 0.200 (0.200) |  | 0.400 (0.400) | 1.0 |",
            "| a bare socket | 0.050 (0.050) | 0.050 | 0.100 (0.100) | 0.2 |",
            "| through a cut every MiB | 64 | 2.100 |",
            "Go client is left out: go is not installed",
        ] {
            assert!(text.lines().any(|actual| actual == line), "no line {line:?} in:\n{text}");
        }
    }

    #[test]
    fn goals_are_judged_by_the_worst_and_only_where_measured() {
        let reached: Vec<Option<bool>> = goals(&report()).iter().map(|goal| goal.reached).collect();
        // Rate, CPU, CPU of Java, memory of Java, first byte, restarts.
        let expected = [Some(true), Some(false), None, None, Some(true), Some(true)];
        assert_eq!(reached, expected, "{}", report().to_markdown());
    }

    #[test]
    fn json_holds_every_run() {
        let json = serde_json::to_value(report()).unwrap();
        let row = &json["links"][0]["rows"][0];
        assert_eq!(row["reader"], "frames");
        assert_eq!(row["blob"], "o64m");
        assert_eq!(row["runs"].as_array().unwrap().len(), 3);
    }
}
