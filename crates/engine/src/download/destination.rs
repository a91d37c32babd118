//! The sink of one download from its making to its end: what is made before the first byte, and
//! what happens to it when all bytes are there, or when they are not.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_core::checksum::Checksum;

use super::checks::{Checks, Proof};
use super::opening::Opening;
use super::resume::{self, Belief};
use super::target::{Prepared, blocking};
use super::{ShardedDownloadOptions, cancelled};
use crate::budget::BytesPermit;
use crate::buffer::{ShardBuffer, ShardBufferOptions, committed_bytes};
use crate::error::{Error, ErrorKind, Operation, Rest, Result};
use crate::read::Known;
use crate::remote::Location;
use crate::sink::file::follow::{self, Hashing, Progress};
use crate::sink::file::journal::{Identity, Journal};
use crate::sink::file::part_file::{Begun, PartFile};
use crate::sink::file::target::storage_error;
use crate::sink::file::writer::Finished;
use crate::sink::{FileSink, MemorySink, OrderedSink, Sink};
use crate::transfer::limits::{BYPASS_CACHES_FROM_BYTES, UNIT_BYTES};

/// A sink, and the thread that hashes beside it.
pub(super) struct Destination {
    pub(super) sink: Sink,
    hashing: Option<Hashing>,
    resumable: bool,
    /// What the user may want to know.
    pub(super) notes: Vec<String>,
}

/// What is known of a blob that has arrived.
pub(super) struct Committed {
    pub(super) proof: Proof,
    pub(super) memory: Option<Bytes>,
    /// What the user may want to know.
    pub(super) note: Option<String>,
}

impl Destination {
    pub(super) async fn new(
        prepared: Prepared,
        location: &Location,
        opening: &mut Opening,
        checks: &Checks,
        permit: BytesPermit,
        options: &ShardedDownloadOptions,
    ) -> Result<(Self, Option<BytesPermit>)> {
        let plain = |sink| Self { sink, hashing: None, resumable: false, notes: Vec::new() };
        let start = opening.range.start;
        // The first shard's bytes were granted before its request; an ordered sink keeps them.
        let first_end = match &opening.channel {
            Some(channel) => channel.end().unwrap_or(u64::MAX),
            None => start,
        };
        match prepared {
            Prepared::File { part, .. } => {
                let file = Self::file(*part, location, opening, checks, options).await?;
                Ok((file, Some(permit)))
            }
            Prepared::Writer { writer, name } => {
                let hashers = checks.hashers();
                let sink = OrderedSink::new(start, permit, first_end, writer, hashers, name)?;
                Ok((plain(Sink::Ordered(sink)), None))
            }
            // Hashes that cannot be combined need the bytes in order even if nobody else does.
            Prepared::Discard if !checks.hashes.is_empty() => {
                let writer = Box::new(io::sink());
                let (hashers, name) = (checks.hashers(), "/dev/null");
                let sink = OrderedSink::new(start, permit, first_end, writer, hashers, name)?;
                Ok((plain(Sink::Ordered(sink)), None))
            }
            Prepared::Discard => Ok((plain(Sink::Discard), Some(permit))),
            Prepared::Buffer(sink) => Ok((plain(Sink::Memory(sink)), Some(permit))),
            Prepared::Memory => {
                let sink = Self::memory(location, opening, permit, options).await?;
                Ok((plain(Sink::Memory(sink)), None))
            }
        }
    }

