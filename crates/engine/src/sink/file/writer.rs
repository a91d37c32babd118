//! The thread that writes a file's bytes at their offsets, and the queue before it.
//!
//! Invariants:
//!
//! - A shard has at most one batch in the queue, because its turn travels with the batch. So queued
//!   bytes are part of the bytes that the budget granted to the shards.
//! - A mark is written to the journal only after its bytes.
//! - The first failure ends the writing, and every later call returns it.
//! - Bytes that are written provisionally may be written again. They count as written only when a
//!   batch delivers their mark.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use rustix::io::Errno;
use tokio::sync::mpsc;

use super::super::{Batch, Mark};
use super::follow::WrittenBytes;
use super::journal::Journal;
use super::part_file::is_no_room;
use super::target::storage_error;
use super::{Durability, PartFile, writeback};
use crate::error::{Error, Operation, Result};

/// Batches in the queue at most. Measured: with fewer batches the thread runs idle between the
/// shards' turns. With more, the queued bytes leave the processor's cache before they are written,
/// which costs more than it gains, and they cost memory.
const QUEUE_BATCHES: usize = 8;

/// Note for the user when the journal could not grow.
const FORGETS: &str = "there was no room for the journal of its part file: an interrupted run would \
                       have lost what came after that";

/// `writev` takes at most this many pieces at once on Linux.
const PIECES_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct FileSink {
    queue: mpsc::Sender<Queued>,
    shared: Arc<Shared>,
    thread: std::thread::JoinHandle<Option<PartFile>>,
}

/// A part file in which everything that was queued is written.
#[derive(Debug)]
pub(crate) struct WrittenPart {
    pub(crate) part: PartFile,
    /// A note for the user.
    pub(crate) note: Option<String>,
}

/// A queued batch could not be written.
#[derive(Debug)]
pub(crate) struct WriteFailed {
    /// `None` if the thread panicked.
    pub(crate) part: Option<PartFile>,
    pub(crate) error: Error,
}

/// A batch in the queue.
#[derive(Debug)]
struct Queued {
    batch: Batch,
    // The bytes count as written only with their mark.
    provisional: bool,
}

#[derive(Debug)]
struct Shared {
    name: String,
    failure: OnceLock<(io::ErrorKind, String)>,
    progress: Option<Arc<WrittenBytes>>,
    journal: Mutex<Option<Journal>>,
    // The journal could not grow, so it does not name the latest extents.
    forgets: AtomicBool,
    // The file will be synced, so the thread starts writing each batch to the disk at once.
    synced: bool,
}

impl FileSink {
    /// Starts the thread. If that fails, returns the part file with the error.
    pub(crate) fn new(
        part: PartFile,
        journal: Option<Journal>,
        progress: Option<Arc<WrittenBytes>>,
        durability: Durability,
    ) -> Result<Self, Box<(PartFile, Error)>> {
        let (queue, batches) = mpsc::channel(QUEUE_BATCHES);
        let shared = Arc::new(Shared {
            name: part.target.display(),
            failure: OnceLock::new(),
            progress,
            journal: Mutex::new(journal),
            forgets: AtomicBool::new(false),
            synced: durability != Durability::None,
        });
        let theirs = Arc::clone(&shared);
        // A failed spawn drops its closure, and the part file must survive that.
        let (hand_over, handed_over) = sync_channel(1);
        let started = std::thread::Builder::new()
            .name("tidegate-writer".to_owned())
            .spawn(move || handed_over.recv().ok().map(|part| run(part, batches, &theirs)));
        match started {
            Ok(thread) => {
                // The thread receives it even if it fails later.
                let _ = hand_over.send(part);
                Ok(Self { queue, shared, thread })
            }
            Err(error) => {
                // Ends the hashing thread that follows the progress.
                if let Some(progress) = &shared.progress {
                    progress.close();
                }
                let error = Error::no_thread(Operation::Write, &*shared.name, error);
                Err(Box::new((part, error)))
            }
        }
    }

