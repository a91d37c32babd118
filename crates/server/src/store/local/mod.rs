//! [`LocalStore`]: the store on this machine's disk, as the engine's [`BlobStore`] and
//! [`ChunkStore`].
//!
//! | file | idea |
//! |---|---|
//! | `by_hash` | blobs whose length is unknown |
//! | `cache` | action results, opaque values, compressed blobs |
//! | `unnamed` | a blob that arrives without a name |
//! | `serving` | what a server needs in one step: presence, a batch, a blob that arrives in parts |
//! | `profile` | what the store can do, for the engine |
//! | `maintenance` | the background thread |
//! | `survey` | what is stored, and why a value is not there |
//! | `record` | the requests as a trace |
//! | `tenant` | the store with the blobs of one tenant alone |
//! | `error` | errors of the store as errors of the engine |
//!
//! The core blocks, so every call runs on a blocking thread. The only exception is a look-up that
//! finds every blob in the index.

mod by_hash;
mod cache;
mod error;
mod maintenance;
mod profile;
mod record;
mod serving;
mod survey;
mod tenant;
mod unnamed;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tidegate::budget::BytesPermit;
use tidegate::remote::Body;
use tidegate::store::{
    BlobStore, ChunkStore, Manifest, PutRequest, Registered, SendProgress, StoreProfile, body,
    not_found,
};
use tidegate::{Budget, Error, ErrorKind, Operation, Result};
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;

pub use self::by_hash::HashWriter;
pub use self::cache::ValueWriter;
pub(super) use self::error::error;
use self::maintenance::Maintenance;
pub(super) use self::maintenance::clock_ms;
use self::profile::profile;
pub(crate) use self::serving::{BlobWriter, ReadEntry};
pub use self::survey::{LargeValue, StoreSurvey, StoredKind};
pub(crate) use self::unnamed::UnnamedWriter;
use super::activity::ActivityCounts;
use super::blobs::{BlobReader, Blobs, PIECE_BYTES, Touch};
use super::core::StoreCounts;
use super::disk::RealDisk;
use super::error::{StoreError, StoreResult};
use super::manifests::Spliced;
use super::options::StoreOptions;
use super::threads::Store;
use crate::trace::{TraceOperation, TraceRecorder};

/// The limits of a store that a command opens.
const COMMAND_BYTES_MAX: u64 = 64 << 30;
const COMMAND_PACK_BYTES: u64 = 16 << 20;

/// Memory of one chunk that is cut: the digest twice, and a record of its place.
const CHUNK_MEMORY_BYTES: u64 = 256;

/// Memory of a stored manifest, by its length: its bytes, and digests that are a fifth longer.
const MANIFEST_MEMORY_FACTOR: u64 = 3;

/// The store on this machine's disk. Clones are the same store.
#[derive(Clone, Debug)]
pub struct LocalStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Ends before the store does.
    maintenance: Arc<Maintenance>,
    blobs: Blobs,
    identity: String,
    profile: Arc<StoreProfile>,
    recorder: Arc<OnceLock<TraceRecorder>>,
}

impl LocalStore {
    /// Opens the store in a folder, and creates it if there is none. One process at a time may have
    /// it open.
    ///
    /// Fails with `Storage` if the folder cannot be used.
    pub async fn open(root: &Path, options: StoreOptions) -> Result<Self> {
        let target = root.display().to_string();
        let root = root.to_owned();
        let opened = tokio::task::spawn_blocking(move || Self::open_blocking(&root, options));
        opened.await.unwrap_or_else(|error| Err(cancelled(&target, error)))
    }

    /// As [`Self::open`]. Blocks.
    pub fn open_blocking(root: &Path, options: StoreOptions) -> Result<Self> {
        let shown = root.display().to_string();
        let disk = RealDisk::open(root).map_err(|error| unusable(&shown, error))?;
        let lock = lock(disk.root(), &shown)?;
        let identity = format!("store {}", disk.root().display());
        let opened = Store::open(Arc::new(disk), options);
        let failed = |failure| error(Operation::Locate, &shown, failure);
        let blobs = Blobs::of(opened.map_err(failed)?, lock);
        let maintenance = Maintenance::start(&blobs.core);
        let maintenance = maintenance.map_err(|error| unusable(&shown, error))?;
        Ok(Self(Arc::new(Inner {
            maintenance: Arc::new(maintenance),
            blobs,
            identity,
            profile: Arc::new(profile()),
            recorder: Arc::default(),
        })))
    }

