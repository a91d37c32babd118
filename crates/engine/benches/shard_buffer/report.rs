//! Output of the results: a line of JSON a case for programs, a table a memory for people.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use serde::Serialize;

use crate::case::{Case, Memory};
use crate::measure::{Figures, as_f64};

#[derive(Serialize)]
struct Line<'a> {
    case: String,
    #[serde(flatten)]
    figures: &'a Figures,
}

/// One object on a line of its own.
pub(crate) fn print_json(case: Case, figures: &Figures) -> Result<(), String> {
    let line = Line { case: case.to_string(), figures };
    let text = serde_json::to_string(&line).map_err(|error| error.to_string())? + "\n";
    print(&text)
}

/// All results, the buffers' before the copies'.
pub(crate) fn print_tables(results: &[(Case, Figures)]) -> Result<(), String> {
    let mut text = String::from(
        "case                                     |  wall ms | median |    min |   CPU ms | GiB/s \
         | committed : blob | resident : blob | lock waits\n",
    );
    let mut last: Option<Memory> = None;
    for (case, figures) in results {
        if last.is_some_and(|memory| memory != case.memory) {
            text.push('\n');
        }
        last = Some(case.memory);
        let blob = as_f64(figures.blob_bytes);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<40} | {:>8.3} | {:>6.3} | {:>6.3} | {:>8.3} | {:>5.1} | {:>16} | {:>15} | {}",
            case.to_string(),
            figures.wall_ns / 1e6,
            figures.wall_ns_median / 1e6,
            figures.wall_ns_min / 1e6,
            figures.cpu_ns / 1e6,
            // Bytes a nanosecond are 10^9 a second.
            blob / figures.wall_ns_median * 1e9 / f64::from(1 << 30),
            share(figures.committed_bytes, blob),
            share(figures.resident_bytes, blob),
            figures.lock_waits,
        );
    }
    print(&text)
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52 bytes")]
fn share(bytes: Option<u64>, blob: f64) -> String {
    bytes.map_or_else(|| "-".into(), |bytes| format!("{:.3}", bytes as f64 / blob))
}

fn print(text: &str) -> Result<(), String> {
    io::stdout().write_all(text.as_bytes()).map_err(|error| format!("printing: {error}"))
}

/// Prints why there is no result.
pub(crate) fn complain(message: &str) {
    // A failed write is ignored: standard error may be closed.
    let _ = writeln!(io::stderr(), "{message}");
}
