//! The sink of one chunked download from its making to its end, and the hash of the whole beside
//! it: what goes in is hashed in order while more arrives, not afterwards.
//!
//! | target | hashed by |
//! |---|---|
//! | file | a thread that follows what has been written, from memory or the page cache |
//! | buffer | a task that follows what has been written, in place |
//! | ordered, discard | the thread that delivers |

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use tidegate_core::checksum::{Checksum, Checksummer};
use tidegate_core::digest::Digest;
use tokio::task::JoinSet;

use super::options::ChunkedDownloadOptions;
use crate::budget::{Budget, BudgetOptions};
use crate::buffer::{ShardBuffer, ShardBufferOptions, committed_bytes};
use crate::chunked::chunk::hasher;
use crate::download::{Prepared, blocking};
use crate::error::{Error, ErrorKind, Operation, Rest, Result};
use crate::remote::Version;
use crate::sink::file::follow::{self, Progress};
use crate::sink::file::journal::{CrcName, Identity};
use crate::sink::file::part_file::{self, PartFile};
use crate::sink::file::target::storage_error;
use crate::sink::file::writer::Finished;
use crate::sink::{FileSink, Mark, MemorySink, OrderedSink, Sink};
use crate::transfer::attempt::Calls;
use crate::transfer::limits::{BYPASS_CACHES_FROM_BYTES, ORDERED_SHARE, STREAM_BYTES};

/// What chunks on their way into memory may hold, besides the blob.
const MEMORY_SLACK_BYTES: u64 = 32 << 20;

/// Hashed at once in a buffer: a millisecond at most.
const FOLLOW_BYTES: u64 = 1 << 20;

/// What one stream may hold of this budget.
pub(super) fn stream_bytes(budget: &Budget) -> u64 {
    STREAM_BYTES.min(budget.limits().bytes / ORDERED_SHARE)
}

/// How the blob arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// In pieces, each with what it holds granted beforehand.
    Chunks,
    /// As one stream.
    Whole,
}

/// What goes with a sink.
pub(super) struct Destination {
    blob: Digest,
    hashing: Hashing,
    reader: Option<Arc<File>>,
    /// What pays for chunks on their way.
    pub(super) bytes: Budget,
    /// What the user may want to know.
    pub(super) notes: Vec<String>,
}

/// What is known of a blob that has arrived.
pub(super) struct Committed {
    pub(super) memory: Option<Bytes>,
    /// What the user may want to know.
    pub(super) note: Option<String>,
}

enum Hashing {
    File(follow::Hashing),
    Memory(JoinSet<Result<Checksum>>),
    /// The sink does it.
    Ordered,
}

/// A part file names its blob by what pins it: the digest, from whatever store.
fn identity(blob: &Digest) -> Identity {
    Identity {
        source: source(blob),
        // For every cache and every caller: the digest is the proof.
        selected: None,
        revision: None,
        coding: None,
        version: Version::ETag(format!("\"{blob}\"")),
        len_bytes: blob.len,
        crc: CrcName::Crc32c,
    }
}

/// What a part file's journal calls the blob.
pub(super) fn source(blob: &Digest) -> String {
    format!("digest:{blob}")
}

impl Destination {
    /// Makes the sink. `kept` is what of a part file is right.
    pub(super) async fn open(
        prepared: Prepared,
        blob: Digest,
        kept: Vec<Mark>,
        arrival: Arrival,
        options: &ChunkedDownloadOptions,
        calls: &Calls,
    ) -> Result<(Sink, Self)> {
        let budget = calls.budget.clone();
        match prepared {
            Prepared::File { part, .. } => {
                let begun = begin(*part, blob, kept.clone()).await?;
                Self::file(begun, blob, &kept, arrival, options, budget).await
            }
            Prepared::Writer { writer, name } => {
                Self::ordered(writer, name, blob, arrival, budget, calls).await
            }
            Prepared::Discard => {
                // The hash of the whole needs the bytes in order even if nobody else does.
                let (writer, name) = (Box::new(io::sink()), "/dev/null".to_owned());
                Self::ordered(writer, name, blob, arrival, budget, calls).await
            }
            Prepared::Buffer(sink) => Self::memory(sink, blob, budget),
            Prepared::Memory => {
                let (sink, bytes) = set_aside(blob.len, options, calls).await?;
                Self::memory(sink, blob, bytes)
            }
        }
    }

