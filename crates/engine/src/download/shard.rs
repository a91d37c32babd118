//! One reader's way from the network to the sink: frames are claimed, summed, gathered into
//! batches, and handed over with a mark every so often.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tidegate_core::checksum::{Crc, CrcAlgorithm};
use tidegate_core::parts::CrcParts;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::piece::Piece;
use crate::budget::BytesPermit;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::progress::Progress;
use crate::read::RangeStream;
use crate::sink::{Batch, Mark, Sink};

/// Frames for an ordered sink may wait for as long as the slowest shard: whatever does not fill the
/// transport's largest read is copied.
const ORDERED_COPIED_BELOW_BYTES: usize = 256 << 10;

/// Frames for a file wait for one batch: only those are copied that would hold several times their
/// length. Links that bring such short frames are not those where a copy shows.
const BATCHED_COPIED_BELOW_BYTES: usize = 64 << 10;

/// What all shards of one download share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) sink: Sink,
    pub(super) parts: Mutex<CrcParts>,
    pub(super) progress: Arc<Progress>,
    /// Ends every shard: the download was cancelled, or another shard has failed.
    pub(super) stop: CancellationToken,
    /// Offset in the blob of the sink's first byte.
    pub(super) origin: u64,
    /// Bytes gathered before they are handed to the sink.
    pub(super) batch_bytes: u64,
    /// Bytes after which a mark is made.
    pub(super) mark_bytes: u64,
}

/// Reads `channel` into the sink until the piece is finished, by this reader or by another.
/// What was claimed is handed over and marked, whatever ends it.
pub(super) async fn read(
    piece: &Piece,
    mut channel: RangeStream,
    shared: &Shared,
    _permit: Option<BytesPermit>,
) -> Result<()> {
    let mut run = Run::new(shared);
    let outcome = claim_frames(piece, &mut channel, &mut run, shared).await;
    let target = shared.sink_name();
    let is_unsound = channel.is_unsound();
    drop(channel);
    let handed_over = run.flush(true).await;
    let last = piece.leave();
    match outcome {
        // What this reader claimed cannot be used, also where another reader finishes.
        Err(error) if is_unsound => Err(error),
        // Whoever still races may well finish.
        Err(_) if !last && handed_over.is_ok() => Ok(()),
        Err(error) => Err(error),
        Ok(()) if shared.stop.is_cancelled() => handed_over,
        Ok(()) if last && !piece.is_finished() => Err(Error::new(
            ErrorKind::Transport,
            Operation::Read,
            target,
            "a shard ended before its range did",
        )),
        Ok(()) => handed_over,
    }
}

async fn claim_frames(
    piece: &Piece,
    channel: &mut RangeStream,
    run: &mut Run<'_>,
    shared: &Shared,
) -> Result<()> {
    loop {
        // CANCEL: `next` is cancel-safe, and nothing else is awaited here.
        let frame = tokio::select! {
            biased;
            () = shared.stop.cancelled() => return Ok(()),
            () = piece.finished() => break,
            frame = channel.next() => frame?,
        };
        let Some(frame) = frame else {
            piece.ended_at(channel.position());
            break;
        };
        let len = frame.len() as u64;
        let offset = channel.position() - len;
        let claimed = piece.claim(offset, len);
        if claimed.is_empty() {
            continue;
        }
        // Both ends lie within the frame, whose length is a usize.
        let within = |at: u64| usize::try_from(at - offset).unwrap_or(usize::MAX);
        let bytes = frame.slice(within(claimed.start)..within(claimed.end));
        shared.progress.done(bytes.len() as u64);
        run.push(claimed.start, bytes).await?;
    }
    // CANCEL: the last byte stays where it is, and only its proof is waited for.
    tokio::select! {
        biased;
        () = shared.stop.cancelled() => Ok(()),
        sound = channel.sound() => sound,
    }
}

impl Shared {
    fn sink_name(&self) -> &'static str {
        match self.sink {
            Sink::File(_) => "file",
            Sink::Ordered(_) => "output",
            Sink::Memory(_) => "memory",
            Sink::Discard => "nowhere",
        }
    }

    pub(super) fn algorithm(&self) -> CrcAlgorithm {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).algorithm()
    }

    /// A frame is a slice of the buffer that the transport read into, and keeps all of it alive,
    /// however short the read: what is to wait must not hold more than it counts.
    fn compacted(&self, bytes: Bytes) -> Bytes {
        let copied_below = match self.sink {
            Sink::Ordered(_) => ORDERED_COPIED_BELOW_BYTES,
            Sink::File(_) => BATCHED_COPIED_BELOW_BYTES,
            Sink::Memory(_) | Sink::Discard => 0,
        };
        if bytes.len() < copied_below { Bytes::copy_from_slice(&bytes) } else { bytes }
    }

    fn insert(&self, mark: Mark) -> Result<()> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.insert(mark.start, mark.crc).map_err(|error| {
            Error::new(
                ErrorKind::Integrity,
                Operation::Verify,
                self.sink_name(),
                "two shards brought the same bytes",
            )
            .caused_by(error)
        })
    }
}

/// Consecutive bytes of one reader, gathered for the sink.
struct Run<'a> {
    shared: &'a Shared,
    // What has been claimed since the last mark.
    start: u64,
    crc: Crc,
    // What of it has not been handed over yet.
    frames: Vec<Bytes>,
    pending_bytes: u64,
    // One batch may wait in a file's queue while the next is gathered.
    turns: Arc<Semaphore>,
}

impl<'a> Run<'a> {
    fn new(shared: &'a Shared) -> Self {
        let crc = Crc::empty(shared.algorithm());
        let turns = Arc::new(Semaphore::new(1));
        Self { shared, start: 0, crc, frames: Vec::new(), pending_bytes: 0, turns }
    }

    fn end(&self) -> u64 {
        self.start + self.crc.len()
    }

    async fn push(&mut self, offset: u64, bytes: Bytes) -> Result<()> {
        if offset != self.end() {
            self.flush(true).await?;
            self.start = offset;
        }
        self.crc.update(&bytes);
        self.pending_bytes += bytes.len() as u64;
        if !matches!(self.shared.sink, Sink::Discard) {
            self.frames.push(self.shared.compacted(bytes));
        }
        if self.pending_bytes >= self.shared.batch_bytes {
            let due = self.crc.len() >= self.shared.mark_bytes;
            self.flush(due).await?;
        }
        Ok(())
    }

    /// Hands over what is gathered; with `mark`, the run since the last mark is complete.
    async fn flush(&mut self, mark: bool) -> Result<()> {
        let offset = self.end() - self.pending_bytes;
        let mark = (mark && !self.crc.is_empty()).then(|| {
            let mark = Mark { start: self.start, crc: self.crc };
            self.start = self.end();
            self.crc = Crc::empty(self.crc.algorithm());
            mark
        });
        let frames = std::mem::take(&mut self.frames);
        self.pending_bytes = 0;
        if mark.is_some() || !frames.is_empty() {
            let turn = Arc::clone(&self.turns).acquire_owned().await.ok();
            let offset = offset - self.shared.origin;
            self.shared.sink.write(Batch { offset, frames, mark, turn }).await?;
        }
        mark.map_or(Ok(()), |mark| self.shared.insert(mark))
    }
}
