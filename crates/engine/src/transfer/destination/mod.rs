//! [`Destination`]: the sink of one download, from its opening to the finished file, or to a part
//! file that is kept.
//!
//! A hash that cannot be combined from parts is computed in order while bytes arrive, not
//! afterwards:
//!
//! | target | hashed by |
//! |---|---|
//! | file | a thread that follows the written bytes, from memory or the page cache |
//! | buffer | a task that follows the written bytes, in place |
//! | ordered | the thread that delivers the bytes |
//! | discard | nothing: without a hash the bytes need no order; with one the target is ordered |
//!
//! Invariant: a file gets its name only in [`Destination::commit`], after every expected checksum
//! matched.

mod file;
mod hashing;
mod memory;
mod prove;

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use self::file::leave;
use self::hashing::Hashing;
use self::prove::{Kept, prove};
use super::attempt::Calls;
use super::blocking::blocking;
use super::checks::{Checks, Proof};
use super::target::Prepared;
use crate::budget::{Budget, BytesPermit};
use crate::buffer::BufferPool;
use crate::error::{Error, ErrorKind, Rest, Result};
use crate::progress::Progress;
use crate::sink::file::journal::{Identity, Journal};
use crate::sink::file::writer::WrittenPart;
use crate::sink::file::{Durability, PartFile};
use crate::sink::hashers::{Hashers, Sums};
use crate::sink::{Mark, MemorySink, OrderedSink, Sink};

/// A sink, with the state around it.
#[derive(Debug)]
pub(crate) struct Destination {
    pub(crate) sink: Sink,
    hashing: Hashing,
    reader: Option<Arc<File>>,
    /// The budget that units take their bytes from.
    pub(crate) bytes: Budget,
    granted: Option<BytesPermit>,
    durability: Durability,
    progress: Arc<Progress>,
    calls: Calls,
    notes: Vec<String>,
}

/// How a [`Destination`] is opened.
pub(crate) struct DestinationOptions {
    /// The bytes that are wanted; ends at `u64::MAX` if the length is unknown.
    pub(crate) range: Range<u64>,
    /// Hashers that need the bytes in order.
    pub(crate) hashers: Hashers,
    /// The initial content of a part file.
    pub(crate) start: PartStart,
    /// Bytes that the budget granted before the first request.
    pub(crate) granted: InitialGrant,
    /// Bytes that units hold on their way into memory.
    pub(crate) units_bytes: u64,
    /// Whether batches that were written may be lent to the thread that hashes. A stream must not
    /// lend: it reads on only when its previous batch is released.
    pub(crate) lends: bool,
    pub(crate) durability: Durability,
    pub(crate) pool: BufferPool,
    pub(crate) progress: Arc<Progress>,
}

/// The initial content of a part file.
pub(crate) enum PartStart {
    /// No bytes; with a journal if there is an identity.
    Empty(Option<Identity>),
    /// The bytes of these marks, under a new journal.
    Kept(Identity, Vec<Mark>),
    /// The bytes of these marks; the journal that names them is continued.
    Resumed(Journal, Vec<Mark>),
}

/// Bytes that the budget granted, for the blob's bytes before `end`.
#[derive(Debug, Default)]
pub(crate) struct InitialGrant {
    pub(crate) permit: Option<BytesPermit>,
    pub(crate) end: u64,
}

/// The result of a complete download.
pub(crate) struct Committed {
    pub(crate) proof: Proof,
    pub(crate) memory: Option<Bytes>,
    /// A note for the user.
    pub(crate) note: Option<String>,
}

impl Destination {
    /// Opens the sink of a target. If the memory for the blob is not available at once, `release`
    /// is called to release the caller's request permit.
    pub(crate) async fn open(
        prepared: Prepared,
        options: DestinationOptions,
        calls: Calls,
        release: impl FnOnce() + Send,
    ) -> Result<Self> {
        match prepared {
            Prepared::File { part, .. } => Self::file(*part, options, calls).await,
            Prepared::Writer { writer, name } => Self::ordered(writer, name, options, calls),
            Prepared::Discard if !options.hashers.is_empty() => {
                let (writer, name) = (Box::new(io::sink()), "/dev/null".to_owned());
                Self::ordered(writer, name, options, calls)
            }
            Prepared::Discard => Ok(Self::new(Sink::Discard, Hashing::None, options, calls)),
            Prepared::Buffer(sink) => Ok(Self::buffer(sink, options, calls)),
            Prepared::Memory => {
                let set_aside = memory::set_aside(options, &calls, release).await?;
                let (sink, units, options) = set_aside;
                Ok(Self { bytes: units, ..Self::buffer(sink, options, calls) })
            }
        }
    }

    /// A sink and nothing else.
    #[cfg(test)]
    pub(crate) fn of_sink(sink: Sink, calls: Calls) -> Self {
        let options = DestinationOptions {
            range: 0..u64::MAX,
            hashers: Hashers::default(),
            start: PartStart::Empty(None),
            granted: InitialGrant::default(),
            units_bytes: 0,
            lends: false,
            durability: Durability::None,
            pool: BufferPool::default(),
            progress: Arc::default(),
        };
        Self::new(sink, Hashing::None, options, calls)
    }

    fn new(sink: Sink, hashing: Hashing, options: DestinationOptions, calls: Calls) -> Self {
        let DestinationOptions { granted, durability, progress, .. } = options;
        let (bytes, granted) = (calls.budget.clone(), granted.permit);
        let (reader, notes) = (None, Vec::new());
        Self { sink, hashing, reader, bytes, granted, durability, progress, calls, notes }
    }

