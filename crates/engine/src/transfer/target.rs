//! A target made ready before the first request: so that what the user can get wrong about it
//! costs no transfer.

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

/// Told where a part file ends in what this user's runs have not written.
const FOREIGN: &str =
    "a part file was there whose journal was not written with this user's key: started again";

/// Where a download goes.
#[non_exhaustive]
pub enum Target {
    /// A file, replaced as a whole at the end.
    File(PathBuf),
    /// A stream that takes the bytes in order, such as standard output; written on a thread of
    /// its own, and flushed at the end.
    Writer {
        /// What takes the bytes.
        writer: Box<dyn Write + Send>,
        /// What errors call it.
        name: String,
    },
    /// Nowhere: the bytes are fetched and verified only.
    Discard,
    /// Memory; the blob must fit the budget, which accounts for it until the download ends. See
    /// [`crate::Report::memory`].
    Memory,
    /// A buffer that begins with the first byte wanted, and that nobody else writes to. Readers
    /// may follow it meanwhile; they are given the end once the blob has been verified, or an error
    /// if it never is. The blob is in [`crate::Report::memory`], too. Its memory is the buffer's own
    /// affair: where it has a budget, that must have room.
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
    /// Opens the target. `source` is the blob whose earlier part file may be resumed, if any; `seeds`
    /// is the number of files that will be open besides.
    pub(crate) async fn new(
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

    /// Whether the bytes must come in order; `is_hashed` if a hash of the whole is computed.
    pub(crate) fn is_ordered(&self, is_hashed: bool) -> bool {
        match self {
            Self::Writer { .. } => true,
            Self::Discard => is_hashed,
            Self::File { .. } | Self::Memory | Self::Buffer(_) => false,
        }
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
    pub(crate) fn take_found(&mut self) -> Option<Box<Found>> {
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
