//! [`Source`]: where the bytes of an upload come from, by the user's text.

use std::path::{Path, PathBuf};

use tidegate::{Client, Location, Result, UploadSource};

use crate::local::{INPUT_NAME, INPUT_PATH, check_spelling, is_input};
use crate::standard;

/// A file, standard input, or a blob of a remote.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    File(PathBuf),
    Remote(Location),
}

impl Source {
    pub(crate) fn parse(client: &Client, text: &str) -> Result<Self> {
        if is_input(text) {
            standard::check_input()?;
            return Ok(Self::File(PathBuf::from(INPUT_PATH)));
        }
        check_spelling(text)?;
        if text.contains("://") {
            return Ok(Self::Remote(client.locate(text)?));
        }
        Ok(Self::File(PathBuf::from(text)))
    }

    /// Its name in reports.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(path) if path == Path::new(INPUT_PATH) => INPUT_NAME.to_owned(),
            Self::File(path) => path.display().to_string(),
            Self::Remote(location) => location.display().to_owned(),
        }
    }

    /// Whether it is standard input, and not a file that standard input was redirected from.
    pub(crate) fn is_stream(&self) -> bool {
        let is_file = || std::fs::metadata(INPUT_PATH).is_ok_and(|found| found.is_file());
        matches!(self, Self::File(path) if path == Path::new(INPUT_PATH)) && !is_file()
    }

    /// The last part of that name.
    pub(crate) fn short_name(&self) -> String {
        self.file_name().map_or_else(|| self.name(), str::to_owned)
    }

    /// The name that the bytes keep in a folder; `None` for standard input.
    pub(crate) fn file_name(&self) -> Option<&str> {
        match self {
            Self::File(path) if path == Path::new(INPUT_PATH) => None,
            Self::File(path) => path.file_name()?.to_str(),
            Self::Remote(location) => location.file_name(),
        }
    }

    pub(crate) fn to_upload(&self) -> UploadSource {
        match self {
            Self::File(path) => UploadSource::path(path),
            Self::Remote(location) => UploadSource::blob(location),
        }
    }
}
