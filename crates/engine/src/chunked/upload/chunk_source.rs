//! [`ChunkSource`]: a long run of the file as the source of one put, read a piece at a time while
//! it is sent.
//!
//! One piece is read ahead while the previous one is sent. The bytes are hashed again in order as
//! they are read (see `source`). The last bytes are delivered only if the hash of the whole run
//! matches its digest. So a put with other content never completes.
//!
//! Invariants: the pieces that are held here and the one that the store holds are charged to the
//! permit. The permit is released when the last of them is dropped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use tidegate_core::checksum::{Checksum, Checksummer};
use tidegate_core::digest::Digest;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::held::HeldBytes;
use super::ledger::UploadChunk;
use super::source::SourceFile;
use crate::chunked::{PutSource, SendProgress};
use crate::error::{Error, ErrorKind, Operation, Result};

/// The largest piece. At this size the cost of a blocking thread is negligible, and a put holds
/// little.
const PIECE_BYTES_MAX: u64 = 1 << 20;

/// Pieces held at once: one read ahead, one delivered in parts, one on its way through the store.
const PIECES_HELD: u64 = 3;

/// Marks that no offset is known, because nothing has been read.
const NOWHERE: u64 = u64::MAX;

/// The bytes reserved from the budget for a put of `len` bytes.
pub(super) fn held_bytes(len: u64) -> u64 {
    len.min(PIECES_HELD * PIECE_BYTES_MAX)
}

/// A run of the file that is put.
#[derive(Debug)]
pub(super) struct ChunkSource {
    file: Arc<SourceFile>,
    start: u64,
    digest: Digest,
    piece_bytes: u64,
    held: HeldBytes,
    reading: Mutex<Reading>,
    /// The offset of the first read of the current attempt, or [`NOWHERE`].
    began: AtomicU64,
    /// Progress of the current attempt.
    sending: StdMutex<SendProgress>,
    failure: StdMutex<Option<Error>>,
}

#[derive(Debug, Default)]
struct Reading {
    /// The piece that was read last, and its offset in the run.
    last: Option<(u64, Bytes)>,
    /// The piece that is being read, and its offset in the run.
    ahead: Option<(u64, Reader)>,
    /// `None` while a reader thread has it.
    check: Option<Check>,
}

/// A thread that reads a piece, and hashes it.
type Reader = JoinHandle<Result<(Bytes, Check)>>;

/// The hash of the run's first bytes.
#[derive(Debug)]
struct Check {
    checksummer: Option<Checksummer>,
    hashed_bytes: u64,
}

impl ChunkSource {
    /// The bytes of `piece`, read into the memory of `held`.
    pub(super) fn new(file: Arc<SourceFile>, piece: &UploadChunk, held: HeldBytes) -> Self {
        Self {
            file,
            start: piece.offset,
            digest: piece.digest,
            piece_bytes: (held.bytes() / PIECES_HELD).clamp(1, PIECE_BYTES_MAX),
            held,
            reading: Mutex::default(),
            began: AtomicU64::new(NOWHERE),
            sending: StdMutex::default(),
            failure: StdMutex::default(),
        }
    }

    /// The offset at which the current attempt began to read. The store has kept the bytes before
    /// it. The store may have lost bytes that this attempt read.
    pub(super) fn kept(&self) -> Option<u64> {
        Some(self.began.load(Ordering::Relaxed)).filter(|offset| *offset != NOWHERE)
    }

    /// The reason why reading failed, if it did. The store's own error may only say that it got no
    /// bytes.
    pub(super) fn take_failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Starts another attempt.
    pub(super) fn begin(&self, sending: &SendProgress) {
        *self.sending.lock().unwrap_or_else(PoisonError::into_inner) = sending.clone();
        self.began.store(NOWHERE, Ordering::Relaxed);
    }

    /// Up to `len_max` bytes from `offset`, which is before the end.
    async fn piece(&self, offset: u64, len_max: u64) -> Result<Bytes> {
        let mut reading = self.reading.lock().await;
        if let Some(bytes) = reading.slice(offset, len_max) {
            return Ok(bytes);
        }
        // Released before another piece is read: the bytes held are bounded.
        reading.last = None;
        if !matches!(&reading.ahead, Some((ahead, _)) if *ahead == offset) {
            // Not the offset that was read ahead. The hash comes back with the piece that is not
            // needed.
            let check = match reading.ahead.take() {
                Some((_, unwanted)) => self.join(unwanted).await.ok().map(|(_, check)| check),
                None => reading.check.take(),
            };
            reading.ahead = Some((offset, self.read(offset, check)));
        }
        let Some((_, reader)) = &mut reading.ahead else { return Ok(Bytes::new()) };
        // CANCEL: a reader that is not done stays where it is.
        let outcome = self.join(reader).await;
        reading.ahead = None;
        let (bytes, check) = outcome?;
        let next = offset + bytes.len() as u64;
        reading.last = Some((offset, bytes));
        if next < self.digest.len {
            reading.ahead = Some((next, self.read(next, Some(check))));
        } else {
            reading.check = Some(check);
        }
        Ok(reading.slice(offset, len_max).unwrap_or_default())
    }

