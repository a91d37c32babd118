//! An edited copy of the demo's file: some bytes are put into its middle, so that all bytes behind them
//! move.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// The bytes of the edit: a changed line of a configuration, or a new version number.
const EDIT: &[u8] = b"one line that was not there before\n";

/// Writes the edited copy. Blocks.
pub(super) fn edited_copy(from: &Path, to: &Path) -> io::Result<()> {
    let source = File::open(from)?;
    let half = source.metadata()?.len() / 2;
    let mut target = File::create_new(to)?;
    io::copy(&mut (&source).take(half), &mut target)?;
    target.write_all(EDIT)?;
    io::copy(&mut &source, &mut target)?;
    Ok(())
}
