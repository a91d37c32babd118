//! [`Fetcher`]: chunks from a store, verified, each fetched once however many in this process want
//! it at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryClass;

use super::body::{FLAWS_MAX, ResumingBody};
use super::gate::Gate;
use super::keep::Keep;
use crate::chunked::ChunkStore;
use crate::chunked::attempt::Calls;
use crate::chunked::chunk::Chunk;
use crate::chunked::inflight::{Follow, Joined, Key, Lead, fetches};
use crate::chunked::prove::{Arriving, Claim, Prover};
use crate::error::{Error, ErrorKind, Operation, Result};

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
    pub(super) calls: Calls,
    pub(super) gate: Arc<Gate>,
    pub(super) counts: Arc<FetchCounts>,
    pub(super) prover: Prover,
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
    /// Brings all `digests`, in their order; `batched` where they fit one batch.
    ///
    /// What others are bringing is waited for, after what is ours to bring has been brought, so
    /// that two never wait for each other. Where they fail, it is ours.
    pub(super) async fn fetch(
        &self,
        digests: &[Digest],
        batched: bool,
    ) -> Result<Vec<Chunk>, Trouble> {
        let mut chunks: Vec<Option<Chunk>> = vec![None; digests.len()];
        let mut unheard = vec![false; digests.len()];
        loop {
            let (duties, follows) = self.join(digests, &unheard, &mut chunks);
            if batched {
                self.bring_batch(duties, &mut chunks).await?;
            } else {
                for duty in duties {
                    self.bring_one(duty, &mut chunks).await?;
                }
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

    /// What of the `digests` that have not been brought is ours to bring, and what is others'. Those
    /// that nothing was heard of are ours in any case.
    fn join(
        &self,
        digests: &[Digest],
        unheard: &[bool],
        chunks: &mut [Option<Chunk>],
    ) -> (Vec<Duty>, Vec<Awaited>) {
        let (mut duties, mut follows) = (Vec::new(), Vec::new());
        let wanted = digests.iter().zip(unheard).zip(chunks).enumerate();
        for (index, ((digest, unheard), chunk)) in wanted.filter(|(_, (_, one))| one.is_none()) {
            match fetches().join(&self.key(digest)) {
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

    /// In one request; those that fail alone are asked for again, together.
    async fn bring_batch(
        &self,
        mut duties: Vec<Duty>,
        chunks: &mut [Option<Chunk>],
    ) -> Result<(), Trouble> {
        let mut attempts = self.calls.begin();
        let mut flaws = 0;
        while !duties.is_empty() {
            let digests: Vec<Digest> = duties.iter().map(|(_, digest, _)| *digest).collect();
            let limit = self.calls.patience(digests.iter().map(|digest| digest.len).sum());
            let permit = attempts.permit().await?;
            let sent = self.gate.send();
            let answer = attempts.within(limit, self.store.get_batch(&digests)).await;
            drop(permit);
            let failure = match answer {
                Ok(answers) => {
                    let arrived = answers.iter().filter_map(|one| one.as_ref().ok()?.as_ref());
                    let bytes = arrived.map(|bytes| bytes.len() as u64).sum();
                    sent.brought(bytes);
                    attempts.on_bytes(bytes);
                    check_count(answers.len(), digests.len(), &self.calls)?;
                    let (rest, failure) = self.sort(duties, answers, chunks).await?;
                    duties = rest;
                    failure
                }
                Err(error) => {
                    sent.failed(&error);
                    if error.kind() == ErrorKind::NotFound {
                        return Err(Trouble::Missing(error));
                    }
                    Some(error)
                }
            };
            if let Some(error) = failure {
                flaws += u32::from(error.kind() == ErrorKind::Integrity);
                if flaws >= FLAWS_MAX {
                    return Err(error.retryable(RetryClass::Never).into());
                }
                attempts.interrupted(error).await?;
            }
        }
        Ok(())
    }

    /// Takes what arrived; gives back those to be asked for again, and why.
    async fn sort(
        &self,
        duties: Vec<Duty>,
        answers: Vec<Result<Option<Bytes>>>,
        chunks: &mut [Option<Chunk>],
    ) -> Result<(Vec<Duty>, Option<Error>), Trouble> {
        let mut rest = Vec::new();
        let (mut missing, mut failure): (Option<Error>, Option<Error>) = (None, None);
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
                Err(error) if error.kind() == ErrorKind::NotFound => missing = Some(error),
                Err(error) => {
                    // What no attempt can mend outweighs what one can.
                    let is_final = *error.retry() == RetryClass::Never;
                    if failure.is_none() || is_final {
                        failure = Some(error);
                    }
                    rest.push(duty);
                }
            }
        }
        match missing {
            Some(error) => Err(Trouble::Missing(error)),
            None => Ok((rest, failure)),
        }
    }

    /// By itself, going on where it was interrupted.
    async fn bring_one(&self, duty: Duty, chunks: &mut [Option<Chunk>]) -> Result<(), Trouble> {
        let digest = duty.1;
        let mut body = ResumingBody::new(self, digest, 0);
        let chunk = loop {
            let mut arriving = Arriving::new(digest)?;
            while let Some(frame) = body.next().await? {
                arriving.push(frame)?;
            }
            match arriving.finish(&self.prover).await {
                Ok(chunk) => break chunk,
                Err(error) => body.rewind(0, error).await?,
            }
        };
        self.brought(duty, chunk, chunks);
        Ok(())
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
