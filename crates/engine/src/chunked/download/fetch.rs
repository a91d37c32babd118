//! [`Fetcher`]: chunks from a store, verified, each fetched once however many in this process want
//! it at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryClass;

use super::body::ResumingBody;
use super::plan::PlannedChunk;
use super::recurring::RecurringChunks;
use crate::chunked::ChunkStore;
use crate::chunked::chunk::Chunk;
use crate::chunked::inflight::{ChunksInFlight, Follower, Joined, Key, Leader};
use crate::chunked::verify::{Arriving, UnverifiedChunk, Verifier};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::{FLAWS_MAX, Flow};
use crate::transfer::attempt::Calls;
use crate::transfer::part::Part;
use crate::transfer::window::TransferWindow;

/// Why a chunk cannot be had.
#[derive(Debug)]
pub(super) enum FetchError {
    /// The store has it no more: the blob may still be had as a whole.
    Missing(Error),
    /// Anything else.
    Failed(Error),
}

impl From<Error> for FetchError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl FetchError {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Missing(error) | Self::Failed(error) => error,
        }
    }

    /// The same trouble as that of this part of the blob.
    pub(super) fn with(self, part: &Part, calls: &Calls) -> Self {
        match self {
            Self::Missing(error) => Self::Missing(in_part(error, part, calls)),
            Self::Failed(error) => Self::Failed(in_part(error, part, calls)),
        }
    }
}

/// The error as that of a part of the blob. An error of the target, or of the caller's own doing, is
/// about no part.
fn in_part(error: Error, part: &Part, calls: &Calls) -> Error {
    let has_part = error.target() == &*calls.target && error.range().is_some();
    if has_part || matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Storage) {
        return error;
    }
    part.add_to(error, calls, "failed")
}

/// What was brought, and how.
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
    /// Has the floor under the download's speed.
    pub(super) flow: Arc<Flow>,
    pub(super) counts: Arc<FetchCounts>,
    pub(super) verifier: Verifier,
    /// The store has refused a batch: it takes none.
    pub(super) refuses_batches: Arc<AtomicBool>,
    /// Chunks that recur further on, where the target takes bytes in order.
    pub(super) recurring: Option<Arc<RecurringChunks>>,
}

/// A chunk that this fetcher has to bring: its place among those asked for, and the duty to tell
/// the others; none, where one of them has the duty and is not heard of.
type Duty = (usize, Digest, Option<Leader<Key, Chunk>>);

/// One that somebody else brings.
type Awaited = (usize, Digest, Follower<Chunk>);

/// What came of waiting for somebody else.
#[derive(Debug)]
pub(super) enum LeaderOutcome<T> {
    /// The leader has it.
    Done(T),
    /// The leader gave up: another transfer must lead.
    GaveUp,
    /// No word for longer than a request may take.
    TimedOut,
}

impl Fetcher {
    /// Brings all that is wanted, in this order; `batched` where it fits one batch.
    ///
    /// What others are bringing is waited for, after what is ours to bring has been brought, so
    /// that two never wait for each other. Where they fail, it is ours.
    pub(super) async fn fetch(
        &self,
        plan: &[PlannedChunk],
        batched: bool,
    ) -> Result<Vec<Chunk>, FetchError> {
        let mut chunks: Vec<Option<Chunk>> = vec![None; plan.len()];
        let mut timed_out = vec![false; plan.len()];
        loop {
            let (led, follows) = self.join(plan, &timed_out, &mut chunks);
            if batched && !self.refuses_batches.load(Ordering::Relaxed) {
                self.bring_batch(plan, led, &mut chunks).await?;
            } else {
                self.bring_singly(plan, led, &mut chunks).await?;
            }
            for (index, digest, follow) in follows {
                match self.wait_for_leader(follow, digest.len).await? {
                    LeaderOutcome::Done(chunk) => {
                        if let Some(place) = chunks.get_mut(index) {
                            self.shared(&digest);
                            *place = Some(chunk);
                        }
                    }
                    LeaderOutcome::GaveUp => {}
                    LeaderOutcome::TimedOut => {
                        if let Some(timed_out) = timed_out.get_mut(index) {
                            *timed_out = true;
                        }
                    }
                }
            }
            if chunks.iter().all(Option::is_some) {
                return Ok(chunks.into_iter().flatten().collect());
            }
        }
    }

