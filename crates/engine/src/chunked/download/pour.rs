//! [`Pour`]: what is too long to be held in memory, straight into the sink as it arrives: a chunk
//! beyond what one may hold, or a blob as a whole.
//!
//! What a file is given of such a chunk is provisional until all of it has been verified: neither
//! its journal nor its hash sees it before, and wrong bytes are written over by right ones. Other
//! sinks take each byte once; there the hash of the whole is what finds wrong bytes out.

use bytes::Bytes;
use tidegate_core::checksum::Crc;
use tidegate_core::digest::Digest;

use super::body::ResumingBody;
use super::fetch::{Fetcher, Trouble};
use super::place::{Placing, Turns};
use super::plan::Want;
use crate::chunked::chunk::{CRC, Proving};
use crate::error::Result;
use crate::sink::{Mark, Sink};

/// Gathered before a file's thread is called.
const BATCH_BYTES: u64 = 512 << 10;

/// What pouring holds in memory: a batch that is gathered, one that is written, and a frame on its
/// way into them.
pub(super) const POUR_BYTES: u64 = 2 * BATCH_BYTES + (256 << 10);

/// Frames below this are copied, so that what waits does not hold more than it counts.
const COPIED_BELOW_BYTES: usize = 64 << 10;

/// From a store into a sink.
pub(super) struct Pour<'a> {
    pub(super) fetcher: &'a Fetcher,
    pub(super) placing: &'a Placing,
}

/// Consecutive bytes, gathered for the sink.
struct Gathered {
    start: u64,
    frames: Vec<Bytes>,
    crc: Crc,
}

impl Gathered {
    fn new(start: u64) -> Self {
        Self { start, frames: Vec::new(), crc: Crc::empty(CRC) }
    }

    fn end(&self) -> u64 {
        self.start + self.crc.len()
    }

    fn push(&mut self, frame: Bytes) {
        self.crc.update(&frame);
        let short = frame.len() < COPIED_BELOW_BYTES;
        self.frames.push(if short { Bytes::copy_from_slice(&frame) } else { frame });
    }

    fn take(&mut self) -> Self {
        let next = Self::new(self.end());
        std::mem::replace(self, next)
    }
}

impl Pour<'_> {
    /// One chunk, to all its places.
    pub(super) async fn chunk(&self, want: &Want) -> Result<(), Trouble> {
        match self.placing.sink {
            Sink::File(_) => self.provisionally(want).await,
            _ => self.for_good(want).await,
        }
    }

    async fn provisionally(&self, want: &Want) -> Result<(), Trouble> {
        let digest = want.digest;
        let mut body = ResumingBody::new(self.fetcher, digest, 0);
        let mut proving = Proving::new(digest)?;
        let mut turns = Turns::new();
        let mut gathered = Gathered::new(0);
        loop {
            let frame = body.next().await?;
            let ended = frame.is_none();
            if let Some(frame) = frame {
                proving.update(&frame)?;
                gathered.push(frame);
            }
            if ended || gathered.crc.len() >= BATCH_BYTES {
                turns.all_back(&self.placing.stop).await;
                self.write_provisionally(want, gathered.take(), &mut turns).await?;
            }
            if !ended {
                continue;
            }
            match proving.finish() {
                Ok(crc) => {
                    self.settle(want, crc, &mut turns).await?;
                    turns.all_back(&self.placing.stop).await;
                    self.fetcher.poured(&digest);
                    return Ok(());
                }
                Err(error) => {
                    body.rewind(0, error).await?;
                    (proving, gathered) = (Proving::new(digest)?, Gathered::new(0));
                }
            }
        }
    }

    async fn write_provisionally(
        &self,
        want: &Want,
        gathered: Gathered,
        turns: &mut Turns,
    ) -> Result<(), Trouble> {
        for place in want.places.as_slice() {
            let (at, frames) = (place + gathered.start, gathered.frames.clone());
            self.placing.write_provisionally(at, frames, turns, &self.fetcher.calls).await?;
        }
        Ok(())
    }

    /// What was written provisionally is right.
    async fn settle(&self, want: &Want, crc: Crc, turns: &mut Turns) -> Result<(), Trouble> {
        for place in want.places.as_slice() {
            let mark = Mark { start: *place, crc };
            self.placing.settle(mark, turns, &self.fetcher.calls).await?;
        }
        Ok(())
    }

    async fn for_good(&self, want: &Want) -> Result<(), Trouble> {
        let mut body = ResumingBody::new(self.fetcher, want.digest, 0);
        let mut turns = Turns::new();
        while let Some(frame) = body.next().await? {
            let from = body.position() - frame.len() as u64;
            for place in want.places.as_slice() {
                let frames = vec![frame.clone()];
                let calls = &self.fetcher.calls;
                self.placing.write(place + from, frames, None, &mut turns, calls).await?;
            }
        }
        self.fetcher.poured(&want.digest);
        Ok(())
    }

    /// A whole blob, but for what the sink has been given already: from the first byte that it
    /// lacks.
    pub(super) async fn whole(&self, blob: &Digest) -> Result<(), Trouble> {
        let from = self.placing.done().gaps(0..blob.len).next().map_or(blob.len, |gap| gap.start);
        let is_file = matches!(self.placing.sink, Sink::File(_));
        let batch_bytes = if is_file { BATCH_BYTES } else { 0 };
        let mut body = ResumingBody::new(self.fetcher, *blob, from);
        let mut turns = Turns::new();
        let mut gathered = Gathered::new(from);
        while let Some(frame) = body.next().await? {
            let start = body.position() - frame.len() as u64;
            for (at, bytes) in self.lacking(start, &frame) {
                if at != gathered.end() {
                    self.write(gathered.take(), &mut turns).await?;
                    gathered = Gathered::new(at);
                }
                gathered.push(bytes);
                if gathered.crc.len() >= batch_bytes {
                    self.write(gathered.take(), &mut turns).await?;
                }
            }
        }
        self.write(gathered, &mut turns).await?;
        turns.all_back(&self.placing.stop).await;
        self.fetcher.poured_bytes(blob.len - from);
        Ok(())
    }

    /// The parts of a frame that the sink has not been given.
    fn lacking(&self, start: u64, frame: &Bytes) -> Vec<(u64, Bytes)> {
        let within = |at: u64| usize::try_from(at - start).unwrap_or(usize::MAX);
        let done = self.placing.done();
        done.gaps(start..start + frame.len() as u64)
            .map(|gap| (gap.start, frame.slice(within(gap.start)..within(gap.end))))
            .collect()
    }

    async fn write(&self, gathered: Gathered, turns: &mut Turns) -> Result<(), Trouble> {
        if gathered.crc.is_empty() {
            return Ok(());
        }
        turns.all_back(&self.placing.stop).await;
        let mark = Some(Mark { start: gathered.start, crc: gathered.crc });
        let calls = &self.fetcher.calls;
        self.placing.write(gathered.start, gathered.frames, mark, turns, calls).await?;
        Ok(())
    }
}
