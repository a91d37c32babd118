//! [`LongChunk`]: streams a chunk that is too long to be held in memory into the sink. Its bytes
//! come from a seed, from the target of another download of this client, or from the store.
//!
//! While it is in flight it is fetched once, as a short chunk is. Its bytes are not in memory, so
//! the leader cannot hand them to its followers. Instead the leader reports where the verified
//! bytes are, and the followers copy them from there. So a download leads only if its target can be
//! read again. A pipe cannot be read again.
//!
//! In a file, the bytes of such a chunk are provisional until the whole chunk is verified. Before
//! that, neither the journal nor the hash includes them, and right bytes may overwrite wrong ones.
//! Other sinks take each byte once. For these sinks, bytes from a seed or a leader are verified
//! before they are written. If fetched bytes are wrong, the download fails.

use bytes::Bytes;
use tidegate_core::checksum::Crc;
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryClass;

use super::body::ResumingBody;
use super::fetch::{Fetcher, LeaderOutcome};
use super::fetch_error::FetchError;
use super::place::{Placing, Turns};
use super::plan::PlannedChunk;
use super::whole;
use crate::chunked::chunk::ChunkVerification;
use crate::chunked::inflight::{Joined, Key};
use crate::chunked::seed::SeedPlace;
use crate::sink::{Batch, Mark, Sink};
use crate::transfer::blocking::blocking;
use crate::transfer::limits::BATCH_BYTES;

/// One such chunk and its destination.
pub(super) struct LongChunk<'a> {
    pub(super) fetcher: &'a Fetcher,
    pub(super) placing: &'a Placing,
    pub(super) planned: &'a PlannedChunk,
}

/// The source of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchedFrom {
    Seed,
    /// Another download of this client, which was the leader.
    Leader,
    Store,
}