    /// Waits for somebody else to bring a chunk of `bytes`, though not for ever: whoever leads may be
    /// in a part of the process that stands still.
    pub(super) async fn wait_for_leader<T: Clone>(
        &self,
        follow: Follower<T>,
        bytes: u64,
    ) -> Result<LeaderOutcome<T>> {
        let patience = self.calls.patience(bytes);
        // CANCEL: nothing is lost by leaving; whoever leads goes on.
        let outcome = self.calls.unless_cancelled(tokio::time::timeout(patience, follow.outcome()));
        Ok(match outcome.await? {
            Ok(Some(outcome)) => LeaderOutcome::Done(outcome),
            Ok(None) => LeaderOutcome::GaveUp,
            Err(_elapsed) => LeaderOutcome::TimedOut,
        })
    }

    /// What names a chunk on its way from this store.
    pub(super) fn key(&self, digest: &Digest) -> Key {
        Key { store: Arc::clone(&self.identity), digest: *digest }
    }

    /// What of the `wants` that have not been brought is ours to bring, and what is others'. Those
    /// that nothing was heard of are ours in any case.
    fn join(
        &self,
        plan: &[PlannedChunk],
        timed_out: &[bool],
        chunks: &mut [Option<Chunk>],
    ) -> (Vec<Duty>, Vec<Awaited>) {
        let (mut led, mut follows) = (Vec::new(), Vec::new());
        let digests = plan.iter().map(|planned| &planned.digest);
        let wanted = digests.zip(timed_out).zip(chunks).enumerate();
        for (index, ((digest, timed_out), chunk)) in wanted.filter(|(_, (_, one))| one.is_none()) {
            match self.in_flight.fetches.join(&self.key(digest)) {
                // Looked for only now: whoever kept it did so before letting go of its lead.
                Joined::Leader(lead) => match self.kept(digest) {
                    Some(kept) => {
                        *chunk = Some(kept.clone());
                        lead.succeed(kept);
                    }
                    None => led.push((index, *digest, Some(lead))),
                },
                Joined::Follower(_) if *timed_out => led.push((index, *digest, None)),
                Joined::Follower(follow) => follows.push((index, *digest, follow)),
            }
        }
        (led, follows)
    }

    fn kept(&self, digest: &Digest) -> Option<Chunk> {
        self.recurring.as_ref()?.take(digest)
    }

    /// The part of the blob that a chunk is.
    pub(super) fn part(&self, planned: &PlannedChunk) -> Part {
        Part::of_chunk(planned.first(), &planned.digest, &self.calls.target)
    }