    /// The options of a store that a command opens by its folder. A store that exists keeps its limit;
    /// a new one has at most 64 GiB, and at most four fifths of the disk. Its packs are small, so that
    /// a store of a few blobs takes little space.
    pub fn options_of_command(folder: &Path) -> StoreOptions {
        let existing = folder.ancestors().find(|folder| folder.exists());
        let existing = existing.filter(|folder| !folder.as_os_str().is_empty());
        let disk = rustix::fs::statvfs(existing.unwrap_or(Path::new(".")));
        let disk_bytes = disk.map_or(u64::MAX, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
        let mut options = StoreOptions::new((disk_bytes / 5 * 4).min(COMMAND_BYTES_MAX));
        options.keeps_limit = true;
        options.pack_bytes = Some(COMMAND_PACK_BYTES);
        options
    }

    /// The limit in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.0.blobs.core.options().bytes_max
    }

    /// The parts of the index.
    pub(super) fn shards(&self) -> u16 {
        self.0.blobs.core.shards()
    }

    /// Counters.
    pub fn counts(&self) -> StoreCounts {
        self.0.blobs.core.counts()
    }

    /// What the store counted of its own work since it opened.
    pub fn activity(&self) -> ActivityCounts {
        self.0.blobs.core.activity()
    }

    /// Runs `work` on a blocking thread. Dropping the future does not stop work that has started.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        operation: Operation,
        target: &str,
        work: impl FnOnce(&Blobs) -> StoreResult<T> + Send + 'static,
    ) -> Result<T> {
        let blobs = self.0.blobs.clone();
        match tokio::task::spawn_blocking(move || work(&blobs)).await {
            Ok(outcome) => outcome.map_err(|failure| error(operation, target, failure)),
            Err(error) => Err(cancelled(target, error)),
        }
    }

    /// Ends the store's threads, after a last checkpoint, if this is the last clone. Dropping the last
    /// clone does the same and blocks.
    pub async fn close(self) {
        let Some(inner) = Arc::into_inner(self.0) else { return };
        // It panics only if the runtime shuts down, which ends the thread, too.
        let _ = tokio::task::spawn_blocking(move || drop(inner)).await;
    }
}

fn chunk_bytes_min(chunking: &Chunking) -> u64 {
    match chunking {
        Chunking::FastCdc2020(params) => params.min_bytes(),
        Chunking::RepMaxCdc(params) => params.min_bytes(),
        _ => 1,
    }
    .max(1)
}

/// Locks the folder as long as the file is open.
pub(super) fn lock(root: &Path, target: &str) -> Result<File> {
    let file = File::create(root.join("lock")).map_err(|error| unusable(target, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let message = "the store is in use";
            Err(Error::new(ErrorKind::Storage, Operation::Locate, target, message)
                .with_hint("one process at a time can open it"))
        }
        Err(TryLockError::Error(error)) => Err(unusable(target, error)),
    }
}

fn unusable(target: &str, error: io::Error) -> Error {
    let message = "the folder cannot be used as a store";
    Error::new(ErrorKind::Storage, Operation::Locate, target, message).caused_by(error)
}

fn cancelled(target: &str, error: tokio::task::JoinError) -> Error {
    let message = "the runtime is shutting down";
    Error::new(ErrorKind::Cancelled, Operation::Read, target, message).caused_by(error)
}

/// Takes memory without waiting: the caller holds other permits.
fn permit(
    budget: &Budget,
    bytes: u64,
    operation: Operation,
    target: &str,
) -> Result<Option<BytesPermit>> {
    if bytes == 0 {
        return Ok(None);
    }
    let permit = if bytes > budget.limits().bytes { None } else { budget.try_bytes(bytes) };
    if permit.is_none() {
        let message = format!("it takes {bytes} bytes of memory, which are in use");
        return Err(Error::new(ErrorKind::Unsupported, operation, target, message)
            .with_hint("allow more memory"));
    }
    Ok(permit)
}

