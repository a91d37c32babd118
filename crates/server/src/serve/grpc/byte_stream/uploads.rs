//! [`Uploads`]: interrupted writes, which continue where they stopped.
//!
//! The writer of an interrupted call waits here under the name of the upload, for an hour at most.
//! The bytes that it has written stay on the disk and are part of the store's limit, so all that wait
//! have a limit, too: an eighth of the store. The oldest ones give way.
//!
//! A call can be dropped at any time, also while a blocking thread writes for it. [`ActiveUpload`]
//! keeps the writer in a slot: the thread that finds the call gone gives the writer back here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tonic::Status;

use super::super::{Outcome, status};
use super::incoming::IncomingBatch;
use crate::store::BlobWriter;

/// Clients of builds give up long before that.
const KEPT: Duration = Duration::from_hours(1);
/// How often uploads whose time is over are looked for.
const EXPIRE_EVERY: Duration = Duration::from_mins(1);
/// Uploads that wait at a time: each has an open file.
const COUNT_MAX: usize = 256;
/// Uploads may take this part of the store.
const STORE_PART: u64 = 8;

/// Interrupted uploads. Clones are the same.
#[derive(Clone, Debug)]
pub(in super::super) struct Uploads(Arc<Table>);

#[derive(Debug)]
struct Table {
    bytes_max: u64,
    waiting: Mutex<HashMap<String, WaitingUpload>>,
}

#[derive(Debug)]
struct WaitingUpload {
    writer: BlobWriter,
    since: Instant,
}

impl Uploads {
    /// For a store of this many bytes.
    pub(in super::super) fn new(store_bytes_max: u64) -> Self {
        let bytes_max = store_bytes_max / STORE_PART;
        Self(Arc::new(Table { bytes_max, waiting: Mutex::default() }))
    }

    /// Bytes that an interrupted upload has; `None` if there is none.
    pub(super) fn committed(&self, name: &str) -> Option<u64> {
        self.waiting().get(name).map(|upload| upload.writer.len())
    }

    /// Takes an upload that has exactly `len` bytes.
    pub(super) fn take(&self, name: &str, len: u64) -> Option<BlobWriter> {
        let mut waiting = self.waiting();
        if waiting.get(name).is_none_or(|upload| upload.writer.len() != len) {
            return None;
        }
        waiting.remove(name).map(|upload| upload.writer)
    }

    /// Drops uploads when their time is over. Never ends.
    pub(in super::super) async fn expire(&self) {
        let mut ticks = tokio::time::interval(EXPIRE_EVERY);
        loop {
            ticks.tick().await;
            let now = Instant::now();
            let is_over =
                |upload: &WaitingUpload| now.saturating_duration_since(upload.since) > KEPT;
            let over: Vec<_> = self.waiting().extract_if(|_, upload| is_over(upload)).collect();
            drop_blocking(over);
        }
    }

    fn keep(&self, name: String, writer: BlobWriter) {
        if writer.len() == 0 {
            return;
        }
        let mut waiting = self.waiting();
        let mut dropped = Vec::new();
        dropped.extend(waiting.insert(name, WaitingUpload { writer, since: Instant::now() }));
        loop {
            let bytes: u64 = waiting.values().map(|upload| upload.writer.len()).sum();
            if waiting.len() <= COUNT_MAX && bytes <= self.0.bytes_max {
                break;
            }
            let oldest = waiting.iter().min_by_key(|(_, upload)| upload.since);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { break };
            dropped.extend(waiting.remove(&oldest));
        }
        drop(waiting);
        drop_blocking(dropped);
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, WaitingUpload>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops what removes files.
fn drop_blocking<T: Send + 'static>(dropped: Vec<T>) {
    if dropped.is_empty() {
        return;
    }
    // Without a runtime, this thread may block.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn_blocking(move || drop(dropped));
    }
}

/// Where the writer of a call is.
#[derive(Debug)]
enum Slot {
    /// Nothing uses it.
    Idle(Box<BlobWriter>),
    /// A blocking thread uses it, or it failed.
    Taken,
    /// The call is gone.
    Abandoned,
}

/// The upload of a call. If the call is dropped, its bytes wait for the next one.
#[derive(Debug)]
pub(super) struct ActiveUpload {
    uploads: Uploads,
    /// `None` if the upload cannot continue.
    name: Option<String>,
    slot: Arc<Mutex<Slot>>,
}

impl ActiveUpload {
    /// `name` is `None` if an interruption ends the upload.
    pub(super) fn new(uploads: &Uploads, name: Option<String>, writer: BlobWriter) -> Self {
        let slot = Arc::new(Mutex::new(Slot::Idle(Box::new(writer))));
        Self { uploads: uploads.clone(), name, slot }
    }

    /// Bytes that were written; 0 while a thread writes.
    pub(super) fn len(&self) -> u64 {
        match &*lock(&self.slot) {
            Slot::Idle(writer) => writer.len(),
            Slot::Taken | Slot::Abandoned => 0,
        }
    }

    /// Writes a batch. After an error, the upload cannot continue.
    pub(super) async fn write(&self, batch: IncomingBatch) -> Outcome<()> {
        let mut writer = self.taken()?;
        let (slot, uploads, name) =
            (Arc::clone(&self.slot), self.uploads.clone(), self.name.clone());
        let written = tokio::task::spawn_blocking(move || {
            for piece in &batch.pieces {
                writer.write(piece)?;
            }
            drop(batch);
            let mut slot = lock(&slot);
            if let Slot::Abandoned = *slot {
                drop(slot);
                if let Some(name) = name {
                    uploads.keep(name, *writer);
                }
            } else {
                *slot = Slot::Idle(writer);
            }
            Ok(())
        });
        written.await.map_err(stopping)?.map_err(|error| status::of(&error))
    }

    /// What arrived is wrong: an interruption now ends the upload.
    pub(super) fn discard(&mut self) {
        self.name = None;
    }

    /// Names the blob.
    pub(super) async fn finish(self) -> Outcome<()> {
        let writer = self.taken()?;
        let finished = tokio::task::spawn_blocking(move || writer.finish());
        finished.await.map_err(stopping)?.map_err(|error| status::of(&error))
    }

    fn taken(&self) -> Outcome<Box<BlobWriter>> {
        match std::mem::replace(&mut *lock(&self.slot), Slot::Taken) {
            Slot::Idle(writer) => Ok(writer),
            Slot::Taken | Slot::Abandoned => Err(Status::internal("the upload failed before")),
        }
    }
}

impl Drop for ActiveUpload {
    fn drop(&mut self) {
        let slot = std::mem::replace(&mut *lock(&self.slot), Slot::Abandoned);
        let Slot::Idle(writer) = slot else { return };
        match self.name.take() {
            Some(name) => self.uploads.keep(name, *writer),
            None => drop_blocking(vec![writer]),
        }
    }
}

fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stopping(_: tokio::task::JoinError) -> Status {
    Status::unavailable("the server is stopping")
}