    async fn file(
        begun: Begun,
        blob: Digest,
        kept: &[Mark],
        arrival: Arrival,
        options: &ChunkedDownloadOptions,
        bytes: Budget,
    ) -> Result<(Sink, Self)> {
        let Begun { part, contents, reader } = begun;
        let part_file::Begun { journal, note } = contents;
        let failed = |error| storage_error(Operation::Write, &part.target.display(), error);
        let progress = Arc::new(match arrival {
            Arrival::Chunks => Progress::lending(),
            Arrival::Whole => Progress::default(),
        });
        for mark in kept {
            progress.written(mark.start..mark.start + mark.crc.len());
        }
        let file = reader.try_clone().map_err(failed)?;
        let hashing = match follow::follow(file, Arc::clone(&progress), vec![hasher(&blob)?]) {
            Ok(thread) => Hashing::File(thread),
            Err(error) => {
                let name = part.target.display();
                leave(part, true).await;
                return Err(Error::no_thread(Operation::Verify, name, error));
            }
        };
        // Whatever ends the sink closes `progress`, and so ends the hashing.
        match FileSink::new(part, journal, Some(progress), options.durability) {
            Ok(sink) => {
                let notes = note.into_iter().collect();
                Ok((Sink::File(sink), Self { blob, hashing, reader: Some(reader), bytes, notes }))
            }
            Err(failed) => {
                let (part, error) = *failed;
                leave(part, true).await;
                Err(error)
            }
        }
    }

    async fn ordered(
        writer: Box<dyn Write + Send>,
        name: String,
        blob: Digest,
        arrival: Arrival,
        bytes: Budget,
        calls: &Calls,
    ) -> Result<(Sink, Self)> {
        let (granted, reserved_end) = match arrival {
            Arrival::Chunks => (0, 0),
            Arrival::Whole => (stream_bytes(&bytes), u64::MAX),
        };
        let permit = calls.unless_cancelled(bytes.bytes(granted)).await?;
        let hashers = vec![hasher(&blob)?];
        let sink = OrderedSink::new(0, permit, reserved_end, writer, hashers, name)?;
        let (hashing, notes) = (Hashing::Ordered, Vec::new());
        Ok((Sink::Ordered(sink), Self { blob, hashing, reader: None, bytes, notes }))
    }

    fn memory(sink: MemorySink, blob: Digest, bytes: Budget) -> Result<(Sink, Self)> {
        let mut hashing = JoinSet::new();
        hashing.spawn(follow_buffer(Arc::clone(sink.buffer()), blob.len, hasher(&blob)?));
        let hashing = Hashing::Memory(hashing);
        Ok((Sink::Memory(sink), Self { blob, hashing, reader: None, bytes, notes: Vec::new() }))
    }

    /// Reads the file that is written, where it is one.
    pub(super) fn reader(&self) -> Option<Arc<File>> {
        self.reader.clone()
    }

    /// Begins again where that can be done: a part file is emptied; what other sinks have been
    /// given stays. Says whether the sink is empty.
    pub(super) async fn restart(
        self,
        sink: Sink,
        options: &ChunkedDownloadOptions,
    ) -> Result<(Sink, Self, bool)> {
        let Sink::File(sink) = sink else { return Ok((sink, self, false)) };
        let Finished { part, written, .. } = sink.finish().await;
        let _ = self.hashing.file(0).await;
        written?;
        let Some(part) = part else { return Err(ended(&self.blob)) };
        let begun = begin(part, self.blob, Vec::new()).await?;
        let fresh = Self::file(begun, self.blob, &[], Arrival::Whole, options, self.bytes);
        let (sink, fresh) = fresh.await?;
        Ok((sink, fresh, true))
    }

