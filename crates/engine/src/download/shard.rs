//! One reader, from the network to the sink. It claims frames, adds them to the CRC, gathers them
//! into batches, and hands the batches over. A batch carries a mark after every `mark_bytes`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tidegate_core::checksum::{CrcAlgorithm, PartLayout};
use tidegate_core::parts::CrcParts;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::shard_range::ShardRange;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::progress::Progress;
use crate::read::RangeStream;
use crate::sink::{Batch, Mark, Sink};
use crate::transfer::destination::Destination;
use crate::transfer::gather::FrameGatherer;

/// Frames for an ordered sink may wait as long as the slowest shard takes. So every frame that does
/// not fill the transport's largest read is copied.
const ORDERED_COPIED_BELOW_BYTES: usize = 256 << 10;

/// Frames for a file wait for one batch only. So only frames are copied that would hold several
/// times their length. On links that deliver such short frames, the cost of a copy does not show.
const BATCHED_COPIED_BELOW_BYTES: usize = 64 << 10;

/// State that all shards of one download share.
#[derive(Debug)]
pub(super) struct ShardJob {
    pub(super) destination: Destination,
    pub(super) parts: Mutex<CrcParts>,
    /// The upload's parts, if their CRCs are kept apart: then no mark goes beyond the end of one.
    pub(super) layout: Option<PartLayout>,
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

/// One reader of a shard.
pub(super) struct PieceReader {
    pub(super) piece: Arc<ShardRange>,
    pub(super) channel: RangeStream,
    /// Counts the bytes of the mirror that the channel reads.
    pub(super) bytes: Arc<AtomicU64>,
    /// Ends all readers of this mirror. It is cancelled with the `stop` of the download, too.
    pub(super) stop: CancellationToken,
}

/// How a reader ended.
pub(super) enum ShardEnd {
    /// The shard is finished, another reader goes on with it, or the download has ended.
    Done,
    /// The mirror delivers no more. If this reader is the last of the shard, the rest is unread.
    /// There is no error if the mirror was dropped because of another reader.
    Broken { error: Option<Error>, is_last: bool },
    /// The download fails.
    Failed(Error),
}

/// Why a reader claims no more frames.
enum Failure {
    Channel(Error),
    Sink(Error),
}

/// Reads the channel into the sink until this reader or another has finished the piece. The claimed
/// bytes are handed over and marked in every case.
pub(super) async fn read(reader: PieceReader, shared: &ShardJob) -> ShardEnd {
    let PieceReader { piece, mut channel, bytes, stop } = reader;
    let mut run = Run::new(shared);
    let outcome = claim_frames(&piece, &mut channel, &mut run, shared, &bytes, &stop).await;
    let target = shared.sink_name();
    let is_unsound = channel.is_unsound();
    drop(channel);
    let handed_over = run.flush(true).await;
    let is_last = piece.leave();
    match (outcome, handed_over) {
        // The bytes that this reader claimed are unusable, even if another reader finishes.
        (Err(Failure::Channel(error)), _) if is_unsound => ShardEnd::Failed(error),
        (Err(Failure::Channel(error)), Ok(())) => ShardEnd::Broken { error: Some(error), is_last },
        (Err(Failure::Channel(error) | Failure::Sink(error)), _) | (Ok(()), Err(error)) => {
            ShardEnd::Failed(error)
        }
        (Ok(()), Ok(())) if shared.stop.is_cancelled() || !is_last || piece.is_finished() => {
            ShardEnd::Done
        }
        (Ok(()), Ok(())) if stop.is_cancelled() => ShardEnd::Broken { error: None, is_last },
        (Ok(()), Ok(())) => {
            let message = "a shard ended before its range did";
            let error = Error::new(ErrorKind::Transport, Operation::Read, target, message);
            ShardEnd::Broken { error: Some(error), is_last }
        }
    }
}

async fn claim_frames(
    piece: &ShardRange,
    channel: &mut RangeStream,
    run: &mut Run<'_>,
    shared: &ShardJob,
    delivered_bytes: &AtomicU64,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    loop {
        // CANCEL: `next` is cancel-safe, and nothing else is awaited here.
        let frame = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = piece.finished() => break,
            frame = channel.next() => frame.map_err(Failure::Channel)?,
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
        delivered_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        run.push(claimed.start, bytes).await.map_err(Failure::Sink)?;
    }
    // CANCEL: no byte is lost, because this waits only for the end of the body.
    tokio::select! {
        biased;
        () = stop.cancelled() => Ok(()),
        sound = channel.sound() => sound.map_err(Failure::Channel),
    }
}

impl ShardJob {
    fn sink_name(&self) -> &'static str {
        match self.destination.sink {
            Sink::File(_) => "file",
            Sink::Ordered(_) => "output",
            Sink::Memory(_) => "memory",
            Sink::Discard => "nowhere",
        }
    }

