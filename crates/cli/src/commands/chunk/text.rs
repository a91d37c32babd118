//! [`Listing`]: the chunks of a file as text, one a line, in columns.

use std::fmt::Write as _;

use tidegate::chunked::CutChunk;
use tidegate_core::printable::escaped;

/// Text is written once this much has been gathered.
const TEXT_BYTES: usize = 64 << 10;

/// The lines of one file; they are added while it is cut.
#[derive(Debug)]
pub(super) struct Listing {
    text: String,
    /// Width of a column of offsets or lengths.
    width: usize,
    is_one_of_several: bool,
}

impl Listing {
    /// Starts with the column names, and the file's name if there are several files.
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

    /// Adds a line; true if there is enough text to write.
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

    /// The text that was not written yet.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}