    /// All bytes are there: proves them, and gives a file its name.
    pub(super) async fn commit(
        self,
        sink: Sink,
        options: &ChunkedDownloadOptions,
        calls: &Calls,
    ) -> Result<Committed> {
        let blob = self.blob;
        let nothing = Committed { memory: None, note: None };
        match sink {
            Sink::Ordered(sink) => {
                // Flushing waits for whoever reads the output, which a cancelled download does not.
                let sums = calls.unless_cancelled(sink.finish()).await??;
                prove(&blob, sums.first()).map(|()| nothing)
            }
            Sink::Memory(sink) => match self.hashing.memory(&blob).await {
                Ok(()) => {
                    if sink.covers_shards {
                        sink.detach();
                    }
                    Ok(Committed { memory: Some(sink.finish(blob.len)?), ..nothing })
                }
                Err(error) => {
                    sink.fail(&error);
                    Err(error)
                }
            },
            Sink::File(sink) => {
                let Finished { part, written, note } = sink.finish().await;
                let hashed = self.hashing.file(blob.len).await;
                let Some(part) = part else { return Err(ended(&blob)) };
                if let Err(error) = written {
                    let rest = leave(part, true).await;
                    return Err(error.with_rest(rest));
                }
                match hashed.and_then(|sum| prove(&blob, sum.as_ref())) {
                    Ok(()) => {
                        let durability = options.durability;
                        blocking(move || part.commit(blob.len, durability)).await?;
                        Ok(Committed { note, ..nothing })
                    }
                    Err(error) => {
                        let rest = leave(part, error.kind() != ErrorKind::Integrity).await;
                        Err(error.with_rest(rest))
                    }
                }
            }
            Sink::Discard => Err(ended(&blob)),
        }
    }

    /// The download failed with `error`: keeps what a later attempt can use, and says what is left.
    pub(super) async fn abandon(self, sink: Sink, error: &Error) -> Rest {
        match sink {
            Sink::Memory(sink) => {
                sink.fail(error);
                if let Hashing::Memory(mut task) = self.hashing {
                    task.shutdown().await;
                }
            }
            Sink::File(sink) => {
                let part = sink.finish().await.part;
                let _ = self.hashing.file(0).await;
                if let Some(part) = part {
                    // Wrong bytes have not been written, but where one stream brought the whole.
                    return leave(part, error.kind() != ErrorKind::Changed).await;
                }
            }
            Sink::Ordered(sink) => sink.abort(),
            Sink::Discard => {}
        }
        Rest::Nothing
    }
}

impl Hashing {
    /// What the thread made of a file of `len` bytes; `None` where not all of it was there.
    async fn file(self, len: u64) -> Result<Option<Checksum>> {
        let Self::File(thread) = self else { return Ok(None) };
        let failed =
            |message: &str| Error::new(ErrorKind::Storage, Operation::Verify, "file", message);
        blocking(move || match thread.join() {
            Ok(Ok((hashed, sums))) if hashed == len => Ok(sums.into_iter().next()),
            Ok(Ok(_)) => Ok(None),
            Ok(Err(error)) => Err(failed("it cannot be read back").caused_by(error)),
            Err(_panic) => Err(failed("the hashing thread ended")),
        })
        .await
    }

    async fn memory(self, blob: &Digest) -> Result<()> {
        let Self::Memory(mut task) = self else { return Err(ended(blob)) };
        match task.join_next().await {
            Some(Ok(sum)) => prove(blob, Some(&sum?)),
            _ => Err(ended(blob)),
        }
    }
}

/// A part file that is about to be written.
struct Begun {
    part: PartFile,
    contents: part_file::Begun,
    reader: Arc<File>,
}

