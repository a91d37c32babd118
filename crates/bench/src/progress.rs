//! Progress messages while a measurement runs.

use std::io::{self, Write as _};

/// Writes a line to standard error; standard output is for the tables.
pub(crate) fn progress(line: &str) {
    // A failed write is ignored: standard error may be closed.
    let _ = writeln!(io::stderr(), "{line}");
}
