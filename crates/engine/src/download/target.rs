//! A target made ready before the first request: so that what the user can get wrong about it
//! costs no transfer.

use std::io::Write;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::{DownloadOptions, Target, special};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::Location;
use crate::sink::MemorySink;
use crate::sink::file::journal::Found;
use crate::sink::file::{FileTarget, PartFile, RunOwner, descriptors};

/// Where the bytes will go.
pub(crate) enum Prepared {
    File { part: PartFile, found: Option<Found> },
    Writer { writer: Box<dyn Write + Send>, name: String },
    Discard,
    Memory,
    Buffer(MemorySink),
}

impl Prepared {
    pub(super) async fn new(
        target: Target,
        location: &Location,
        options: &DownloadOptions,
    ) -> Result<Self> {
        // A part of a blob must not be taken for the start of the whole.
        let resume = options.resume && options.range.is_none();
        let source = resume.then(|| location.display().to_owned());
        Self::of(target, source, 0, &options.cancel).await
    }

    /// As [`Self::new`]; what an earlier run left is looked for if it is of the blob `source`. So many
    /// `seeds` will be opened besides.
    pub(crate) async fn of(
        target: Target,
        source: Option<String>,
        seeds: usize,
        cancel: &CancellationToken,
    ) -> Result<Self> {
        match target {
            Target::File(path) => Self::path(path, source, seeds, cancel).await,
            Target::Writer { writer, name } => Ok(Self::Writer { writer, name }),
            Target::Discard => Ok(Self::Discard),
            Target::Memory => Ok(Self::Memory),
            Target::Buffer(buffer) => Ok(Self::Buffer(MemorySink::new(buffer, false))),
        }
    }

    /// Devices and pipes are written to; the null device takes no bytes at all.
    async fn path(
        path: PathBuf,
        source: Option<String>,
        seeds: usize,
        cancel: &CancellationToken,
    ) -> Result<Self> {
        if path == Path::new("/dev/null") {
            return Ok(Self::Discard);
        }
        if let Some(writer) = special::open(&path, cancel).await? {
            let name = path.display().to_string();
            return Ok(Self::Writer { writer: Box::new(writer), name });
        }
        // Before anything of the budget; see there.
        let descriptors = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                let (kind, name) = (ErrorKind::Cancelled, path.display().to_string());
                return Err(Error::new(kind, Operation::Write, name, "it was cancelled"));
            }
            descriptors = descriptors::acquire(descriptors::DOWNLOAD + seeds) => descriptors,
        };
        blocking(move || {
            let mut part = PartFile::open(FileTarget::new(&path)?)?;
            part.hold(descriptors);
            let found = source.and_then(|source| part.found(&source));
            Ok(Self::File { part, found })
        })
        .await
    }

    /// Whoever wants the outcome, where that is a file; to be held until there is one.
    pub(crate) fn owner(&self) -> Option<RunOwner> {
        match self {
            Self::File { part, .. } => Some(part.owner()),
            _ => None,
        }
    }

    /// What an earlier run left, taken out.
    pub(super) fn take_found(&mut self) -> Option<Found> {
        match self {
            Self::File { found, .. } => found.take(),
            _ => None,
        }
    }

    /// Nothing was fetched, because of `error`: a part file that holds nothing is removed, one that
    /// does stays.
    pub(crate) async fn abandon(self, error: &Error) {
        if let Self::Buffer(sink) = self {
            sink.fail(error);
        } else if let Self::File { part, .. } = self {
            // A part file is kept only for what its journal remembers.
            let _ = blocking(move || {
                if crate::sink::file::journal::Journal::find(&part.file).ok().flatten().is_none() {
                    part.remove();
                }
                Ok(())
            })
            .await;
        }
    }
}

/// Runs `work` where it may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(Error::new(
            ErrorKind::Cancelled,
            Operation::Write,
            "target",
            "the runtime is shutting down",
        )
        .caused_by(error))
    })
}