/// Gives a part file its room and journal, over what is to be kept of it.
async fn begin(part: PartFile, blob: Digest, kept: Vec<Mark>) -> Result<Begun> {
    blocking(move || {
        let identity = identity(&blob);
        let begun = if kept.is_empty() {
            part.begin(blob.len, Some(&identity))
        } else {
            part.begin_over(&identity, &kept)
        };
        let read = || {
            let failed = |error| storage_error(Operation::Read, &part.target.display(), error);
            part.reader().map(Arc::new).map_err(failed)
        };
        match begun.and_then(|begun| Ok((begun, read()?))) {
            Ok((contents, reader)) => Ok(Begun { part, contents, reader }),
            Err(error) if kept.is_empty() => {
                part.remove();
                Err(error)
            }
            Err(error) => Err(error.with_rest(Rest::Kept)),
        }
    })
    .await
}

/// Removes a part file, unless it is worth keeping and holds something; says what is left.
async fn leave(part: PartFile, worth_keeping: bool) -> Rest {
    let rest = blocking(move || {
        if worth_keeping && part.remembers() {
            return Ok(Rest::Kept);
        }
        part.remove();
        Ok(Rest::Lost)
    });
    rest.await.unwrap_or(Rest::Nothing)
}

/// Memory for a blob of `len` bytes, and what pays for chunks on their way into it: everything is
/// taken from the budget at once.
async fn set_aside(
    len: u64,
    options: &ChunkedDownloadOptions,
    calls: &Calls,
) -> Result<(MemorySink, Budget)> {
    let limits = calls.budget.limits();
    if len > limits.bytes {
        let message = format!("its {len} bytes do not fit the memory budget of {}", limits.bytes);
        let error = calls.error(ErrorKind::Invalid, message);
        return Err(error.with_hint("raise the budget, or fetch it into a file"));
    }
    let committed = committed_bytes(len);
    let pool = (committed <= limits.bytes).then(|| options.pool.clone());
    let blob = if pool.is_some() { committed } else { len };
    let slack = MEMORY_SLACK_BYTES.min(len).min(limits.bytes / ORDERED_SHARE);
    let needed = blob.saturating_add(slack).min(limits.bytes);
    let permit = calls.unless_cancelled(calls.budget.bytes(needed)).await?;
    let buffer = ShardBuffer::new(ShardBufferOptions {
        len_hint: Some(len),
        limit_bytes: len,
        granted: Some(permit),
        pool,
        bypass_caches: len >= BYPASS_CACHES_FROM_BYTES,
        ..ShardBufferOptions::default()
    })?;
    let slack = Budget::new(BudgetOptions { bytes: slack, ..limits });
    Ok((MemorySink::new(Arc::new(buffer), true), slack))
}

/// Hashes a buffer in order as it fills.
async fn follow_buffer(
    buffer: Arc<ShardBuffer>,
    len: u64,
    mut hasher: Checksummer,
) -> Result<Checksum> {
    let mut done = 0;
    while done < len {
        let end = done.saturating_add(FOLLOW_BYTES).min(len);
        buffer.wait_for(done..end).await?;
        let bytes = buffer.slice(done..end)?;
        hasher = blocking(move || {
            hasher.update(&bytes);
            Ok(hasher)
        })
        .await?;
        done = end;
    }
    Ok(hasher.finish())
}

fn prove(blob: &Digest, actual: Option<&Checksum>) -> Result<()> {
    let expected = blob.checksum();
    match actual {
        Some(actual) if *actual == expected => Ok(()),
        actual => {
            let got = actual.map_or("not all of it".to_owned(), ToString::to_string);
            let message = format!("expected {expected}, got {got}");
            Err(Error::new(ErrorKind::Integrity, Operation::Verify, blob.to_string(), message))
        }
    }
}

/// Only where a thread or a task of ours is gone.
fn ended(blob: &Digest) -> Error {
    let message = "what writes or hashes it ended early";
    Error::new(ErrorKind::Storage, Operation::Download, blob.to_string(), message)
}