    /// In one request; those that fail alone are asked for again, together.
    async fn bring_batch(
        &self,
        plan: &[PlannedChunk],
        mut led: Vec<Duty>,
        chunks: &mut [Option<Chunk>],
    ) -> Result<(), FetchError> {
        let mut attempts = self.calls.begin();
        let mut flaws = 0;
        while !led.is_empty() {
            let digests: Vec<Digest> = led.iter().map(|(_, digest, _)| *digest).collect();
            let batch = led.iter().filter_map(|led_chunk| plan.get(led_chunk.0));
            let batch: Vec<(u64, Digest)> =
                batch.map(|planned| (planned.first(), planned.digest)).collect();
            let batch = Part::of_batch(&batch, &self.calls.target);
            let limit = self.calls.patience(digests.iter().map(|digest| digest.len).sum());
            let permit = attempts.permit().await?;
            let sent = self.window.send();
            let asked = self.store.get_batch(&digests, &self.calls.budget);
            let answer = attempts.within(limit, asked).await;
            drop(permit);
            let failure = match answer {
                Ok(answers) => {
                    let arrived = answers.iter().filter_map(|one| one.as_ref().ok()?.as_ref());
                    let bytes = arrived.map(|bytes| bytes.len() as u64).sum();
                    sent.brought(bytes);
                    self.flow.on_bytes(bytes);
                    self.calls.stats.answered();
                    self.calls.stats.delivered(bytes);
                    attempts.on_bytes(bytes);
                    check_count(answers.len(), digests.len(), &self.calls)
                        .map_err(|error| in_part(error, &batch, &self.calls))?;
                    let (rest, failure) = self.sort(plan, led, answers, chunks).await?;
                    led = rest;
                    failure
                }
                // One that says nothing of batches may not know them, or make shorter messages than it
                // says.
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    tracing::debug!(error = error.chain(), "no more batches");
                    sent.failed(&error);
                    self.refuses_batches.store(true, Ordering::Relaxed);
                    return self.bring_singly(plan, led, chunks).await;
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
        Ok(())
    }

    /// Takes what arrived; gives back those to be asked for again, and why, and which of them says
    /// so.
    async fn sort(
        &self,
        plan: &[PlannedChunk],
        led: Vec<Duty>,
        answers: Vec<Result<Option<Bytes>>>,
        chunks: &mut [Option<Chunk>],
    ) -> Result<(Vec<Duty>, Option<(Error, Part)>), FetchError> {
        let mut rest = Vec::new();
        let (mut missing, mut failure): (Option<FetchError>, Option<(Error, Part)>) = (None, None);
        let part = |led_chunk: &Duty| plan.get(led_chunk.0).map(|planned| self.part(planned));
        let part = |led_chunk: &Duty| {
            part(led_chunk).unwrap_or_else(|| Part::of_bytes(0..led_chunk.1.len))
        };
        let (mut arrived, mut unverified) = (Vec::new(), Vec::new());
        for (led_chunk, answer) in led.into_iter().zip(answers) {
            let flaw = match answer {
                Ok(Some(bytes)) => {
                    unverified.push(UnverifiedChunk::new(led_chunk.1, bytes));
                    None
                }
                Ok(None) => Some(absent(&led_chunk.1)),
                Err(error) => Some(error),
            };
            arrived.push((led_chunk, flaw));
        }
        let mut verified = self.verifier.verify_all(unverified).await.into_iter();
        for (led_chunk, flaw) in arrived {
            let chunk = match flaw {
                Some(flaw) => Err(flaw),
                None => verified.next().unwrap_or_else(|| Err(absent(&led_chunk.1))),
            };
            match chunk {
                Ok(chunk) => self.brought(led_chunk, chunk, chunks),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    missing = Some(FetchError::Missing(error).with(&part(&led_chunk), &self.calls));
                }
                Err(error) => {
                    // What no attempt can mend outweighs what one can.
                    let is_final = *error.retry() == RetryClass::Never;
                    if failure.is_none() || is_final {
                        failure = Some((error, part(&led_chunk)));
                    }
                    rest.push(led_chunk);
                }
            }
        }
        match missing {
            Some(missing) => Err(missing),
            None => Ok((rest, failure)),
        }
    }

    /// One after the other.
    async fn bring_singly(
        &self,
        plan: &[PlannedChunk],
        led: Vec<Duty>,
        chunks: &mut [Option<Chunk>],
    ) -> Result<(), FetchError> {
        for led_chunk in led {
            self.bring_one(plan, led_chunk, chunks).await?;
        }
        Ok(())
    }

    /// By itself, going on where it was interrupted.
    async fn bring_one(
        &self,
        plan: &[PlannedChunk],
        led_chunk: Duty,
        chunks: &mut [Option<Chunk>],
    ) -> Result<(), FetchError> {
        let chunk = self.get(led_chunk.1).await.map_err(|failure| match plan.get(led_chunk.0) {
            Some(planned) => failure.with(&self.part(planned), &self.calls),
            None => failure,
        })?;
        self.brought(led_chunk, chunk, chunks);
        Ok(())
    }

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

    /// A chunk went straight into the sink, so many bytes of it from the store.
    pub(super) fn streamed(&self, bytes: u64) {
        self.counts.fetched_chunks.fetch_add(1, Ordering::Relaxed);
        self.streamed_bytes(bytes);
    }

    /// Somebody else has brought a chunk.
    pub(super) fn shared(&self, digest: &Digest) {
        self.counts.shared_chunks.fetch_add(1, Ordering::Relaxed);
        self.counts.shared_bytes.fetch_add(digest.len, Ordering::Relaxed);
    }

    /// Bytes went straight into the sink.
    pub(super) fn streamed_bytes(&self, bytes: u64) {
        self.counts.fetched_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn brought(&self, (index, digest, lead): Duty, chunk: Chunk, chunks: &mut [Option<Chunk>]) {
        self.counts.fetched_chunks.fetch_add(1, Ordering::Relaxed);
        self.counts.fetched_bytes.fetch_add(digest.len, Ordering::Relaxed);
        if let Some(recurring) = &self.recurring {
            recurring.offer(&digest, &chunk);
        }
        if let Some(lead) = lead {
            lead.succeed(chunk.clone());
        }
        if let Some(place) = chunks.get_mut(index) {
            *place = Some(chunk);
        }
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
