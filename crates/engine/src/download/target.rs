//! A target made ready before the first request: so that what the user can get wrong about it
//! costs no transfer.

use std::io::Write;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::{ShardedDownloadOptions, Target, special};
use crate::error::{Error, ErrorKind, Operation, Rest, Result};
use crate::remote::Location;
use crate::sink::MemorySink;
use crate::sink::file::journal::{Ending, Found};
use crate::sink::file::{FileTarget, PartFile, RunOwner, StateFolder, descriptors};

/// Told where a part file ends in what this user's runs have not written.
const FOREIGN: &str =
    "a part file was there whose journal was not written with this user's key: started again";

/// Where the bytes will go.
pub(crate) enum Prepared {
    File {
        part: Box<PartFile>,
        found: Option<Box<Found>>,
        /// What the user may want to know of an earlier run's part file.
        notes: Vec<String>,
    },
    Writer {
        writer: Box<dyn Write + Send>,
        name: String,
    },
    Discard,
    Memory,
    Buffer(MemorySink),
}

impl Prepared {
    pub(super) async fn new(
        target: Target,
        location: &Location,
        options: &ShardedDownloadOptions,
    ) -> Result<Self> {
        // A part of a blob must not be taken for the start of the whole.
        let resume = options.resume && options.range.is_none();
        let source = resume.then(|| location.display().to_owned());
        Self::of(target, source, 0, &options.state, &options.cancel).await
    }

    /// As [`Self::new`]; what an earlier run left is looked for if it is of the blob `source`. So many
    /// `seeds` will be opened besides.
    pub(crate) async fn of(
        target: Target,
        source: Option<String>,
        seeds: usize,
        state: &StateFolder,
        cancel: &CancellationToken,
    ) -> Result<Self> {
        match target {
            Target::File(path) => Self::path(path, source, seeds, state, cancel).await,
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
        state: &StateFolder,
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
        let state = state.clone();
        blocking(move || {
            let mut part = PartFile::open(FileTarget::new(&path)?, &state)?;
            part.hold(descriptors);
            let key = part.refused_key().map(|why| {
                format!("{why}: part files are resumed only where a hash of the blob proves it")
            });
            let mut notes: Vec<String> = key.into_iter().collect();
            let found = match source.map(|source| (part.ending(), source)) {
                Some((Ending::Journal(found), source)) => {
                    (found.identity.source == source).then_some(found)
                }
                Some((Ending::Foreign, _)) => {
                    notes.push(FOREIGN.to_owned());
                    None
                }
                _ => None,
            };
            Ok(Self::File { part: Box::new(part), found, notes })
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

    /// What the user may want to know, taken out.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        match self {
            Self::File { notes, .. } => std::mem::take(notes),
            _ => Vec::new(),
        }
    }

    /// What an earlier run left, taken out.
    pub(super) fn take_found(&mut self) -> Option<Box<Found>> {
        match self {
            Self::File { found, .. } => found.take(),
            _ => None,
        }
    }

    /// Nothing was fetched, because of `error`: a part file that holds nothing is removed, one that
    /// does stays. Says what is left.
    pub(crate) async fn abandon(self, error: &Error) -> Rest {
        match self {
            Self::Buffer(sink) => {
                sink.fail(error);
                Rest::Nothing
            }
            Self::File { part, .. } => {
                // A part file is kept only for what its journal remembers.
                let rest = blocking(move || {
                    if part.ending().journal().is_some() {
                        return Ok(Rest::Kept);
                    }
                    part.remove();
                    Ok(Rest::Nothing)
                });
                rest.await.unwrap_or(Rest::Nothing)
            }
            _ => Rest::Nothing,
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
