//! [`Placing`]: writes verified chunks into the sink, each at all its places. Streams write through
//! it, too.
//!
//! Chunks that are neighbours in the blob are written as one run, with one mark in a file's
//! journal. With chunks of 64 KiB, 16 neighbours make a run of 1 MiB.
//!
//! Invariant: the set of ranges that the sink has received contains only final bytes. Provisional
//! bytes are added when they are settled.
//!
//! This module does not verify bytes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tidegate_core::extents::Extents;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::plan::PlannedChunk;
use crate::chunked::chunk::{CRC, Chunk};
use crate::error::Result;
use crate::progress::Progress;
use crate::sink::{Batch, Mark, Sink};
use crate::transfer::attempt::Calls;
use crate::transfer::destination::Destination;
use crate::transfer::gather::FrameGatherer;

/// A run is written when it has this many bytes. A longer run gains nothing and delays the write.
const RUN_BYTES_MAX: u64 = 1 << 20;

/// ... or when it has this many pieces, the number that a file takes in one call. A chunk of one
/// byte may recur at every offset, and each place costs one piece.
const RUN_PIECES_MAX: usize = 1024;

/// The state that all writers into one sink share.
#[derive(Debug)]
pub(super) struct Placing {
    pub(super) destination: Destination,
    pub(super) progress: Arc<Progress>,
    /// Cancels every wait.
    pub(super) stop: CancellationToken,
    /// The ranges that the sink has received.
    done: Mutex<Extents>,
}

/// Counts the batches that a sink has received and still holds. Each batch carries a permit, which
/// the sink drops with the batch. So the owner of the bytes' budget permit knows when to release
/// it.
pub(super) struct Turns {
    semaphore: Arc<Semaphore>,
    count: u32,
}

impl Placing {
    /// The sink has received only `done` so far.
    pub(super) fn new(
        destination: Destination,
        progress: Arc<Progress>,
        stop: CancellationToken,
        done: Extents,
    ) -> Self {
        Self { destination, progress, stop, done: Mutex::new(done) }
    }

    /// Returns the destination and the ranges that it has received. All writers must have ended.
    pub(super) fn into_parts(self) -> (Destination, Extents) {
        (self.destination, self.done.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// The ranges that the sink has received.
    pub(super) fn done(&self) -> MutexGuard<'_, Extents> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes each chunk at all its places. Drops `slot` when the sink has received all bytes.
    /// Returns when the sink no longer holds the bytes. An ordered sink is an exception: it
    /// accounts for its bytes itself.
    pub(super) async fn place<S>(
        &self,
        plan: &[PlannedChunk],
        chunks: &[Chunk],
        slot: S,
        calls: &Calls,
    ) -> Result<()> {
        let mut places: Vec<(u64, &Chunk)> = plan
            .iter()
            .zip(chunks)
            .flat_map(|(planned, chunk)| {
                planned.places.as_slice().iter().map(move |at| (*at, chunk))
            })
            .collect();
        places.sort_unstable_by_key(|(at, _)| *at);
        let mut turns = Turns::new();
        let mut gatherer = FrameGatherer::new(0, CRC, 0);
        for (at, chunk) in places {
            if at != gatherer.end() || is_full(&gatherer) {
                self.write_all(gatherer.take(true), &mut turns, calls).await?;
                gatherer.restart(at);
            }
            debug_assert_eq!(CRC, chunk.crc().algorithm());
            gatherer.push_checked(chunk.frames(), &chunk.crc());
        }
        self.write_all(gatherer.take(true), &mut turns, calls).await?;
        drop(slot);
        turns.all_back(&self.stop).await;
        Ok(())
    }

    /// Writes the final bytes of `batch`, if there is one.
    pub(super) async fn write_all(
        &self,
        batch: Option<Batch>,
        turns: &mut Turns,
        calls: &Calls,
    ) -> Result<()> {
        match batch {
            Some(batch) => self.write(batch, turns, calls).await,
            None => Ok(()),
        }
    }

    /// Writes final bytes. They are not written again.
    pub(super) async fn write(&self, batch: Batch, turns: &mut Turns, calls: &Calls) -> Result<()> {
        let range = batch.offset..batch.offset + batch.len();
        let batch = Batch { turn: turns.take().await, ..batch };
        // CANCEL: the sink has queued the whole batch or none of it.
        tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(calls.cancelled()),
            written = self.destination.sink.write(batch) => written?,
        }
        self.progress.done(self.done().insert(range));
        Ok(())
    }

    /// Writes bytes that may be overwritten until [`Self::settle`]. For file sinks only.
    pub(super) async fn write_provisionally(
        &self,
        offset: u64,
        frames: Vec<Bytes>,
        turns: &mut Turns,
        calls: &Calls,
    ) -> Result<()> {
        let Sink::File(file) = &self.destination.sink else { return Ok(()) };
        let turn = turns.take().await;
        let batch = Batch { offset, frames, mark: None, turn };
        // CANCEL: the sink has queued the whole batch or none of it.
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(calls.cancelled()),
            written = file.write_provisionally(batch) => written,
        }
    }

    /// Declares the provisional bytes of `mark` verified and final.
    pub(super) async fn settle(&self, mark: Mark, turns: &mut Turns, calls: &Calls) -> Result<()> {
        let Sink::File(file) = &self.destination.sink else { return Ok(()) };
        let turn = turns.take().await;
        let batch = Batch { offset: mark.start, frames: Vec::new(), mark: Some(mark), turn };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(calls.cancelled()),
            written = file.write_provisionally(batch) => written?,
        }
        let range = mark.start..mark.start + mark.crc.len();
        self.progress.done(self.done().insert(range));
        Ok(())
    }
}