impl LongChunk<'_> {
    /// Writes the chunk at all its places.
    pub(super) async fn load(&self) -> Result<FetchedFrom, FetchError> {
        // The bytes that the sink has received, if it takes each byte once.
        let mut given = 0;
        if let Some(seed) = &self.planned.seed
            && self.copy(seed, &mut given).await?
        {
            return Ok(FetchedFrom::Seed);
        }
        let lead = loop {
            match self.join() {
                None => break None,
                Some(Joined::Leader(lead)) => break Some(lead),
                Some(Joined::Follower(follow)) => {
                    match self.fetcher.wait_for_leader(follow, self.digest().len).await? {
                        LeaderOutcome::Done(place) if self.copy(&place, &mut given).await? => {
                            return Ok(FetchedFrom::Leader);
                        }
                        LeaderOutcome::GaveUp => {}
                        // The leader's bytes have changed, or the leader timed out. This
                        // download fetches the chunk itself.
                        _ => break None,
                    }
                }
            }
        };
        self.fetch(given).await?;
        if let (Some(lead), Some(place)) = (lead, self.read_again()) {
            lead.succeed(place);
        }
        Ok(FetchedFrom::Store)
    }

    fn digest(&self) -> Digest {
        self.planned.digest
    }

    /// Becomes the leader, or a follower if there is a leader. A download whose sink cannot be read
    /// again never becomes the leader. It gets `None` if there is no leader.
    fn join(&self) -> Option<Joined<Key, SeedPlace>> {
        let key = self.fetcher.key(&self.digest());
        let long_chunks = &self.fetcher.in_flight.long_chunks;
        if self.read_again().is_some() {
            return Some(long_chunks.join(&key));
        }
        long_chunks.follow(&key).map(Joined::Follower)
    }

    /// Where other downloads can read the chunk after it is written, if the sink can be read.
    fn read_again(&self) -> Option<SeedPlace> {
        match &self.placing.destination.sink {
            Sink::File(_) => {
                let file = self.placing.destination.reader()?;
                Some(SeedPlace::in_file(&file, self.planned.first()))
            }
            Sink::Memory(sink) => Some(SeedPlace::in_buffer(sink.buffer(), self.planned.first())),
            Sink::Ordered(_) | Sink::Discard => None,
        }
    }

    /// Copies the chunk from `place`. Returns whether the copy is complete and right.
    async fn copy(&self, place: &SeedPlace, given: &mut u64) -> Result<bool, FetchError> {
        match self.placing.destination.sink {
            Sink::File(_) => self.copy_provisionally(place).await,
            _ => self.copy_verified(place, given).await,
        }
    }

    async fn copy_provisionally(&self, place: &SeedPlace) -> Result<bool, FetchError> {
        let digest = self.digest();
        let mut verification = ChunkVerification::new(digest)?;
        let mut turns = Turns::new();
        let mut at = 0;
        while at < digest.len {
            let place = place.clone();
            let read = blocking(move || {
                let piece = place.piece(at, digest.len);
                piece
                    .map(|piece| verification.update(&piece).map(|()| (piece, verification)))
                    .transpose()
            });
            let Some((piece, proved)) = read.await? else { return Ok(false) };
            verification = proved;
            let len = piece.len() as u64;
            turns.all_back(&self.placing.stop).await;
            self.write_provisionally((at, &[piece]), &mut turns).await?;
            at += len;
        }
        let Ok(crc) = verification.finish() else { return Ok(false) };
        self.settle(crc, &mut turns).await?;
        Ok(true)
    }

    async fn copy_verified(&self, place: &SeedPlace, given: &mut u64) -> Result<bool, FetchError> {
        let (place, digest, stop) = (place.clone(), self.digest(), self.placing.stop.clone());
        let verified = blocking(move || Ok(place.verify(&digest, &stop))).await?;
        let Some(mut verified) = verified else { return Ok(false) };
        let mut turns = Turns::new();
        while *given < digest.len {
            let at = *given;
            let read =
                blocking(move || Ok(verified.piece(at).map(|piece| (piece, verified)))).await?;
            let Some((piece, rest)) = read else { return Ok(false) };
            verified = rest;
            self.write(at, piece.clone(), &mut turns).await?;
            *given += piece.len() as u64;
        }
        Ok(true)
    }

    /// Fetches from the store all bytes that the sink has not received.
    async fn fetch(&self, given: u64) -> Result<(), FetchError> {
        match self.placing.destination.sink {
            Sink::File(_) => self.fetch_provisionally().await?,
            _ => self.fetch_for_good(given).await?,
        }
        self.fetcher.streamed(self.digest().len - given);
        Ok(())
    }

    async fn fetch_provisionally(&self) -> Result<(), FetchError> {
        let digest = self.digest();
        let mut body = ResumingBody::new(self.fetcher, digest, 0);
        let mut verification = ChunkVerification::new(digest)?;
        let mut turns = Turns::new();
        let mut gatherer = whole::gatherer(0);
        loop {
            let frame = body.next().await?;
            let ended = frame.is_none();
            if let Some(frame) = frame {
                verification.update(&frame)?;
                gatherer.push(frame);
            }
            if (ended || gatherer.pending_bytes() >= BATCH_BYTES)
                && let Some(batch) = gatherer.take(false)
            {
                turns.all_back(&self.placing.stop).await;
                self.write_provisionally((batch.offset, &batch.frames), &mut turns).await?;
            }
            if !ended {
                continue;
            }
            match verification.finish() {
                Ok(crc) => return self.settle(crc, &mut turns).await,
                Err(error) => {
                    body.rewind(0, error)?;
                    (verification, gatherer) =
                        (ChunkVerification::new(digest)?, whole::gatherer(0));
                }
            }
        }
    }

    /// Fetches into a sink that takes each byte once. A wrong byte cannot be replaced, so the
    /// download fails.
    async fn fetch_for_good(&self, given: u64) -> Result<(), FetchError> {
        let digest = self.digest();
        let mut body = ResumingBody::new(self.fetcher, digest, given);
        // The first `given` bytes were verified before they were written. The digest covers the
        // whole chunk, so it cannot verify only the rest.
        let mut verification = (given == 0).then(|| ChunkVerification::new(digest)).transpose()?;
        let mut turns = Turns::new();
        while let Some(frame) = body.next().await? {
            if let Some(verification) = &mut verification {
                verification.update(&frame)?;
            }
            let at = body.position() - frame.len() as u64;
            body.idle(self.write(at, frame, &mut turns)).await?;
        }
        match verification.map(ChunkVerification::finish) {
            Some(Err(error)) => Err(error.retryable(RetryClass::Never).into()),
            _ => Ok(()),
        }
    }

    /// Writes final bytes at all places of the chunk.
    async fn write(&self, at: u64, bytes: Bytes, turns: &mut Turns) -> Result<(), FetchError> {
        for place in self.planned.places.as_slice() {
            let (offset, frames) = (place + at, vec![bytes.clone()]);
            let batch = Batch { offset, frames, mark: None, turn: None };
            self.placing.write(batch, turns, &self.fetcher.calls).await?;
        }
        Ok(())
    }

    async fn write_provisionally(
        &self,
        (start, frames): (u64, &[Bytes]),
        turns: &mut Turns,
    ) -> Result<(), FetchError> {
        for place in self.planned.places.as_slice() {
            let (at, frames) = (place + start, frames.to_vec());
            self.placing.write_provisionally(at, frames, turns, &self.fetcher.calls).await?;
        }
        Ok(())
    }

    /// Declares the provisional bytes verified and final. Returns when they are written.
    async fn settle(&self, crc: Crc, turns: &mut Turns) -> Result<(), FetchError> {
        for place in self.planned.places.as_slice() {
            let mark = Mark { start: *place, crc };
            self.placing.settle(mark, turns, &self.fetcher.calls).await?;
        }
        turns.all_back(&self.placing.stop).await;
        Ok(())
    }
}
