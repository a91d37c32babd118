//! [`Fetcher`]: chunks from a store, verified. Each chunk is fetched once, however many transfers of the
//! client need it at the same time: one transfer leads, the others follow.
//!
//! Why two fetches never wait for each other: a fetch first gets everything that it leads, and only
//! then waits for the leaders of the rest. If fetch A leads chunk 1 and follows chunk 2, and B leads 2
//! and follows 1, both get their own chunk and then find the other one there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryClass;

use super::body::ResumingBody;
use super::fetch_error::{FetchError, in_part};
use super::plan::PlannedChunk;
use super::recurring::RecurringChunks;
use crate::chunked::ChunkStore;
use crate::chunked::chunk::Chunk;
use crate::chunked::inflight::{ChunksInFlight, Follower, Joined, Key, Leader};
use crate::chunked::verify::{Arriving, ChunkVerifier, UnverifiedChunk};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::{FLAWS_MAX, Flow};
use crate::transfer::attempt::Calls;
use crate::transfer::blob_part::BlobPart;
use crate::transfer::window::TransferWindow;

/// Counts chunks and bytes by where they came from.
#[derive(Debug, Default)]
pub(super) struct FetchCounts {
    pub(super) fetched_chunks: AtomicU64,
    pub(super) fetched_bytes: AtomicU64,
    pub(super) shared_chunks: AtomicU64,
    pub(super) shared_bytes: AtomicU64,
}

/// Fetches chunks of one blob.
#[derive(Clone, Debug)]
pub(super) struct Fetcher {
    pub(super) store: Arc<dyn ChunkStore>,
    pub(super) identity: Arc<str>,
    /// Those of all transfers of this client.
    pub(super) in_flight: ChunksInFlight,
    pub(super) calls: Calls,
    pub(super) window: Arc<TransferWindow>,
    /// Holds the minimum speed of the download.
    pub(super) flow: Arc<Flow>,
    pub(super) counts: Arc<FetchCounts>,
    pub(super) verifier: ChunkVerifier,
    /// The store has refused a batch: it takes none.
    pub(super) refuses_batches: Arc<AtomicBool>,
    /// Chunks that recur later in the blob, if the target takes bytes in order.
    pub(super) recurring: Option<Arc<RecurringChunks>>,
}

/// One chunk of a fetch, from its plan to its bytes.
struct Fetching<'a> {
    planned: &'a PlannedChunk,
    state: FetchState,
}

enum FetchState {
    /// It is not decided who fetches it. With `timed_out`, its leader gave no sign in time.
    Open {
        timed_out: bool,
    },
    /// Fetched here. Without a leader, another transfer leads and timed out.
    Led(Option<Leader<Key, Chunk>>),
    /// Another transfer fetches it.
    Followed(Follower<Chunk>),
    Fetched(Chunk),
}

/// How a wait for a leader ended.
#[derive(Debug)]
pub(super) enum LeaderOutcome<T> {
    /// The leader has it.
    Done(T),
    /// The leader gave up: another transfer must lead.
    GaveUp,
    /// The leader gave no sign for longer than a request may take.
    TimedOut,
}

impl Fetching<'_> {
    fn digest(&self) -> Digest {
        self.planned.digest
    }

    fn is_led(&self) -> bool {
        matches!(self.state, FetchState::Led(_))
    }

    fn is_fetched(&self) -> bool {
        matches!(self.state, FetchState::Fetched(_))
    }

    fn into_chunk(self) -> Option<Chunk> {
        match self.state {
            FetchState::Fetched(chunk) => Some(chunk),
            _ => None,
        }
    }
}

impl Fetcher {
    /// Fetches the planned chunks, in this order. `batched` says that they fit one batch.
    pub(super) async fn fetch(
        &self,
        plan: &[PlannedChunk],
        batched: bool,
    ) -> Result<Vec<Chunk>, FetchError> {
        let open = |planned| Fetching { planned, state: FetchState::Open { timed_out: false } };
        let mut chunks: Vec<Fetching<'_>> = plan.iter().map(open).collect();
        loop {
            for one in &mut chunks {
                self.join(one);
            }
            if batched && !self.refuses_batches.load(Ordering::Relaxed) {
                self.fetch_batch(&mut chunks).await?;
            } else {
                self.fetch_singly(&mut chunks).await?;
            }
            self.follow(&mut chunks).await?;
            if chunks.iter().all(Fetching::is_fetched) {
                return Ok(chunks.into_iter().filter_map(Fetching::into_chunk).collect());
            }
        }
    }

