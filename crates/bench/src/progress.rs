//! What is said while a measurement runs.

use std::io::{self, Write as _};

/// A line for whoever waits; the tables are what standard output is for.
pub(crate) fn progress(line: &str) {
    // Nobody who closed standard error misses it.
    let _ = writeln!(io::stderr(), "{line}");
}
