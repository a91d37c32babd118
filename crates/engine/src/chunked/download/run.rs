//! [`run`]: one download, from the request for the manifest to the report. It chooses between
//! chunks and one stream.
//!
//! Invariants:
//! - The target is opened before the first request, so that a mistake in it costs no transfer.
//! - If the store lacks a chunk, the download continues as one stream, if the options allow it and
//!   the blob has several chunks.
//! - All units have ended before the destination is committed or abandoned.
//!
//! This module fetches no chunk itself. The units do.

mod report;
mod seeds;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;
use tidegate_core::extents::Extents;

use super::ask;
use super::fetch::{FetchCounts, Fetcher};
use super::fetch_error::FetchError;
use super::options::ChunkedDownloadOptions;
use super::place::Placing;
use super::plan;
use super::queue::{Batching, Queue};
use super::recurring::RecurringChunks;
use super::resume::{self, Resumed};
use super::units::{self, ChunkJob, ChunkUnits};
use super::whole::BlobStream;
use crate::budget::{Budget, ListPermit};
use crate::chunked::verify::ChunkVerifier;
use crate::chunked::{ChunkStore, Manifest, StoreProfile};
use crate::error::{Error, ErrorKind, Operation, Result, Setting};
use crate::read::Flow;
use crate::remote::Version;
use crate::report::Report;
use crate::sink::file::journal::{CrcName, Identity};
use crate::sink::hashers::Sums;
use crate::sink::{Mark, Sink};
use crate::transfer::attempt::Calls;
use crate::transfer::checks::Checks;
use crate::transfer::destination::{
    Committed, Destination, DestinationOptions, InitialGrant, PartStart,
};
use crate::transfer::driver::{Flight, drive_to_end};
use crate::transfer::limits::{ORDERED_SHARE, STREAM_BYTES, UNIT_BYTES};
use crate::transfer::target::{Prepared, Target};
use crate::transfer::window::TransferWindow;

/// For a target in memory: the most bytes that units in flight hold, in addition to the blob.
const MEMORY_UNITS_BYTES: u64 = 32 << 20;

/// The form in which the blob arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FetchMode {
    /// In units. Each unit reserves its bytes before it starts.
    Chunks,
    /// As one stream.
    Whole,
}

/// The state of one download.
struct Job<'a> {
    fetcher: Fetcher,
    blob: Digest,
    checks: Checks,
    options: &'a ChunkedDownloadOptions,
    outcome: Outcome,
}

/// The parts of the report that are collected during the download.
#[derive(Default)]
struct Outcome {
    chunks: u64,
    copied_chunks: u64,
    copied_bytes: u64,
    resumed_bytes: u64,
    whole: bool,
    notes: Vec<String>,
    /// The reservation for the list of chunks.
    list: Option<ListPermit>,
}

pub(super) async fn run(
    store: &Arc<dyn ChunkStore>,
    digest: &Digest,
    target: Target,
    options: &ChunkedDownloadOptions,
) -> Result<Report> {
    let start = Instant::now();
    let target_path = match &target {
        Target::File(path) => Some(path.clone()),
        _ => None,
    };
    let sources = options.resume.then(|| vec![source(digest)]);
    let (seeds, state) = (options.seeds.len(), &options.state);
    let mut prepared = Prepared::new(target, sources, seeds, state, &options.cancel).await?;
    let _owner = prepared.owner();
    let calls = Calls {
        policy: options.retry.clone(),
        // A share of its own, so that blobs share the budget fairly.
        budget: options.budget.share(),
        cancel: options.cancel.child_token(),
        operation: Operation::Download,
        target: digest.to_string().into(),
        stats: Arc::clone(options.progress.stats()),
    };
    let fetcher = Fetcher {
        store: Arc::clone(store),
        identity: store.identity().into(),
        in_flight: options.in_flight.clone(),
        calls,
        window: Arc::new(TransferWindow::new(options.window)),
        flow: Flow::of_read(&options.retry),
        counts: Arc::new(FetchCounts::default()),
        verifier: ChunkVerifier::default(),
        refuses_batches: Arc::default(),
        recurring: None,
    };
    let outcome = Outcome { notes: prepared.take_notes(), ..Outcome::default() };
    let checks = Checks::of_digest(digest);
    let mut job = Job { fetcher, blob: *digest, checks, options, outcome };
    options.progress.expect(Some(digest.len));
    let committed = match job.ask().await {
        Ok((profile, Some(manifest))) => {
            job.outcome.chunks = manifest.chunks().len() as u64;
            job.chunked(prepared, &profile, manifest, target_path).await?
        }
        Ok((_, None)) => match job.as_one_chunk() {
            Some(manifest) => {
                job.outcome.whole = true;
                let plain = StoreProfile::new(digest.function);
                job.chunked(prepared, &plain, manifest, None).await?
            }
            None => job.whole(prepared).await?,
        },
        Err(error) => {
            resume::leave(prepared, &error).await;
            return Err(error);
        }
    };
    Ok(job.report(committed, start.elapsed()))
}

