//! [`Listing`]: a file's chunks as people read them, one a line, in columns.

use std::fmt::Write as _;

use tidegate::chunked::CutChunk;
use tidegate_core::printable::escaped;

/// So much is gathered before it is written.
const TEXT_BYTES: usize = 64 << 10;

/// The lines of one file, as they come to be known.
#[derive(Debug)]
pub(super) struct Listing {
    text: String,
    /// Of a column of offsets or lengths.
    width: usize,
    is_one_of_several: bool,
}

impl Listing {
    /// Begins with the columns' names, and the file's where there are several.
    pub(super) fn new(file: &str, bytes: u64, digest: &str, files: usize) -> Self {
        let width = bytes.to_string().len().max("offset".len());
        let mut text = String::new();
        // Writing to a String cannot fail, here and below.
        let is_one_of_several = files > 1;
        if is_one_of_several {
            let _ = writeln!(text, "{}", escaped(file));
        }
        let _ = writeln!(text, "{:>width$}  {:>width$}  {digest}", "offset", "length");
        Self { text, width, is_one_of_several }
    }

    /// Adds a line; true when there is enough to write.
    pub(super) fn add(&mut self, chunk: &CutChunk) -> bool {
        let (width, hash) = (self.width, chunk.digest.checksum().hex());
        let _ =
            writeln!(self.text, "{:>width$}  {:>width$}  {hash}", chunk.offset, chunk.digest.len);
        self.text.len() >= TEXT_BYTES
    }

    /// Ends the file's lines.
    pub(super) fn end(&mut self) {
        if self.is_one_of_several {
            self.text.push('\n');
        }
    }

    /// What was not written yet.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}
