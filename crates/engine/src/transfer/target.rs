//! Opens a target before the first request, so that a mistake in the target costs no transfer.
//!
//! The sink and its threads are started later: see `destination`.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::blocking::blocking;
use super::special;
use crate::buffer::ShardBuffer;
use crate::error::{Error, ErrorKind, Operation, Rest, Result};
use crate::sink::MemorySink;
use crate::sink::file::journal::{Ending, Found};
use crate::sink::file::{FileTarget, PartFile, RunOwner, StateFolder, descriptors};

/// Note for the user when a part file has a journal that this user's runs did not write.
const FOREIGN: &str =
    "a part file was there whose journal was not written with this user's key: started again";

/// Note for the user when a part file was begun by a run with another source.
const OTHER_SOURCE: &str = "a part file of another source was there and was dropped: started again";

/// Where a download goes.
#[non_exhaustive]
pub enum Target {
    /// A file, replaced as a whole at the end.
    File(PathBuf),
    /// A stream that takes the bytes in order, such as standard output; written on a thread of
    /// its own, and flushed at the end.
    Writer {
        /// The writer.
        writer: Box<dyn Write + Send>,
        /// Its name in errors.
        name: String,
    },
    /// Nowhere: the bytes are fetched and verified only.
    Discard,
    /// Memory; the blob must fit the budget, which accounts for it until the download ends. See
    /// [`crate::Report::memory`].
    Memory,
    /// A buffer that begins with the first wanted byte, and that has no other writers. Readers may
    /// follow it during the download. They learn the end when the blob is verified, or get an error
    /// if the download fails. The blob is in [`crate::Report::memory`], too. The buffer's own
    /// budget, if it has one, must have room for the blob: the client's budget does not account for
    /// it.
    Buffer(Arc<ShardBuffer>),
}

impl Target {
    /// The file at `path`.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::File(path.into())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Writer { name, .. } => f.debug_tuple("Writer").field(name).finish(),
            Self::Discard => f.write_str("Discard"),
            Self::Memory => f.write_str("Memory"),
            Self::Buffer(buffer) => f.debug_tuple("Buffer").field(buffer).finish(),
        }
    }
}

/// A target that is open.
pub(crate) enum Prepared {
    File {
        part: Box<PartFile>,
        found: Option<Box<Found>>,
        /// Notes for the user about an earlier run's part file.
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
    /// Opens the target. `sources` are the names of the blob whose earlier part file may be resumed;
    /// `None` if none may be.
    /// `seeds` is the number of seed files that will be open in addition.
    pub(crate) async fn new(
        target: Target,
        sources: Option<Vec<String>>,
        seeds: usize,
        state: &StateFolder,
        cancel: &CancellationToken,
    ) -> Result<Self> {
        match target {
            Target::File(path) => Self::path(path, sources, seeds, state, cancel).await,
            Target::Writer { writer, name } => Ok(Self::Writer { writer, name }),
            Target::Discard => Ok(Self::Discard),
            Target::Memory => Ok(Self::Memory),
            Target::Buffer(buffer) => Ok(Self::Buffer(MemorySink::new(buffer, false))),
        }
    }

    /// Opens a path. Devices and pipes are written to in order. The null device takes no bytes.
    async fn path(
        path: PathBuf,
        sources: Option<Vec<String>>,
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
        // Before any grant of the budget: [`descriptors`] explains why.
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
            let found = match sources.map(|sources| (part.ending(), sources)) {
                Some((Ending::Journal(found), sources)) => {
                    let is_known = sources.contains(&found.identity.source);
                    if !is_known {
                        notes.push(OTHER_SOURCE.to_owned());
                    }
                    is_known.then_some(found)
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

    /// Whether the bytes must arrive in order. `is_hashed` says whether a hash of the whole blob is
    /// computed.
    pub(crate) fn is_ordered(&self, is_hashed: bool) -> bool {
        match self {
            Self::Writer { .. } => true,
            Self::Discard => is_hashed,
            Self::File { .. } | Self::Memory | Self::Buffer(_) => false,
        }
    }

    /// The handle of the caller that wants the outcome, if the target is a file. The caller holds
    /// it until there is an outcome.
    pub(crate) fn owner(&self) -> Option<RunOwner> {
        match self {
            Self::File { part, .. } => Some(part.owner()),
            _ => None,
        }
    }

    /// Takes the notes for the user.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        match self {
            Self::File { notes, .. } => std::mem::take(notes),
            _ => Vec::new(),
        }
    }

    /// The journal that an earlier run left.
    pub(crate) fn found(&self) -> Option<&Found> {
        match self {
            Self::File { found, .. } => found.as_deref(),
            _ => None,
        }
    }

    /// Takes the journal that an earlier run left.
    pub(crate) fn take_found(&mut self) -> Option<Box<Found>> {
        match self {
            Self::File { found, .. } => found.take(),
            _ => None,
        }
    }

    /// Ends a download that fetched nothing because of `error`. A part file with a journal stays;
    /// one without is removed. Returns what is left.
    pub(crate) async fn abandon(self, error: &Error) -> Rest {
        match self {
            Self::Buffer(sink) => {
                sink.fail(error);
                Rest::Nothing
            }
            Self::File { part, .. } => {
                // A part file is kept only if its journal names bytes.
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