    /// Reads a piece on a blocking thread, and hashes what was not hashed yet.
    fn read(&self, offset: u64, check: Option<Check>) -> Reader {
        let (file, held) = (Arc::clone(&self.file), self.held.clone());
        let (start, digest) = (self.start, self.digest);
        let piece_bytes = self.piece_bytes;
        tokio::task::spawn_blocking(move || {
            let mut check = check.unwrap_or_else(|| Check::new(&digest));
            // An earlier attempt of another upload may have left the store more bytes than were
            // read here.
            while check.hashed_bytes < offset {
                let len = piece_bytes.min(offset - check.hashed_bytes);
                let bytes = read(&file, start + check.hashed_bytes, len, &held)?;
                check.update(&bytes);
            }
            let bytes = read(&file, start + offset, piece_bytes.min(digest.len - offset), &held)?;
            let end = offset + bytes.len() as u64;
            // Bytes that are read again are already in the hash.
            let fresh = end.saturating_sub(check.hashed_bytes).min(bytes.len() as u64);
            let known = bytes.len() - usize::try_from(fresh).unwrap_or(bytes.len());
            check.update(&bytes[known..]);
            if end == digest.len && check.hashed_bytes == end {
                file.check_unchanged()?;
                match check.finish() {
                    Some(actual) if actual != digest.checksum() => {
                        return Err(file.differs(&digest).at(start..start + digest.len));
                    }
                    Some(_) => file.compared_with(&digest),
                    None => {}
                }
            }
            Ok((bytes, check))
        })
    }

    async fn join(
        &self,
        reader: impl Future<Output = Result<Result<(Bytes, Check)>, tokio::task::JoinError>>,
    ) -> Result<(Bytes, Check)> {
        reader.await.unwrap_or_else(|error| {
            let message = "the runtime is shutting down";
            let name = &**self.file.name();
            Err(Error::new(ErrorKind::Cancelled, Operation::Upload, name, message).caused_by(error))
        })
    }
}

#[async_trait]
impl PutSource for ChunkSource {
    async fn read(&self, offset: u64, len_max: usize) -> Result<Bytes> {
        if offset >= self.digest.len || len_max == 0 {
            // A store that already has all bytes reads at the end only.
            let order = Ordering::Relaxed;
            let _ = self.began.compare_exchange(NOWHERE, offset.min(self.digest.len), order, order);
            self.sending.lock().unwrap_or_else(PoisonError::into_inner).passed_all();
            return Ok(Bytes::new());
        }
        match self.piece(offset, len_max as u64).await {
            Ok(bytes) => {
                // Only the first read of an attempt sets it.
                let order = Ordering::Relaxed;
                let _ = self.began.compare_exchange(NOWHERE, offset, order, order);
                let sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
                sending.passed(bytes.len() as u64);
                if offset + bytes.len() as u64 == self.digest.len {
                    sending.passed_all();
                }
                drop(sending);
                Ok(bytes)
            }
            Err(error) => {
                // The store gets a short error, and the full one is kept: the store's own error may
                // say less.
                let short = Error::new(
                    error.kind(),
                    Operation::Upload,
                    error.target(),
                    "it cannot be read",
                );
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert(error);
                Err(short)
            }
        }
    }
}

impl Reading {
    /// The part of the last piece from `offset` on.
    fn slice(&self, offset: u64, len_max: u64) -> Option<Bytes> {
        let (start, bytes) = self.last.as_ref()?;
        let skip = usize::try_from(offset.checked_sub(*start)?).ok()?;
        let left = bytes.len().checked_sub(skip).filter(|left| *left > 0)?;
        let len = left.min(usize::try_from(len_max).unwrap_or(usize::MAX));
        Some(bytes.slice(skip..skip + len))
    }
}

impl Check {
    fn new(digest: &Digest) -> Self {
        // Every function that names blobs can be computed, so this is always `Some`.
        Self { checksummer: Checksummer::new(digest.function.algorithm()).ok(), hashed_bytes: 0 }
    }

    fn update(&mut self, bytes: &[u8]) {
        if let Some(checksummer) = &mut self.checksummer {
            checksummer.update(bytes);
        }
        self.hashed_bytes += bytes.len() as u64;
    }

    fn finish(&self) -> Option<Checksum> {
        self.checksummer.clone().map(Checksummer::finish)
    }
}

fn read(file: &SourceFile, offset: u64, len: u64, held: &HeldBytes) -> Result<Bytes> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    held.filled(len, |bytes| file.read(offset, bytes))
}