/// A short blob that was read at once, or the start of a longer one.
enum OpenedBlob {
    All(Bytes),
    More(Bytes, Box<BlobReader>),
}

fn open(blobs: &Blobs, digest: &Digest, offset: u64) -> StoreResult<Option<OpenedBlob>> {
    let Some(mut reader) = blobs.open(digest, offset)? else { return Ok(None) };
    let Some(first) = reader.next_piece()? else { return Ok(Some(OpenedBlob::All(Bytes::new()))) };
    let is_all = first.len() as u64 == digest.len.saturating_sub(offset);
    Ok(Some(if is_all {
        OpenedBlob::All(first)
    } else {
        OpenedBlob::More(first, Box::new(reader))
    }))
}

/// All bytes of a blob that fits into a batch.
fn read_all(blobs: &Blobs, digest: &Digest) -> StoreResult<Option<Bytes>> {
    let Some(mut reader) = blobs.open(digest, 0)? else { return Ok(None) };
    let first = reader.next_piece()?.unwrap_or_default();
    if first.len() as u64 == digest.len {
        return Ok(Some(first));
    }
    let mut all = first.to_vec();
    while let Some(piece) = reader.next_piece()? {
        all.extend_from_slice(&piece);
    }
    Ok(Some(all.into()))
}

#[async_trait]
impl BlobStore for LocalStore {
    async fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>> {
        for digest in digests {
            self.record_blob(TraceOperation::Find, digest);
        }
        let blobs = &self.0.blobs;
        let mut unknown = digests.to_vec();
        if blobs.core.is_loaded() {
            let present = blobs.indexed(digests);
            let known = digests.iter().zip(present);
            unknown = known.filter(|(_, is_there)| !is_there).map(|(digest, _)| *digest).collect();
        }
        if unknown.is_empty() {
            return Ok(Vec::new());
        }
        let looked = self.blocking(Operation::Read, "the index of the store", move |blobs| {
            let present = blobs.present(&unknown, Touch::Now)?;
            let known = unknown.into_iter().zip(present);
            Ok(known.filter(|(_, is_there)| !is_there).map(|(digest, _)| digest).collect())
        });
        looked.await
    }

    async fn get(&self, digest: &Digest, offset: u64, budget: &Budget) -> Result<Body> {
        let digest = *digest;
        self.record_blob(TraceOperation::Get, &digest);
        // Most blobs are short and were written or read lately: no other thread is needed for them.
        if let Some(bytes) = self.0.blobs.plain_cached(&digest, offset) {
            return Ok(body(bytes, 0));
        }
        let target = digest.to_string();
        let opened =
            self.blocking(Operation::Read, &target, move |blobs| open(blobs, &digest, offset));
        match opened.await? {
            None => Err(not_found(&digest)),
            Some(OpenedBlob::All(bytes)) => Ok(body(bytes, 0)),
            Some(OpenedBlob::More(first, reader)) => {
                let permit = permit(budget, reader.memory_bytes(), Operation::Read, &target)?;
                let first = stream::once(async move { Ok(first) });
                let rest = self.body(&target, (*reader, permit), |(reader, _)| reader.next_piece());
                Ok(first.chain(rest).boxed())
            }
        }
    }

    async fn put(&self, request: &PutRequest) -> Result<()> {
        let digest = request.digest;
        self.record_blob(TraceOperation::Put, &digest);
        let target = digest.to_string();
        let present = self.blocking(Operation::Write, &target, move |blobs| {
            Ok((blobs.all_present(&[digest], Touch::Now)?, blobs.receive(&digest)))
        });
        let (is_present, mut incoming) = present.await?;
        if is_present && digest.len > 0 {
            return Ok(());
        }
        let mut offset = 0;
        // CANCEL: dropping `incoming` keeps nothing.
        while offset < digest.len {
            let left = usize::try_from(digest.len - offset).unwrap_or(usize::MAX);
            let piece = request.source.read(offset, left.min(PIECE_BYTES)).await?;
            if piece.is_empty() || piece.len() > left {
                let message = format!("expected {} bytes, got {offset}", digest.len);
                return Err(Error::new(ErrorKind::Changed, Operation::Write, target, message));
            }
            offset += piece.len() as u64;
            let written = self.blocking(Operation::Write, &target, move |_| {
                incoming.write(&piece)?;
                Ok(incoming)
            });
            incoming = written.await?;
        }
        self.blocking(Operation::Write, &target, move |_| incoming.finish()).await
    }