    /// Decides whether this fetch or another transfer gets an open chunk.
    fn join(&self, one: &mut Fetching<'_>) {
        let FetchState::Open { timed_out } = one.state else { return };
        let digest = one.digest();
        one.state = match self.in_flight.fetches.join(&self.key(&digest)) {
            // A leader keeps a chunk that recurs before it ends, so only a new leader looks.
            Joined::Leader(leader) => match self.kept(&digest) {
                Some(kept) => {
                    leader.succeed(kept.clone());
                    FetchState::Fetched(kept)
                }
                None => FetchState::Led(Some(leader)),
            },
            Joined::Follower(_) if timed_out => FetchState::Led(None),
            Joined::Follower(follower) => FetchState::Followed(follower),
        };
    }

    /// Waits for the leaders of the chunks that other transfers fetch.
    async fn follow(&self, chunks: &mut [Fetching<'_>]) -> Result<()> {
        for one in chunks {
            if !matches!(one.state, FetchState::Followed(_)) {
                continue;
            }
            let open = FetchState::Open { timed_out: false };
            let FetchState::Followed(follower) = std::mem::replace(&mut one.state, open) else {
                continue;
            };
            match self.wait_for_leader(follower, one.digest().len).await? {
                LeaderOutcome::Done(chunk) => {
                    self.shared(&one.digest());
                    one.state = FetchState::Fetched(chunk);
                }
                LeaderOutcome::GaveUp => {}
                LeaderOutcome::TimedOut => one.state = FetchState::Open { timed_out: true },
            }
        }
        Ok(())
    }

    /// Waits for the leader of a chunk of `bytes`, but not forever: the leader may be in a part of the
    /// process that does not run.
    pub(super) async fn wait_for_leader<T: Clone>(
        &self,
        follower: Follower<T>,
        bytes: u64,
    ) -> Result<LeaderOutcome<T>> {
        let patience = self.calls.patience(bytes);
        // CANCEL: the leader does not depend on its followers.
        let outcome = tokio::time::timeout(patience, follower.outcome());
        Ok(match self.calls.unless_cancelled(outcome).await? {
            Ok(Some(outcome)) => LeaderOutcome::Done(outcome),
            Ok(None) => LeaderOutcome::GaveUp,
            Err(_elapsed) => LeaderOutcome::TimedOut,
        })
    }

    /// The key of a chunk of this store in the table of chunks in flight.
    pub(super) fn key(&self, digest: &Digest) -> Key {
        Key { store: Arc::clone(&self.identity), digest: *digest }
    }

    fn kept(&self, digest: &Digest) -> Option<Chunk> {
        self.recurring.as_ref()?.take(digest)
    }

    /// The part of the blob that a chunk is.
    pub(super) fn part(&self, planned: &PlannedChunk) -> BlobPart {
        BlobPart::of_chunk(planned.first(), &planned.digest, &self.calls.target)
    }

    /// Fetches the chunks that are led here in one request. Those that fail alone are requested again,
    /// together.
    async fn fetch_batch(&self, chunks: &mut [Fetching<'_>]) -> Result<(), FetchError> {
        let mut attempts = self.calls.begin();
        let mut flaws = 0;
        loop {
            let led: Vec<&mut Fetching<'_>> =
                chunks.iter_mut().filter(|one| one.is_led()).collect();
            if led.is_empty() {
                return Ok(());
            }
            let digests: Vec<Digest> = led.iter().map(|one| one.digest()).collect();
            let places: Vec<(u64, Digest)> =
                led.iter().map(|one| (one.planned.first(), one.digest())).collect();
            let batch = BlobPart::of_batch(&places, &self.calls.target);
            let limit = self.calls.patience(digests.iter().map(|digest| digest.len).sum());
            let permit = attempts.permit().await?;
            let sent = self.window.send();
            let asked = self.store.get_batch(&digests, &self.calls.budget);
            let response = attempts.within(limit, asked).await;
            drop(permit);
            let failure = match response {
                Ok(answers) => {
                    let arrived = answers.iter().filter_map(|one| one.as_ref().ok()?.as_ref());
                    let bytes = arrived.map(|bytes| bytes.len() as u64).sum();
                    sent.succeeded(bytes);
                    self.flow.on_bytes(bytes);
                    self.calls.stats.answered();
                    self.calls.stats.delivered(bytes);
                    attempts.on_bytes(bytes);
                    check_count(answers.len(), digests.len(), &self.calls)
                        .map_err(|error| in_part(error, &batch, &self.calls))?;
                    self.accept(led, answers).await?
                }
                // A store that does not describe its batches may not know them, or may send shorter
                // messages than it describes.
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    tracing::debug!(error = error.chain(), "no more batches");
                    sent.failed(&error);
                    self.refuses_batches.store(true, Ordering::Relaxed);
                    return self.fetch_singly(chunks).await;
                }
                Err(error) => {
                    sent.failed(&error);
                    if error.kind() == ErrorKind::NotFound {
                        return Err(FetchError::Missing(error).with(&batch, &self.calls));
                    }
                    Some((error, batch))
                }
            };
            if let Some((error, part)) = failure {
                flaws += u32::from(error.kind() == ErrorKind::Integrity);
                let ended = if flaws >= FLAWS_MAX {
                    Err(error.retryable(RetryClass::Never))
                } else {
                    attempts.interrupted(error).await
                };
                ended.map_err(|error| in_part(error, &part, &self.calls))?;
            }
        }
    }

    /// Verifies the chunks of a batch, which `answers` has in the same order. Returns the error of a
    /// chunk that has to be requested again, with its part of the blob: an error that no retry can
    /// help, if there is one.
    async fn accept(
        &self,
        led: Vec<&mut Fetching<'_>>,
        answers: Vec<Result<Option<Bytes>>>,
    ) -> Result<Option<(Error, BlobPart)>, FetchError> {
        let (mut arrived, mut unverified) = (Vec::new(), Vec::new());
        for (one, answer) in led.into_iter().zip(answers) {
            let flaw = match answer {
                Ok(Some(bytes)) => {
                    unverified.push(UnverifiedChunk::new(one.digest(), bytes));
                    None
                }
                Ok(None) => Some(absent(&one.digest())),
                Err(error) => Some(error),
            };
            arrived.push((one, flaw));
        }
        let mut verified = self.verifier.verify_all(unverified).await.into_iter();
        let (mut missing, mut failure) = (None, None);
        for (one, flaw) in arrived {
            let chunk = match flaw {
                Some(flaw) => Err(flaw),
                None => verified.next().unwrap_or_else(|| Err(absent(&one.digest()))),
            };
            match chunk {
                Ok(chunk) => self.fetched(one, chunk),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let part = self.part(one.planned);
                    missing = Some(FetchError::Missing(error).with(&part, &self.calls));
                }
                Err(error) => {
                    let is_final = *error.retry() == RetryClass::Never;
                    if failure.is_none() || is_final {
                        failure = Some((error, self.part(one.planned)));
                    }
                }
            }
        }
        match missing {
            Some(missing) => Err(missing),
            None => Ok(failure),
        }
    }

