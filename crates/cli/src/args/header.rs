//! `--header`: headers to send, given one by one or in a file.
//!
//! The parser quotes values that it refuses, and a header may hold a token. So the parser accepts
//! every text. A later check reports errors without the text.

use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use tidegate::remote::ExtraHeaders;
use tidegate::{Error, ErrorKind, Operation, Result};

/// Servers refuse longer heads.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// A header line, or the name of a file with header lines.
#[derive(Clone)]
pub(crate) struct HeaderArg(String);

impl fmt::Debug for HeaderArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeaderArg(..)")
    }
}

impl FromStr for HeaderArg {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

/// Combines all headers: those of the command line, and the lines of the configuration file whose
/// names the command line does not have.
pub(crate) fn collect(arguments: &[HeaderArg], configured: &[String]) -> Result<ExtraHeaders> {
    let mut headers = ExtraHeaders::new();
    for HeaderArg(text) in arguments {
        match text.strip_prefix('@') {
            None => headers.add_line(text)?,
            Some(path) => {
                let content = read(Path::new(path))?;
                let lines = content.lines().map(str::trim).filter(|line| !line.is_empty());
                lines.into_iter().try_for_each(|line| headers.add_line(line))?;
            }
        }
    }
    let given: Vec<String> = headers.names().map(str::to_owned).collect();
    for line in configured {
        let name = line.split(':').next().unwrap_or_default();
        if !given.iter().any(|given| given.eq_ignore_ascii_case(name)) {
            headers.add_line(line)?;
        }
    }
    Ok(headers)
}

fn read(path: &Path) -> Result<String> {
    let refuse = |message: &str| {
        Error::new(ErrorKind::Invalid, Operation::Locate, path.display().to_string(), message)
    };
    let mut content = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content))
        .map_err(|error| refuse("the headers cannot be read").caused_by(error))?;
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(refuse("expected 64 KiB of headers at the most"));
    }
    // The error of the conversion would show the bytes.
    String::from_utf8(content).ok().ok_or_else(|| refuse("headers are text"))
}