    pub(super) fn algorithm(&self) -> CrcAlgorithm {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).algorithm()
    }

    /// The bytes until the end of the upload's part at `offset`, if it ends within the next `len`.
    fn rest_of_part(&self, offset: u64, len: usize) -> Option<usize> {
        let end = self.layout.as_ref()?.end_of_part(offset);
        let rest = usize::try_from(end.checked_sub(offset)?).ok()?;
        (1..=len).contains(&rest).then_some(rest)
    }

    /// Shorter frames are copied.
    fn copied_below_bytes(&self) -> usize {
        match self.destination.sink {
            Sink::Ordered(_) => ORDERED_COPIED_BELOW_BYTES,
            Sink::File(_) => BATCHED_COPIED_BELOW_BYTES,
            Sink::Memory(_) | Sink::Discard => 0,
        }
    }

    fn insert(&self, mark: Mark) -> Result<()> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.insert(mark.start, mark.crc).map_err(|error| {
            Error::new(
                ErrorKind::Integrity,
                Operation::Verify,
                self.sink_name(),
                "two shards delivered the same bytes",
            )
            .caused_by(error)
        })
    }
}

/// The bytes of one reader on their way to the sink.
struct Run<'a> {
    shared: &'a ShardJob,
    gatherer: FrameGatherer,
    // One batch may wait in a file's queue while the next one is gathered.
    turns: Arc<Semaphore>,
}

impl<'a> Run<'a> {
    fn new(shared: &'a ShardJob) -> Self {
        let gatherer = FrameGatherer::new(0, shared.algorithm(), shared.copied_below_bytes());
        Self { shared, gatherer, turns: Arc::new(Semaphore::new(1)) }
    }

    /// Adds bytes. A mark ends where one of the upload's parts ends, if these are kept apart.
    async fn push(&mut self, mut offset: u64, mut bytes: Bytes) -> Result<()> {
        while let Some(len) = self.shared.rest_of_part(offset, bytes.len()) {
            self.push_within(offset, bytes.split_to(len)).await?;
            self.flush(true).await?;
            offset += len as u64;
        }
        if bytes.is_empty() { Ok(()) } else { self.push_within(offset, bytes).await }
    }

    async fn push_within(&mut self, offset: u64, bytes: Bytes) -> Result<()> {
        if offset != self.gatherer.end() {
            self.flush(true).await?;
            self.gatherer.restart(offset);
        }
        match self.shared.destination.sink {
            Sink::Discard => self.gatherer.count(&bytes),
            _ => self.gatherer.push(bytes),
        }
        if self.gatherer.pending_bytes() >= self.shared.batch_bytes {
            let due = self.gatherer.unmarked_bytes() >= self.shared.mark_bytes;
            self.flush(due).await?;
        }
        Ok(())
    }

    /// Hands over the gathered bytes. With `mark`, the run since the last mark is complete.
    async fn flush(&mut self, mark: bool) -> Result<()> {
        let Some(batch) = self.gatherer.take(mark) else { return Ok(()) };
        let (offset, mark) = (batch.offset - self.shared.origin, batch.mark);
        let turn = Arc::clone(&self.turns).acquire_owned().await.ok();
        self.shared.destination.sink.write(Batch { offset, turn, ..batch }).await?;
        mark.map_or(Ok(()), |mark| self.shared.insert(mark))
    }
}