    /// Fetches the chunks that are led here one after the other.
    async fn fetch_singly(&self, chunks: &mut [Fetching<'_>]) -> Result<(), FetchError> {
        for one in chunks.iter_mut().filter(|one| one.is_led()) {
            let fetched = self.get(one.digest()).await;
            let chunk =
                fetched.map_err(|error| error.with(&self.part(one.planned), &self.calls))?;
            self.fetched(one, chunk);
        }
        Ok(())
    }

    /// Fetches one chunk, and continues after interruptions.
    async fn get(&self, digest: Digest) -> Result<Chunk, FetchError> {
        let mut body = ResumingBody::new(self, digest, 0);
        loop {
            let mut arriving = Arriving::new(digest)?;
            while let Some(frame) = body.next().await? {
                arriving.push(frame)?;
            }
            match arriving.finish(&self.verifier).await {
                Ok(chunk) => return Ok(chunk),
                Err(error) => body.rewind(0, error)?,
            }
        }
    }

    /// A chunk that is led here has arrived and is verified.
    fn fetched(&self, one: &mut Fetching<'_>, chunk: Chunk) {
        let digest = one.digest();
        self.counts.fetched_chunks.fetch_add(1, Ordering::Relaxed);
        self.counts.fetched_bytes.fetch_add(digest.len, Ordering::Relaxed);
        if let Some(recurring) = &self.recurring {
            recurring.offer(&digest, &chunk);
        }
        let state = std::mem::replace(&mut one.state, FetchState::Fetched(chunk.clone()));
        if let FetchState::Led(Some(leader)) = state {
            leader.succeed(chunk);
        }
    }

    /// A chunk was streamed into the sink, `bytes` of it from the store.
    pub(super) fn streamed(&self, bytes: u64) {
        self.counts.fetched_chunks.fetch_add(1, Ordering::Relaxed);
        self.streamed_bytes(bytes);
    }

    /// Bytes were streamed into the sink.
    pub(super) fn streamed_bytes(&self, bytes: u64) {
        self.counts.fetched_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Another transfer has fetched a chunk.
    pub(super) fn shared(&self, digest: &Digest) {
        self.counts.shared_chunks.fetch_add(1, Ordering::Relaxed);
        self.counts.shared_bytes.fetch_add(digest.len, Ordering::Relaxed);
    }
}

fn check_count(actual: usize, expected: usize, calls: &Calls) -> Result<()> {
    if actual == expected {
        return Ok(());
    }
    let message = format!("expected {expected} answers to a batch, got {actual}");
    Err(calls.error(ErrorKind::Integrity, message))
}

fn absent(digest: &Digest) -> Error {
    let message = "the store has it no more";
    Error::new(ErrorKind::NotFound, Operation::Read, digest.to_string(), message)
}