    fn ordered(
        writer: Box<dyn Write + Send>,
        name: String,
        mut options: DestinationOptions,
        calls: Calls,
    ) -> Result<Self> {
        let hashers = std::mem::take(&mut options.hashers);
        let InitialGrant { permit, end } = std::mem::take(&mut options.granted);
        let sink = OrderedSink::new(options.range.start, permit, end, writer, hashers, name)?;
        Ok(Self::new(Sink::Ordered(sink), Hashing::None, options, calls))
    }

    fn buffer(sink: MemorySink, mut options: DestinationOptions, calls: Calls) -> Self {
        let hashers = std::mem::take(&mut options.hashers);
        let end = Some(options.range.end).filter(|end| *end != u64::MAX);
        let hashing = Hashing::of_buffer(sink.buffer(), end, hashers);
        Self::new(Sink::Memory(sink), hashing, options, calls)
    }

    async fn file(part: PartFile, options: DestinationOptions, calls: Calls) -> Result<Self> {
        let (durability, progress) = (options.durability, Arc::clone(&options.progress));
        let opened = file::open(part, options).await?;
        let file::OpenedFile { sink, hashing, reader, granted, note } = opened;
        Ok(Self {
            sink: Sink::File(sink),
            hashing,
            reader: Some(reader),
            bytes: calls.budget.clone(),
            granted,
            durability,
            progress,
            calls,
            notes: note.into_iter().collect(),
        })
    }

    /// A handle for reading the file that is written, if the target is a file.
    pub(crate) fn reader(&self) -> Option<Arc<File>> {
        self.reader.clone()
    }

    /// Takes the budget's grant from before the first request, unless the sink has it. `None` from
    /// the second call on.
    pub(crate) fn take_granted(&mut self) -> Option<BytesPermit> {
        self.granted.take()
    }

    /// Takes the notes for the user. Returns each note once.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Starts over if possible: a part file is emptied, and other sinks keep their bytes. Returns
    /// whether the sink is empty. After this the blob arrives as one stream.
    pub(crate) async fn restart(
        self,
        identity: Identity,
        hashers: Hashers,
    ) -> Result<(Self, bool)> {
        let Self { sink, hashing, reader, bytes, granted, durability, progress, calls, notes } =
            self;
        let Sink::File(file) = sink else {
            let same =
                Self { sink, hashing, reader, bytes, granted, durability, progress, calls, notes };
            return Ok((same, false));
        };
        let finished = file.finish().await;
        hashing.end().await;
        let WrittenPart { part, .. } = finished.map_err(|failed| failed.error)?;
        let options = DestinationOptions {
            range: 0..identity.len_bytes,
            hashers,
            start: PartStart::Empty(Some(identity)),
            granted: InitialGrant { permit: granted, end: 0 },
            units_bytes: 0,
            lends: false,
            durability,
            pool: BufferPool::default(),
            progress,
        };
        Ok((Self::file(part, options, calls).await?, true))
    }

    /// Verifies all `len` bytes, and gives a file its name. `units` are the checksums that the units
    /// computed.
    pub(crate) async fn commit(self, units: Sums, len: u64, checks: &Checks) -> Result<Committed> {
        let Self { sink, hashing, calls, durability, progress, .. } = self;
        let target = &*calls.target;
        let committed = |proof| Committed { proof, memory: None, note: None };
        match sink {
            Sink::Discard => prove(checks, units, target, Kept::Nowhere).await.map(committed),
            Sink::Ordered(sink) => {
                // Flushing waits for the reader of the output; a cancelled download does not wait.
                let sums = calls.unless_cancelled(sink.finish()).await??;
                prove(checks, units.and(sums), target, Kept::Nowhere).await.map(committed)
            }
            Sink::Memory(sink) => match async {
                let sums = hashing.buffer(sink.buffer(), len).await?;
                let kept = Kept::Buffer(sink.buffer(), len);
                prove(checks, units.and(sums), target, kept).await
            }
            .await
            {
                Ok(proof) => {
                    if sink.covers_shards {
                        sink.detach();
                    }
                    Ok(Committed { memory: Some(sink.finish(len)?), ..committed(proof) })
                }
                Err(error) => {
                    sink.fail(&error);
                    Err(error)
                }
            },
            Sink::File(sink) => {
                let finished = sink.finish().await;
                let hashed = hashing.file(len).await;
                let WrittenPart { part, note } = match finished {
                    Ok(written) => written,
                    Err(failed) => return Err(file::not_written(*failed, &progress).await),
                };
                let proof = match hashed {
                    Ok(sums) => {
                        prove(checks, units.and(sums), target, Kept::File(&part, len)).await
                    }
                    Err(error) => Err(error),
                };
                match proof {
                    Ok(proof) => {
                        blocking(move || part.commit(len, durability)).await?;
                        Ok(Committed { note, ..committed(proof) })
                    }
                    // Some extent is wrong, and it is not known which one, so nothing is kept.
                    Err(error) => {
                        let keeps = error.kind() != ErrorKind::Integrity;
                        let rest = leave(part, keeps, &progress).await;
                        Err(error.with_rest(rest))
                    }
                }
            }
        }
    }

    /// Ends a download that failed with `error`. With `keeps`, a part file stays if a later run can
    /// resume it. Returns what is left.
    pub(crate) async fn abandon(self, error: &Error, keeps: bool) -> Rest {
        let Self { sink, hashing, progress, .. } = self;
        match sink {
            Sink::Memory(sink) => {
                sink.fail(error);
                hashing.end().await;
            }
            Sink::File(sink) => {
                let part = match sink.finish().await {
                    Ok(written) => Some(written.part),
                    Err(failed) => failed.part,
                };
                hashing.end().await;
                if let Some(part) = part {
                    return leave(part, keeps, &progress).await;
                }
            }
            Sink::Ordered(sink) => sink.abort(),
            Sink::Discard => {}
        }
        Rest::Nothing
    }
}