impl Job<'_> {
    /// Asks for the store's profile, and for the blob's manifest if the store has one.
    async fn ask(&mut self) -> Result<(Arc<StoreProfile>, Option<Manifest>)> {
        let Self { fetcher, blob, options, outcome, .. } = self;
        let (store, calls) = (&fetcher.store, &fetcher.calls);
        let patience = calls.patience(0);
        let profile = calls.first(patience, |_| store.profile()).await?;
        if !profile.digest_functions.contains(&blob.function) {
            let message = format!("the store does not name blobs by {}", blob.function);
            return Err(calls.error(ErrorKind::Unsupported, message));
        }
        // A blob that is not longer than the longest chunk would be a single chunk. Stores keep no
        // manifest of it.
        let chunking = profile.chunkings.first();
        let threshold = profile.chunkings.iter().map(Chunking::chunk_bytes_max).min().unwrap_or(0);
        if blob.len <= threshold || !profile.can_split {
            return Ok((profile, None));
        }
        let asked = ask::manifest(fetcher, blob, chunking, options.whole_fallback);
        let (manifest, failure) = asked.await?;
        if let Some(failure) = failure {
            outcome.notes.push(format!("fetched as a whole: {}", failure.chain()));
        }
        let manifest = manifest.filter(|manifest| manifest.chunks().len() > 1);
        let Some(manifest) = manifest else { return Ok((profile, None)) };
        let list_bytes = manifest.chunks().len() as u64 * plan::LISTED_BYTES;
        outcome.list = calls.budget.try_list(list_bytes);
        if outcome.list.is_some() {
            return Ok((profile, Some(manifest)));
        }
        let limit = calls.budget.lists_bytes();
        let message = format!(
            "the list of its chunks takes {list_bytes} bytes of memory, and all lists may take {limit}"
        );
        if !options.whole_fallback {
            let error = calls.error(ErrorKind::Unsupported, message);
            return Err(error.with_hint(Setting::Memory));
        }
        outcome.notes.push(format!("fetched as a whole: {message}"));
        Ok((profile, None))
    }

    /// Treats a blob that fits in memory as one chunk. It is then verified before it is written,
    /// and concurrent downloads fetch it once.
    fn as_one_chunk(&self) -> Option<Manifest> {
        let held_bytes_max = units::held_bytes_max(&self.fetcher.calls.budget);
        let fits = (1..=held_bytes_max).contains(&self.blob.len);
        fits.then(|| Manifest::new(self.blob, vec![self.blob], None).ok()).flatten()
    }

    /// Downloads the blob as chunks.
    async fn chunked(
        &mut self,
        prepared: Prepared,
        profile: &StoreProfile,
        manifest: Manifest,
        target_path: Option<PathBuf>,
    ) -> Result<Committed> {
        let manifest = Arc::new(manifest);
        let calls = &self.fetcher.calls;
        let (prepared, resumed) =
            resume::chunks(prepared, &manifest, self.options.resume, calls).await?;
        let Resumed { kept, mut seeds } = resumed;
        if let Err(error) = self.gather(&mut seeds, profile, &manifest, target_path.as_ref()).await
        {
            resume::leave(prepared, &error).await;
            return Err(error);
        }
        let mut done = Extents::new();
        for mark in &kept {
            done.insert(mark.start..mark.start + mark.crc.len());
        }
        self.count_resumed(done.total());
        let destination = self.open(prepared, kept, FetchMode::Chunks).await?;
        let budget = &self.fetcher.calls.budget;
        let batching = Batching::new(profile.batch, units::held_bytes_max(budget));
        let queue = if matches!(destination.sink, Sink::Ordered(_)) {
            let recurring = RecurringChunks::new(&manifest, destination.bytes.clone());
            self.fetcher.recurring = Some(Arc::new(recurring));
            Queue::ordered(plan::in_order(&manifest, &seeds), batching)
        } else {
            Queue::free(plan::distinct(&manifest, &done, &seeds), batching)
        };
        drop(seeds);
        let shared = self.shared(destination, done, batching);
        let (flight, cancel) = (Flight::default(), &self.options.cancel);
        let mut units = ChunkUnits::new(&shared, queue);
        let driven = drive_to_end(&mut units, flight, cancel, &shared.placing.stop, || {}).await;
        drop(units);
        self.fetcher.recurring = None;
        // Every unit has ended, so this is the last reference.
        let Some(shared) = Arc::into_inner(shared) else {
            let message = "a unit outlived its download";
            return Err(self.fetcher.calls.error(ErrorKind::Cancelled, message));
        };
        self.outcome.copied_chunks = shared.copied_chunks.load(Ordering::Relaxed);
        self.outcome.copied_bytes = shared.copied_bytes.load(Ordering::Relaxed);
        let (destination, done) = shared.placing.into_parts();
        match driven {
            Ok(()) => {
                let file = destination.reader();
                let committed = self.commit(destination).await?;
                self.index(target_path.zip(file), profile, manifest).await;
                Ok(committed)
            }
            Err(FetchError::Missing(error))
                if self.options.whole_fallback && manifest.chunks().len() > 1 =>
            {
                self.fall_back(destination, done, &error).await
            }
            Err(failure) => Err(abandon(destination, failure.into_error()).await),
        }
    }

    /// The state that all units share.
    fn shared(&self, destination: Destination, done: Extents, batching: Batching) -> Arc<ChunkJob> {
        let stop = self.fetcher.calls.cancel.child_token();
        let calls = self.fetcher.calls.ended_by(stop.clone());
        let budget = &self.fetcher.calls.budget;
        let progress = Arc::clone(&self.options.progress);
        Arc::new(ChunkJob {
            fetcher: Fetcher { calls, ..self.fetcher.clone() },
            placing: Placing::new(destination, progress, stop, done),
            batching,
            own: units::own_share(budget),
            held_bytes_max: units::held_bytes_max(budget),
            copied_chunks: AtomicU64::new(0),
            copied_bytes: AtomicU64::new(0),
        })
    }

    /// Downloads the blob as one stream.
    async fn whole(&mut self, prepared: Prepared) -> Result<Committed> {
        let calls = &self.fetcher.calls;
        let (prepared, kept) = resume::whole(prepared, self.options.resume, calls).await?;
        let mut done = Extents::new();
        for mark in &kept {
            done.insert(mark.start..mark.start + mark.crc.len());
        }
        self.count_resumed(done.total());
        let destination = self.open(prepared, kept, FetchMode::Whole).await?;
        self.stream(destination, done).await
    }

    /// Continues as one stream, because a chunk is missing. A part file is emptied first; other
    /// sinks keep their bytes.
    async fn fall_back(
        &mut self,
        destination: Destination,
        mut done: Extents,
        missing: &Error,
    ) -> Result<Committed> {
        self.outcome.notes.push(format!("fetched as a whole: {}", missing.chain()));
        let (identity, hashers) = (identity(&self.blob), self.checks.hashers());
        let (destination, is_empty) = destination.restart(identity, hashers).await?;
        if is_empty {
            self.options.progress.undone(done.total());
            done = Extents::new();
            self.outcome.resumed_bytes = 0;
        }
        self.stream(destination, done).await
    }

    async fn stream(&mut self, destination: Destination, done: Extents) -> Result<Committed> {
        self.outcome.whole = true;
        let stop = self.fetcher.calls.cancel.clone();
        let placing = Placing::new(destination, Arc::clone(&self.options.progress), stop, done);
        let streamed = self.stream_into(&placing).await;
        let (destination, _) = placing.into_parts();
        match streamed {
            Ok(()) => self.commit(destination).await,
            Err(error) => Err(abandon(destination, error).await),
        }
    }

    async fn stream_into(&self, placing: &Placing) -> Result<()> {
        let (calls, destination) = (&self.fetcher.calls, &placing.destination);
        // Reserves bytes before requests. An ordered sink already has its reservation.
        let held = if matches!(destination.sink, Sink::Ordered(_)) { 0 } else { UNIT_BYTES };
        let _permit =
            calls.unless_cancelled(destination.bytes.bytes(held.min(self.blob.len))).await?;
        let whole = BlobStream { fetcher: &self.fetcher, placing };
        tokio::select! {
            biased;
            error = destination.sink.failed() => Err(error),
            streamed = whole.whole(&self.blob) => streamed.map_err(FetchError::into_error),
        }
    }

    /// Opens the destination. `kept` are the verified ranges of a part file.
    async fn open(
        &mut self,
        prepared: Prepared,
        kept: Vec<Mark>,
        arrival: FetchMode,
    ) -> Result<Destination> {
        let (calls, options) = (&self.fetcher.calls, self.options);
        let granted = if arrival == FetchMode::Whole && prepared.is_ordered(true) {
            let bytes = stream_bytes(&calls.budget);
            let permit = calls.unless_cancelled(calls.budget.bytes(bytes)).await?;
            InitialGrant { permit: Some(permit), end: u64::MAX }
        } else {
            InitialGrant::default()
        };
        let units_bytes =
            MEMORY_UNITS_BYTES.min(self.blob.len).min(calls.budget.limits().bytes / ORDERED_SHARE);
        let destination = DestinationOptions {
            range: 0..self.blob.len,
            hashers: self.checks.hashers(),
            start: if kept.is_empty() {
                PartStart::Empty(Some(identity(&self.blob)))
            } else {
                PartStart::Kept(identity(&self.blob), kept)
            },
            granted,
            units_bytes,
            lends: arrival == FetchMode::Chunks,
            durability: options.durability,
            pool: options.pool.clone(),
            progress: Arc::clone(&options.progress),
        };
        let opened = Destination::open(prepared, destination, calls.clone(), || {});
        let mut destination = opened.await?;
        self.outcome.notes.append(&mut destination.take_notes());
        Ok(destination)
    }

    async fn commit(&mut self, destination: Destination) -> Result<Committed> {
        let mut committed =
            destination.commit(Sums::default(), self.blob.len, &self.checks).await?;
        self.outcome.notes.extend(committed.note.take());
        Ok(committed)
    }

    fn count_resumed(&mut self, bytes: u64) {
        self.outcome.resumed_bytes = bytes;
        self.options.progress.reused(bytes);
    }
}

/// Ends a failed download and returns its error. The part file may stay: each range in its journal
/// is already verified, or is verified when a later run resumes it.
async fn abandon(destination: Destination, error: Error) -> Error {
    let rest = destination.abandon(&error, error.kind() != ErrorKind::Changed).await;
    error.with_rest(rest)
}

/// Identifies the blob of a part file by its digest, which any store may serve.
fn identity(blob: &Digest) -> Identity {
    Identity {
        source: source(blob),
        // The digest identifies the content, regardless of the store and the caller.
        selected: None,
        revision: None,
        coding: None,
        version: Version::Digest(blob.to_string()),
        len_bytes: blob.len,
        crc: CrcName::Crc32c,
    }
}

/// The name of the blob in a part file's journal.
fn source(blob: &Digest) -> String {
    format!("digest:{blob}")
}

/// The most bytes that one stream holds of this budget.
pub(super) fn stream_bytes(budget: &Budget) -> u64 {
    STREAM_BYTES.min(budget.limits().bytes / ORDERED_SHARE)
}