    async fn file(
        part: PartFile,
        location: &Location,
        opening: &mut Opening,
        checks: &Checks,
        options: &ShardedDownloadOptions,
    ) -> Result<Self> {
        let len = opening.info.len_bytes.filter(|_| opening.range.end != u64::MAX);
        let identity = match (&opening.info.version, len, opening.partial) {
            (Some(version), Some(len_bytes), false) => Some(Identity {
                source: location.display().to_owned(),
                selected: part.selected(location.selection().as_ref()),
                version: version.clone(),
                revision: opening.info.revision.clone(),
                coding: Known::of(&opening.info).coding,
                len_bytes,
                crc: checks.crc.into(),
            }),
            _ => None,
        };
        // A journal that no later run would believe is not written.
        let hashed = || resume::can_prove(Belief::ByHash, &opening.info, &options.expected);
        let identity = identity.filter(|_| part.has_key() || hashed());
        let journal = opening.journal.take();
        let room = len.map_or(0, |len| opening.range.end.min(len) - opening.range.start);
        let (part, Begun { journal, note }) = begin(part, room, identity, journal).await?;
        let resumable = journal.is_some();
        let mut hashing = None;
        let mut progress = None;
        if !checks.hashes.is_empty() {
            let failed = |error| storage_error(Operation::Write, &part.target.display(), error);
            let follower = Arc::new(Progress::default());
            for mark in &opening.resumed {
                follower.written(mark.start..mark.start + mark.crc.len());
            }
            let file = part.file.try_clone().map_err(failed)?;
            match follow::follow(file, Arc::clone(&follower), checks.hashers()) {
                Ok(thread) => hashing = Some(thread),
                Err(error) => {
                    let name = part.target.display();
                    leave(part, resumable, options).await;
                    return Err(Error::no_thread(Operation::Verify, name, error));
                }
            }
            progress = Some(follower);
        }
        match FileSink::new(part, journal, progress, options.durability) {
            Ok(sink) => {
                let notes = note.into_iter().collect();
                Ok(Self { sink: Sink::File(sink), hashing, resumable, notes })
            }
            Err(failed) => {
                let (part, error) = *failed;
                leave(part, resumable, options).await;
                Err(error)
            }
        }
    }

    async fn memory(
        location: &Location,
        opening: &mut Opening,
        permit: BytesPermit,
        options: &ShardedDownloadOptions,
    ) -> Result<MemorySink> {
        let range = opening.range.clone();
        let refuse =
            |kind, message: String| Error::new(kind, Operation::Write, location.display(), message);
        if range.end == u64::MAX {
            return Err(refuse(
                ErrorKind::Unsupported,
                "its length is not told, so no memory can be set aside".to_owned(),
            ));
        }
        let len = range.end - range.start;
        let limit = options.budget.limits().bytes;
        if len > limit {
            return Err(refuse(
                ErrorKind::Invalid,
                format!("its {len} bytes do not fit the memory budget of {limit}"),
            )
            .with_hint("raise the budget, or fetch it into a file"));
        }
        let shards = len.div_ceil(options.shard_bytes_min.max(1)).min(options.window.into());
        // Recycled memory is counted in huge pages, which the budget may be too small for.
        let committed = committed_bytes(len);
        let pool = (committed <= limit).then(|| options.pool.clone());
        let blob = if pool.is_some() { committed } else { len };
        let needed = (blob + shards * UNIT_BYTES).min(limit);
        let more = needed.saturating_sub(permit.bytes());
        let permit = if let Some(more) = options.budget.try_bytes(more) {
            let mut permit = permit;
            permit.merge(more);
            permit
        } else {
            // Others need bytes to finish, and perhaps this request: lets go of both.
            drop(permit);
            if let Some(channel) = opening.channel.as_mut() {
                channel.suspend();
            }
            options.budget.bytes(needed).await
        };
        let buffer = ShardBuffer::new(ShardBufferOptions {
            len_hint: Some(len),
            limit_bytes: len,
            granted: Some(permit),
            pool,
            bypass_caches: len >= BYPASS_CACHES_FROM_BYTES,
            ..ShardBufferOptions::default()
        })?;
        Ok(MemorySink::new(Arc::new(buffer), true))
    }

    /// All bytes are there: proves them, and gives a file its name.
    pub(super) async fn commit(
        self,
        crc: Checksum,
        checks: &Checks,
        len: u64,
        location: &Location,
        options: &ShardedDownloadOptions,
    ) -> Result<Committed> {
        let mut computed = vec![crc];
        let proved = |proof| Committed { proof, memory: None, note: None };
        match self.sink {
            Sink::Discard => Ok(proved(checks.prove(computed, location.display())?)),
            Sink::Ordered(sink) => {
                computed.extend(finish_ordered(sink, location, options).await?);
                Ok(proved(checks.prove(computed, location.display())?))
            }
            Sink::Memory(sink) => {
                let proof = match hash(&sink, len, checks).await {
                    Ok(hashes) => {
                        computed.extend(hashes);
                        checks.prove(computed, location.display())
                    }
                    Err(error) => Err(error),
                };
                match proof {
                    Ok(proof) => {
                        if sink.covers_shards {
                            sink.detach();
                        }
                        Ok(Committed { memory: Some(sink.finish(len)?), ..proved(proof) })
                    }
                    Err(error) => {
                        sink.fail(&error);
                        Err(error)
                    }
                }
            }
            Sink::File(sink) => {
                let Finished { part, written, note } = sink.finish().await;
                let hashed = join_hashing(self.hashing, len).await;
                let part = match (part, written) {
                    (Some(part), Ok(())) => part,
                    (Some(part), Err(error)) => {
                        let rest = leave(part, self.resumable, options).await;
                        return Err(error.with_rest(rest));
                    }
                    (None, written) => {
                        let message = "the thread that wrote the file is gone";
                        let lost = || {
                            let (kind, operation) = (ErrorKind::Storage, Operation::Write);
                            Error::new(kind, operation, location.display(), message)
                        };
                        return Err(written.err().unwrap_or_else(lost));
                    }
                };
                computed.extend(hashed?);
                match checks.prove(computed, location.display()) {
                    Ok(proof) => {
                        let durability = options.durability;
                        blocking(move || part.commit(len, durability)).await?;
                        Ok(Committed { note, ..proved(proof) })
                    }
                    Err(error) => {
                        // Some extent is wrong, and nobody can say which.
                        let _ = blocking(move || {
                            part.remove();
                            Ok(())
                        })
                        .await;
                        Err(error)
                    }
                }
            }
        }
    }