    /// Queues a batch; waits while the queue is full. Cancel-safe: the batch is either queued or
    /// not.
    pub(crate) async fn write(&self, batch: Batch) -> Result<()> {
        self.send(Queued { batch, provisional: false }).await
    }

    /// As [`Self::write`], but the bytes may be written again. They count as written only when a
    /// batch delivers their mark.
    pub(crate) async fn write_provisionally(&self, batch: Batch) -> Result<()> {
        self.send(Queued { batch, provisional: true }).await
    }

    async fn send(&self, queued: Queued) -> Result<()> {
        self.queue.send(queued).await.map_err(|_closed| self.shared.failure())
    }

    /// Waits until every queued batch is written, and returns the part file.
    pub(crate) async fn finish(self) -> Result<WrittenPart, Box<WriteFailed>> {
        let Self { queue, thread, shared } = self;
        drop(queue);
        // The thread ends when its queue is empty.
        let part = tokio::task::spawn_blocking(move || thread.join().ok().flatten());
        let part = part.await.ok().flatten();
        match part {
            Some(part) if shared.failure.get().is_none() => {
                let note = shared.forgets.load(Ordering::Relaxed).then(|| FORGETS.to_owned());
                Ok(WrittenPart { part, note })
            }
            part => Err(Box::new(WriteFailed { part, error: shared.failure() })),
        }
    }
}

impl Shared {
    fn failure(&self) -> Error {
        let (kind, text) = self
            .failure
            .get()
            .cloned()
            .unwrap_or((io::ErrorKind::Other, "the writing thread ended".to_owned()));
        storage_error(Operation::Write, &self.name, io::Error::new(kind, text))
    }
}

fn run(part: PartFile, mut queue: mpsc::Receiver<Queued>, shared: &Shared) -> PartFile {
    while let Some(queued) = queue.blocking_recv() {
        if let Err(error) = write(&part, queued, shared) {
            // Set only once: the loop ends here, and dropping the receiver refuses the queued
            // batches.
            let _ = shared.failure.set((error.kind(), error.to_string()));
            break;
        }
    }
    if let Some(progress) = &shared.progress {
        progress.close();
    }
    part
}

fn write(part: &PartFile, queued: Queued, shared: &Shared) -> io::Result<()> {
    let Queued { batch, provisional } = queued;
    write_all(&part.file, &batch.frames, batch.offset)?;
    if shared.synced {
        writeback::start(&part.file, batch.offset..batch.offset + batch.len());
    }
    if let Some(mark) = batch.mark {
        remember(part, mark, shared)?;
    }
    if let Some(progress) = &shared.progress {
        match batch.mark {
            Some(mark) if provisional => {
                progress.written(mark.start..mark.start + mark.crc.len());
            }
            _ if provisional => {}
            _ => progress.written_batch(batch),
        }
    }
    Ok(())
}

/// Appends a mark to the journal. If the disk has room for the blob but not for the journal, the
/// run continues without the journal. The marks written so far stay valid.
fn remember(part: &PartFile, mark: Mark, shared: &Shared) -> io::Result<()> {
    let mut journal = shared.journal.lock().unwrap_or_else(PoisonError::into_inner);
    match journal.as_mut().map(|journal| journal.append(&part.file, mark)) {
        Some(Err(error)) if is_no_room(&error) => {
            shared.forgets.store(true, Ordering::Relaxed);
            *journal = None;
            Ok(())
        }
        Some(appended) => appended,
        None => Ok(()),
    }
}

/// Writes all frames consecutively from `offset`, in as few system calls as possible.
fn write_all(file: &std::fs::File, frames: &[Bytes], mut offset: u64) -> io::Result<()> {
    let mut pieces: Vec<io::IoSlice<'_>> =
        frames.iter().filter(|f| !f.is_empty()).map(|f| io::IoSlice::new(f)).collect();
    let mut left = pieces.as_mut_slice();
    while !left.is_empty() {
        let some = &left[..left.len().min(PIECES_MAX)];
        let count = match rustix::io::pwritev(file, some, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        offset += count as u64;
        io::IoSlice::advance_slices(&mut left, count);
    }
    Ok(())
}