impl Turns {
    pub(super) fn new() -> Self {
        Self { semaphore: Arc::new(Semaphore::new(0)), count: 0 }
    }

    /// A permit for one more batch.
    async fn take(&mut self) -> Option<OwnedSemaphorePermit> {
        self.count += 1;
        self.semaphore.add_permits(1);
        Arc::clone(&self.semaphore).acquire_owned().await.ok()
    }

    /// Waits until the sink holds at most `count` batches.
    pub(super) async fn at_most(&self, count: u32, stop: &CancellationToken) {
        let back = self.count.saturating_sub(count);
        // CANCEL: after `stop` the caller does not use the written bytes.
        tokio::select! {
            () = stop.cancelled() => {}
            _ = self.semaphore.acquire_many(back) => {}
        }
    }

    /// Waits until the sink holds no batch.
    pub(super) async fn all_back(&self, stop: &CancellationToken) {
        self.at_most(0, stop).await;
    }
}

/// Whether the run has reached its limit and should be written.
fn is_full(gatherer: &FrameGatherer) -> bool {
    gatherer.pending_bytes() >= RUN_BYTES_MAX || gatherer.pieces() >= RUN_PIECES_MAX
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tidegate_core::digest::{Digest, DigestFunction};
    use tidegate_core::retry::RetryPolicy;

    use super::super::plan::Places;
    use super::*;
    use crate::budget::{Budget, BudgetOptions};
    use crate::error::Operation;
    use crate::sink::FileSink;
    use crate::sink::file::{Durability, FileTarget, PartFile, StateFolder};

    fn calls() -> Calls {
        Calls {
            policy: RetryPolicy::default(),
            budget: Budget::new(BudgetOptions::default()),
            cancel: CancellationToken::new(),
            operation: Operation::Download,
            target: "blob".into(),
            stats: Arc::default(),
        }
    }

    /// Bytes whose drop blocks until the test releases it. They imitate a slow disk.
    struct Slow {
        held: mpsc::Sender<()>,
        release: mpsc::Receiver<()>,
    }

    impl AsRef<[u8]> for Slow {
        fn as_ref(&self) -> &[u8] {
            b"slow"
        }
    }

    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.held.send(());
            let _ = self.release.recv();
        }
    }

    /// The window has room again when the sink has received the bytes. The budget has room again
    /// only when the bytes are written.
    #[tokio::test]
    async fn while_bytes_wait_to_be_written_their_slot_is_free_and_they_are_paid_for() {
        let folder = tempfile::tempdir().unwrap();
        let target = FileTarget::new(&folder.path().join("target")).unwrap();
        let part = PartFile::open(target, &StateFolder::none()).unwrap();
        let sink = Sink::File(FileSink::new(part, None, None, Durability::None).unwrap());
        let stop = CancellationToken::new();
        let destination = Destination::of_sink(sink, calls());
        let placing = Placing::new(destination, Arc::default(), stop, Extents::new());
        let ((held, is_held), (release, released)) = (mpsc::channel(), mpsc::channel());
        let stalling = Bytes::from_owner(Slow { held, release: released });
        let calls = calls();
        let batch = Batch { offset: 0, frames: vec![stalling], mark: None, turn: None };
        placing.write(batch, &mut Turns::new(), &calls).await.unwrap();
        is_held.recv().unwrap();

        // The writer thread is now blocked.
        let digest = Digest::of(DigestFunction::Blake3, b"next");
        let chunk = Chunk::verified(&digest, Bytes::from_static(b"next")).unwrap();
        let plan = [PlannedChunk { digest, places: Places::One(4), seed: None }];
        let (slot, chunks) = (Arc::new(()), [chunk]);
        let window = Arc::clone(&slot);
        let mut placed = Box::pin(placing.place(&plan, &chunks, slot, &calls));
        let is_over = futures_util::poll!(&mut placed);
        let is_free = Arc::strong_count(&window) == 1;
        release.send(()).unwrap();
        assert!(is_over.is_pending(), "what is not written yet is held");
        assert!(is_free, "a slot is for what is on its way, not for what is written");
        placed.await.unwrap();
        let (destination, _) = placing.into_parts();
        let Sink::File(sink) = destination.sink else { panic!("a file was given") };
        let part = sink.finish().await.unwrap().part;
        assert_eq!(std::fs::read(&part.target.part).unwrap(), b"slownext");
    }

    /// A chunk of one byte that recurs at every offset. The run is limited by its number of pieces,
    /// because each piece costs more than its byte.
    #[test]
    fn a_run_of_tiny_chunks_is_bounded() {
        let digest = Digest::of(DigestFunction::Blake3, b"a");
        let chunk = Chunk::verified(&digest, Bytes::from_static(b"a")).unwrap();
        let mut gatherer = FrameGatherer::new(0, CRC, 0);
        while !is_full(&gatherer) {
            gatherer.push_checked(chunk.frames(), &chunk.crc());
        }
        let held = (gatherer.pieces(), gatherer.pending_bytes());
        assert_eq!(held, (RUN_PIECES_MAX, RUN_PIECES_MAX as u64));
    }
}
