//! The summary of the runs of one subject under one condition.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::condition::Subject;
use crate::figures::{least, median};

/// One run: the mean cost of an operation in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) operations: u64,
    pub(crate) wall_ns: f64,
    /// Median of single operations, if they were timed one by one.
    pub(crate) wall_ns_median: Option<f64>,
    pub(crate) wall_ns_min: Option<f64>,
    /// User and system time, all threads.
    pub(crate) cpu_ns: f64,
    /// Length of the blob, from our own harness.
    pub(crate) blob_bytes: Option<u64>,
    /// Bytes that our buffer reports as committed, or that Go's allocator has allocated.
    pub(crate) committed_bytes: Option<u64>,
    /// Growth of the process, as the kernel counts it.
    pub(crate) resident_bytes: Option<u64>,
    /// How often a writer waited for a lock, over all operations.
    pub(crate) lock_waits: Option<u64>,
}

impl Sample {
    /// Parses the line that Go's testing package prints for one benchmark.
    pub(crate) fn from_go(output: &str) -> Result<Self> {
        let line = output.lines().find(|line| line.starts_with("Benchmark") && line.contains('\t'));
        let line = line.context("the Go harness printed no result")?;
        let mut columns = line.split('\t').skip(1);
        let operations = columns.next().context("no count of operations")?.trim();
        let mut sample = Self {
            operations: operations.parse().with_context(|| format!("reading {operations:?}"))?,
            ..Self::default()
        };
        for column in columns {
            let Some((number, unit)) = column.trim().split_once(' ') else { continue };
            let read = || number.parse::<f64>().with_context(|| format!("reading {column:?}"));
            match unit {
                "ns/op" => sample.wall_ns = read()?,
                "cpu-ns/op" => sample.cpu_ns = read()?,
                "B/op" => {
                    let bytes = number.parse().with_context(|| format!("reading {column:?}"))?;
                    sample.committed_bytes = Some(bytes);
                }
                _ => {}
            }
        }
        Ok(sample)
    }
}

/// One subject under one condition, over all runs.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) subject: Subject,
    /// Time of an operation: the median over the runs.
    pub(crate) wall_ms: f64,
    /// The best run.
    pub(crate) wall_ms_min: f64,
    /// The median over the runs.
    pub(crate) cpu_ms: f64,
    /// The best run.
    pub(crate) cpu_ms_min: f64,
    /// Times of single operations, if they were timed one by one: the median over the runs of the
    /// medians, and the fastest of all. Other processes disturb them less than they disturb a mean.
    pub(crate) single_ms: Option<f64>,
    pub(crate) single_ms_min: Option<f64>,
    pub(crate) runs: Vec<Sample>,
}

impl Figure {
    /// Summarises the runs.
    pub(crate) fn new(subject: Subject, runs: Vec<Sample>) -> Self {
        let wall = || runs.iter().map(|run| run.wall_ns / 1e6);
        let cpu = || runs.iter().map(|run| run.cpu_ns / 1e6);
        Self {
            subject,
            wall_ms: median(wall()),
            wall_ms_min: least(wall()).unwrap_or_default(),
            cpu_ms: median(cpu()),
            cpu_ms_min: least(cpu()).unwrap_or_default(),
            single_ms: runs
                .first()
                .and_then(|run| run.wall_ns_median)
                .map(|_| median(runs.iter().filter_map(|run| run.wall_ns_median)) / 1e6),
            single_ms_min: least(runs.iter().filter_map(|run| run.wall_ns_min))
                .map(|fastest| fastest / 1e6),
            runs,
        }
    }

    /// The largest value of `of` over the runs.
    pub(crate) fn largest(&self, of: impl Fn(&Sample) -> Option<u64>) -> Option<u64> {
        self.runs.iter().filter_map(of).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_go_is_read() {
        let output = "goos: linux\nBenchmarkCalls32K/impl=before/hint=presized/shards=4x4MiB-2 \
                      \t      19\t   7007072 ns/op\t2394.33 MB/s\t   7477737 cpu-ns/op\t\
                      16777700 B/op\t       9 allocs/op\nPASS\n";
        let sample = Sample::from_go(output).unwrap();
        assert_eq!(sample.operations, 19);
        assert!((sample.wall_ns - 7_007_072.0).abs() < 1e-9);
        assert!((sample.cpu_ns - 7_477_737.0).abs() < 1e-9);
        assert_eq!(sample.committed_bytes, Some(16_777_700));
        assert!(Sample::from_go("PASS\n").is_err());
    }

    #[test]
    fn the_median_run_counts_and_the_best_is_kept() {
        let run = |wall_ns: f64| Sample { wall_ns, cpu_ns: 2.0 * wall_ns, ..Sample::default() };
        let figure = Figure::new(Subject::Fresh, vec![run(3e6), run(1e6), run(2e6)]);
        assert!((figure.wall_ms - 2.0).abs() < 1e-9 && (figure.wall_ms_min - 1.0).abs() < 1e-9);
        assert!((figure.cpu_ms - 4.0).abs() < 1e-9 && (figure.cpu_ms_min - 2.0).abs() < 1e-9);
    }
}
