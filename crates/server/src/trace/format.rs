//! The format of a trace: text, one request a line, so that `awk` makes one from another server's
//! log.
//!
//! ```text
//! # tidegate trace 1
//! 0 get 9f86d081884c7d65 4096
//! 12 find 2c26b46b68ffc68f 1048576
//! 15 put 2c26b46b68ffc68f 1048576
//! ```
//!
//! The fields are: milliseconds since the start of the trace, the operation, up to 16 hexadecimal
//! digits that identify the blob, and its size in bytes. Times never decrease. Other lines that
//! begin with `#` are comments. A last line without a line break is ignored, because a killed server
//! leaves one.

use std::fmt;
use std::io::{self, BufRead};
use std::str::FromStr;

/// The first line, with the version of the format.
pub(super) const HEAD: &str = "# tidegate trace 1";

/// No line is longer. Three numbers and a word take at most 64 bytes.
const LINE_BYTES_MAX: u64 = 4096;

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceOperation {
    /// A blob, an action result or a value was read.
    Get,
    /// A client asked whether a blob exists, to upload it otherwise.
    Find,
    /// A blob was uploaded.
    Put,
}

impl TraceOperation {
    const ALL: [Self; 3] = [Self::Get, Self::Find, Self::Put];

    /// The name in a trace.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Find => "find",
            Self::Put => "put",
        }
    }
}

/// One request for one blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// Milliseconds since the start of the trace.
    pub time_ms: u64,
    /// The operation.
    pub operation: TraceOperation,
    /// Identifies the blob. It is a part of a hash, so that a trace names no content.
    pub fingerprint: u64,
    /// The blob's size in bytes; 0 if it is not known, as for a read that misses.
    pub size_bytes: u64,
}

impl fmt::Display for TraceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time_ms, operation, fingerprint, size_bytes } = self;
        write!(f, "{time_ms} {} {fingerprint:016x} {size_bytes}", operation.name())
    }
}

impl FromStr for TraceRequest {
    type Err = &'static str;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let mut fields = line.split_ascii_whitespace();
        let mut field = || fields.next().unwrap_or_default();
        let time_ms = field().parse().ok().ok_or("the time is not a number")?;
        let name = field();
        let operation = TraceOperation::ALL.into_iter().find(|one| one.name() == name);
        let operation = operation.ok_or("the operation is not get, find or put")?;
        let fingerprint = u64::from_str_radix(field(), 16).ok();
        let fingerprint = fingerprint.ok_or("the fingerprint is not 1 to 16 hexadecimal digits")?;
        let size_bytes = field().parse().ok().ok_or("the size is not a number of bytes")?;
        if fields.next().is_some() {
            return Err("the line has more than four fields");
        }
        Ok(Self { time_ms, operation, fingerprint, size_bytes })
    }
}

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be read.
    #[error("the trace cannot be read")]
    Read(#[from] io::Error),
    /// The first line is not that of a trace.
    #[error("expected a trace, whose first line is `{HEAD}`")]
    Head,
    /// A line is not a request.
    #[error("line {line}: {reason}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Reads a trace, one request after another.
#[derive(Debug)]
pub struct TraceReader<R> {
    input: R,
    text: Vec<u8>,
    line: u64,
    last_ms: u64,
}

impl<R: BufRead> TraceReader<R> {
    /// Reads the first line.
    pub fn new(input: R) -> Result<Self, TraceError> {
        let mut reader = Self { input, text: Vec::new(), line: 0, last_ms: 0 };
        if reader.read_line()? && reader.text == HEAD.as_bytes() {
            return Ok(reader);
        }
        Err(TraceError::Head)
    }

    /// The next request; `None` at the end.
    pub fn next_request(&mut self) -> Result<Option<TraceRequest>, TraceError> {
        while self.read_line()? {
            let line = self.line;
            let wrong = |reason| TraceError::Line { line, reason };
            let text = str::from_utf8(&self.text).ok().ok_or_else(|| wrong("it is not text"))?;
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let request: TraceRequest = text.parse().map_err(wrong)?;
            if request.time_ms < self.last_ms {
                return Err(wrong("the time is before that of the previous line"));
            }
            self.last_ms = request.time_ms;
            return Ok(Some(request));
        }
        Ok(None)
    }

    /// Reads a whole line without its break; `false` at the end.
    fn read_line(&mut self) -> Result<bool, TraceError> {
        self.text.clear();
        self.line += 1;
        let mut limited = io::Read::take(&mut self.input, LINE_BYTES_MAX);
        let len = limited.read_until(b'\n', &mut self.text)?;
        let is_whole = self.text.pop() == Some(b'\n');
        if self.text.last() == Some(&b'\r') {
            self.text.pop();
        }
        if len as u64 == LINE_BYTES_MAX && !is_whole {
            return Err(TraceError::Line { line: self.line, reason: "the line is too long" });
        }
        Ok(is_whole)
    }
}

impl<R: BufRead> Iterator for TraceReader<R> {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_request().transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<TraceRequest>, TraceError> {
        TraceReader::new(text.as_bytes())?.collect()
    }

    proptest! {
        #[test]
        fn requests_come_back(
            requests in prop::collection::vec((0_u64..1000, 0_usize..3, any::<u64>(), any::<u64>()), 0..50),
        ) {
            let mut time_ms = 0;
            let mut expected = Vec::new();
            let mut text = format!("{HEAD}\n# a comment\n\n");
            for (passed, operation, fingerprint, size_bytes) in requests {
                time_ms += passed;
                let operation = TraceOperation::ALL[operation];
                let request = TraceRequest { time_ms, operation, fingerprint, size_bytes };
                writeln!(text, "{request}").unwrap();
                expected.push(request);
            }
            prop_assert_eq!(read(&text).unwrap(), &expected[..]);
            text.push_str("99999999 get ab");
            prop_assert_eq!(read(&text).unwrap(), &expected[..]);
        }

        #[test]
        fn arbitrary_text_is_no_panic(text in "(?s).{0,200}") {
            drop(read(&text));
            drop(read(&format!("{HEAD}\n{text}\n")));
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for text in ["", HEAD, "# tidegate trace 2\n", "0 get 1 1\n"] {
            assert!(matches!(read(text).unwrap_err(), TraceError::Head), "{text}");
        }
        let long = "1".repeat(5000);
        for (lines, expected) in [
            ("x get 1 1", "line 2: the time is not a number"),
            ("1 got 1 1", "line 2: the operation is not get, find or put"),
            ("1 get xyz 1", "line 2: the fingerprint is not 1 to 16 hexadecimal digits"),
            ("1 get 1 1\n2 get 1", "line 3: the size is not a number of bytes"),
            ("1 get 1 1 1", "line 2: the line has more than four fields"),
            ("5 get 1 1\n4 get 1 1", "line 3: the time is before that of the previous line"),
            (&long, "line 2: the line is too long"),
        ] {
            let error = read(&format!("{HEAD}\n{lines}\n")).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
