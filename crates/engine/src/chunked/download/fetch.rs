//! [`Fetcher`]: chunks from a store, verified, each fetched once however many in this process want
//! it at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryClass;

use super::body::ResumingBody;
use super::keep::Keep;
use super::plan::Want;
use crate::chunked::ChunkStore;
use crate::chunked::chunk::Chunk;
use crate::chunked::inflight::{ChunksInFlight, Follow, Joined, Key, Lead};
use crate::chunked::prove::{Arriving, Claim, Prover};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::{FLAWS_MAX, Flow};
use crate::transfer::attempt::Calls;
use crate::transfer::part::Part;
use crate::transfer::window::TransferWindow;

/// Why a chunk cannot be had.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The store has it no more: the blob may still be had as a whole.
    Missing(Error),
    /// Anything else.
    Failed(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Trouble {
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
    pub(super) prover: Prover,
    /// The store has refused a batch: it takes none.
    pub(super) refuses_batches: Arc<AtomicBool>,
    /// Chunks that recur further on, where the target takes bytes in order.
    pub(super) keep: Option<Arc<Keep>>,
}

/// A chunk that this fetcher has to bring: its place among those asked for, and the duty to tell
/// the others; none, where one of them has the duty and is not heard of.
type Duty = (usize, Digest, Option<Lead<Key, Chunk>>);

/// One that somebody else brings.
type Awaited = (usize, Digest, Follow<Chunk>);

/// What came of waiting for somebody else.
#[derive(Debug)]
pub(super) enum Heard<T> {
    /// It is done.
    Outcome(T),
    /// Whoever led gave up: somebody else must lead.
    GivenUp,
    /// Nothing, for longer than a request may take.
    Nothing,
}

impl Fetcher {
    /// Brings all that is wanted, in this order; `batched` where it fits one batch.
    ///
    /// What others are bringing is waited for, after what is ours to bring has been brought, so
    /// that two never wait for each other. Where they fail, it is ours.
    pub(super) async fn fetch(&self, wants: &[Want], batched: bool) -> Result<Vec<Chunk>, Trouble> {
        let mut chunks: Vec<Option<Chunk>> = vec![None; wants.len()];
        let mut unheard = vec![false; wants.len()];
        loop {
            let (duties, follows) = self.join(wants, &unheard, &mut chunks);
            if batched && !self.refuses_batches.load(Ordering::Relaxed) {
                self.bring_batch(wants, duties, &mut chunks).await?;
            } else {
                self.bring_singly(wants, duties, &mut chunks).await?;
            }
            for (index, digest, follow) in follows {
                match self.hear(follow, digest.len).await? {
                    Heard::Outcome(chunk) => {
                        if let Some(place) = chunks.get_mut(index) {
                            self.shared(&digest);
                            *place = Some(chunk);
                        }
                    }
                    Heard::GivenUp => {}
                    Heard::Nothing => {
                        if let Some(unheard) = unheard.get_mut(index) {
                            *unheard = true;
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
    pub(super) async fn hear<T: Clone>(&self, follow: Follow<T>, bytes: u64) -> Result<Heard<T>> {
        let patience = self.calls.patience(bytes);
        // CANCEL: nothing is lost by leaving; whoever leads goes on.
        let heard = self.calls.unless_cancelled(tokio::time::timeout(patience, follow.outcome()));
        Ok(match heard.await? {
            Ok(Some(outcome)) => Heard::Outcome(outcome),
            Ok(None) => Heard::GivenUp,
            Err(_elapsed) => Heard::Nothing,
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
        wants: &[Want],
        unheard: &[bool],
        chunks: &mut [Option<Chunk>],
    ) -> (Vec<Duty>, Vec<Awaited>) {
        let (mut duties, mut follows) = (Vec::new(), Vec::new());
        let digests = wants.iter().map(|want| &want.digest);
        let wanted = digests.zip(unheard).zip(chunks).enumerate();
        for (index, ((digest, unheard), chunk)) in wanted.filter(|(_, (_, one))| one.is_none()) {
            match self.in_flight.fetches.join(&self.key(digest)) {
                // Looked for only now: whoever kept it did so before letting go of its lead.
                Joined::Lead(lead) => match self.kept(digest) {
                    Some(kept) => {
                        *chunk = Some(kept.clone());
                        lead.succeed(kept);
                    }
                    None => duties.push((index, *digest, Some(lead))),
                },
                Joined::Follow(_) if *unheard => duties.push((index, *digest, None)),
                Joined::Follow(follow) => follows.push((index, *digest, follow)),
            }
        }
        (duties, follows)
    }

    fn kept(&self, digest: &Digest) -> Option<Chunk> {
        self.keep.as_ref()?.take(digest)
    }

    /// The part of the blob that a chunk is.
    pub(super) fn part(&self, want: &Want) -> Part {
        Part::of_chunk(want.first(), &want.digest, &self.calls.target)
    }

    /// In one request; those that fail alone are asked for again, together.
    async fn bring_batch(
        &self,
        wants: &[Want],
        mut duties: Vec<Duty>,
        chunks: &mut [Option<Chunk>],
    ) -> Result<(), Trouble> {
        let mut attempts = self.calls.begin();
        let mut flaws = 0;
        while !duties.is_empty() {
            let digests: Vec<Digest> = duties.iter().map(|(_, digest, _)| *digest).collect();
            let batch = duties.iter().filter_map(|duty| wants.get(duty.0));
            let batch: Vec<(u64, Digest)> = batch.map(|want| (want.first(), want.digest)).collect();
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
                    let (rest, failure) = self.sort(wants, duties, answers, chunks).await?;
                    duties = rest;
                    failure
                }
                // One that says nothing of batches may not know them, or make shorter messages than it
                // says.
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    tracing::debug!(error = error.chain(), "no more batches");
                    sent.failed(&error);
                    self.refuses_batches.store(true, Ordering::Relaxed);
                    return self.bring_singly(wants, duties, chunks).await;
                }
                Err(error) => {
                    sent.failed(&error);
                    if error.kind() == ErrorKind::NotFound {
                        return Err(Trouble::Missing(error).with(&batch, &self.calls));
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
        wants: &[Want],
        duties: Vec<Duty>,
        answers: Vec<Result<Option<Bytes>>>,
        chunks: &mut [Option<Chunk>],
    ) -> Result<(Vec<Duty>, Option<(Error, Part)>), Trouble> {
        let mut rest = Vec::new();
        let (mut missing, mut failure): (Option<Trouble>, Option<(Error, Part)>) = (None, None);
        let part = |duty: &Duty| wants.get(duty.0).map(|want| self.part(want));
        let part = |duty: &Duty| part(duty).unwrap_or_else(|| Part::of_bytes(0..duty.1.len));
        let (mut arrived, mut claims) = (Vec::new(), Vec::new());
        for (duty, answer) in duties.into_iter().zip(answers) {
            let flaw = match answer {
                Ok(Some(bytes)) => {
                    claims.push(Claim::new(duty.1, bytes));
                    None
                }
                Ok(None) => Some(absent(&duty.1)),
                Err(error) => Some(error),
            };
            arrived.push((duty, flaw));
        }
        let mut proven = self.prover.prove_all(claims).await.into_iter();
        for (duty, flaw) in arrived {
            let chunk = match flaw {
                Some(flaw) => Err(flaw),
                None => proven.next().unwrap_or_else(|| Err(absent(&duty.1))),
            };
            match chunk {
                Ok(chunk) => self.brought(duty, chunk, chunks),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    missing = Some(Trouble::Missing(error).with(&part(&duty), &self.calls));
                }
                Err(error) => {
                    // What no attempt can mend outweighs what one can.
                    let is_final = *error.retry() == RetryClass::Never;
                    if failure.is_none() || is_final {
                        failure = Some((error, part(&duty)));
                    }
                    rest.push(duty);
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
        wants: &[Want],
        duties: Vec<Duty>,
        chunks: &mut [Option<Chunk>],
    ) -> Result<(), Trouble> {
        for duty in duties {
            self.bring_one(wants, duty, chunks).await?;
        }
        Ok(())
    }

    /// By itself, going on where it was interrupted.
    async fn bring_one(
        &self,
        wants: &[Want],
        duty: Duty,
        chunks: &mut [Option<Chunk>],
    ) -> Result<(), Trouble> {
        let chunk = self.get(duty.1).await.map_err(|trouble| match wants.get(duty.0) {
            Some(want) => trouble.with(&self.part(want), &self.calls),
            None => trouble,
        })?;
        self.brought(duty, chunk, chunks);
        Ok(())
    }

    async fn get(&self, digest: Digest) -> Result<Chunk, Trouble> {
        let mut body = ResumingBody::new(self, digest, 0);
        loop {
            let mut arriving = Arriving::new(digest)?;
            while let Some(frame) = body.next().await? {
                arriving.push(frame)?;
            }
            match arriving.finish(&self.prover).await {
                Ok(chunk) => return Ok(chunk),
                Err(error) => body.rewind(0, error)?,
            }
        }
    }

    /// A chunk went straight into the sink, so many bytes of it from the store.
    pub(super) fn poured(&self, bytes: u64) {
        self.counts.fetched_chunks.fetch_add(1, Ordering::Relaxed);
        self.poured_bytes(bytes);
    }

    /// Somebody else has brought a chunk.
    pub(super) fn shared(&self, digest: &Digest) {
        self.counts.shared_chunks.fetch_add(1, Ordering::Relaxed);
        self.counts.shared_bytes.fetch_add(digest.len, Ordering::Relaxed);
    }

    /// Bytes went straight into the sink.
    pub(super) fn poured_bytes(&self, bytes: u64) {
        self.counts.fetched_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn brought(&self, (index, digest, lead): Duty, chunk: Chunk, chunks: &mut [Option<Chunk>]) {
        self.counts.fetched_chunks.fetch_add(1, Ordering::Relaxed);
        self.counts.fetched_bytes.fetch_add(digest.len, Ordering::Relaxed);
        if let Some(keep) = &self.keep {
            keep.offer(&digest, &chunk);
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