    /// The download failed with `error`: keeps what a later run can resume, and says what is left.
    pub(super) async fn abandon(self, error: &Error, options: &ShardedDownloadOptions) -> Rest {
        let worthless = matches!(error.kind(), ErrorKind::Integrity | ErrorKind::Changed);
        match self.sink {
            Sink::Memory(sink) => sink.fail(error),
            Sink::File(sink) => {
                let part = sink.finish().await.part;
                let _ = join_hashing(self.hashing, 0).await;
                if let Some(part) = part {
                    return leave(part, self.resumable && !worthless, options).await;
                }
            }
            Sink::Ordered(_) | Sink::Discard => {}
        }
        Rest::Nothing
    }
}

/// Keeps a part file that a later run can go on with, if it is worth that, or removes it.
async fn leave(part: PartFile, worth_keeping: bool, options: &ShardedDownloadOptions) -> Rest {
    let had_any = options.progress.snapshot().done_bytes > 0;
    let rest = blocking(move || {
        if worth_keeping && part.remembers() {
            return Ok(Rest::Kept);
        }
        part.remove();
        Ok(if had_any { Rest::Lost } else { Rest::Nothing })
    });
    rest.await.unwrap_or(Rest::Nothing)
}

/// Gives a new part file its room and journal; an earlier run's stays as it is.
async fn begin(
    part: PartFile,
    len: u64,
    identity: Option<Identity>,
    journal: Option<Journal>,
) -> Result<(PartFile, Begun)> {
    blocking(move || {
        if journal.is_some() {
            return Ok((part, Begun { journal, note: None }));
        }
        match part.begin(len, identity.as_ref()) {
            Ok(begun) => Ok((part, begun)),
            Err(error) => {
                part.remove();
                Err(error)
            }
        }
    })
    .await
}

/// Flushing waits for whoever reads the output, which a cancelled download does not.
async fn finish_ordered(
    sink: OrderedSink,
    location: &Location,
    options: &ShardedDownloadOptions,
) -> Result<Vec<Checksum>> {
    tokio::select! {
        biased;
        () = options.cancel.cancelled() => Err(cancelled(location)),
        sums = sink.finish() => sums,
    }
}

async fn hash(sink: &MemorySink, len: u64, checks: &Checks) -> Result<Vec<Checksum>> {
    let mut hashers = checks.hashers();
    if hashers.is_empty() {
        return Ok(Vec::new());
    }
    let bytes = sink.bytes(len)?;
    blocking(move || {
        for hasher in &mut hashers {
            hasher.update(&bytes);
        }
        Ok(hashers.into_iter().map(tidegate_core::checksum::Checksummer::finish).collect())
    })
    .await
}

/// What the hashing thread made of a file of `len` bytes.
async fn join_hashing(hashing: Option<Hashing>, len: u64) -> Result<Vec<Checksum>> {
    let Some(thread) = hashing else { return Ok(Vec::new()) };
    let failed = |message: &str| Error::new(ErrorKind::Storage, Operation::Verify, "file", message);
    blocking(move || match thread.join() {
        Ok(Ok((hashed, sums))) if hashed == len => Ok(sums),
        Ok(Ok(_)) => Err(failed("not all of it was written")),
        Ok(Err(error)) => Err(failed("it cannot be read back").caused_by(error)),
        Err(_panic) => Err(failed("the hashing thread ended")),
    })
    .await
}