    fn identity(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0.identity)
    }

    fn put_buffer_bytes(&self, len: u64) -> u64 {
        // A small blob is in memory as a whole until its group is written, and once more in the group.
        let inline_bytes_max = self.0.blobs.core.options().inline_bytes_max as u64;
        2 * len.min(inline_bytes_max)
    }
}

#[async_trait]
impl ChunkStore for LocalStore {
    async fn profile(&self) -> Result<Arc<StoreProfile>> {
        Ok(Arc::clone(&self.0.profile))
    }

    async fn get_batch(
        &self,
        digests: &[Digest],
        _: &Budget,
    ) -> Result<Vec<Result<Option<Bytes>>>> {
        for digest in digests {
            self.record_blob(TraceOperation::Get, digest);
        }
        let digests = digests.to_vec();
        let read = self.blocking(Operation::Read, "a batch", move |blobs| {
            let read = |digest: &Digest| match read_all(blobs, digest) {
                Err(StoreError::Damaged) => Ok(None),
                outcome => {
                    outcome.map_err(|failure| error(Operation::Read, &digest.to_string(), failure))
                }
            };
            Ok(digests.iter().map(read).collect())
        });
        read.await
    }

    async fn put_batch(
        &self,
        chunks: &[(Digest, Bytes)],
        progress: &SendProgress,
    ) -> Result<Vec<Result<()>>> {
        for (digest, _) in chunks {
            self.record_blob(TraceOperation::Put, digest);
        }
        let chunks = chunks.to_vec();
        let sum = chunks.iter().map(|(digest, _)| digest.len).sum();
        let put = self.blocking(Operation::Write, "a batch", move |blobs| {
            let results = blobs.put_all(&chunks).into_iter().zip(&chunks);
            let named = results.map(|(result, (digest, _))| {
                let target = digest.to_string();
                result.map_err(|failure| error(Operation::Write, &target, failure))
            });
            Ok(named.collect())
        });
        let results = put.await?;
        progress.passed(sum);
        Ok(results)
    }

    async fn manifest(
        &self,
        digest: &Digest,
        chunking: Option<&Chunking>,
        budget: &Budget,
    ) -> Result<Option<Manifest>> {
        let digest = *digest;
        let target = digest.to_string();
        let own = self.0.profile.chunkings.first();
        let Some(chunking) = chunking.or(own).copied() else { return Ok(None) };
        let stored =
            self.blocking(Operation::Read, &target, move |blobs| blobs.manifest_bytes(&digest));
        let bytes = match stored.await? {
            Some(bytes) => bytes.saturating_mul(MANIFEST_MEMORY_FACTOR),
            // The last chunk may be shorter than the function allows.
            None => (digest.len / chunk_bytes_min(&chunking) + 2) * CHUNK_MEMORY_BYTES,
        };
        let _permit = permit(budget, bytes, Operation::Read, &target)?;
        let split =
            self.blocking(Operation::Read, &target, move |blobs| blobs.split(&digest, &chunking));
        let Some(record) = split.await? else { return Ok(None) };
        let manifest = Manifest::new(digest, record.chunks, record.chunking);
        manifest.map(Some).map_err(|error| {
            let message = "the stored manifest is invalid";
            Error::new(ErrorKind::Integrity, Operation::Read, target, message).caused_by(error)
        })
    }

    async fn register(&self, manifest: &Manifest) -> Result<Registered> {
        let blob = *manifest.blob();
        let chunks = manifest.chunks().to_vec();
        let chunking = manifest.chunking().copied();
        let target = blob.to_string();
        let spliced = self.blocking(Operation::Write, &target, move |blobs| {
            blobs.splice(&blob, &chunks, chunking)
        });
        Ok(match spliced.await? {
            Spliced::Done => Registered::Done,
            Spliced::ChunkMissing => Registered::ChunkMissing,
        })
    }
}
