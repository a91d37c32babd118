//! [`Pour`]: a blob as a whole, straight into the sink as it arrives. Nothing but the hash of the
//! whole says whether it is right.

use bytes::Bytes;
use tidegate_core::checksum::Crc;
use tidegate_core::digest::Digest;

use super::body::ResumingBody;
use super::fetch::{Fetcher, Trouble};
use super::place::{Placing, Turns};
use crate::chunked::chunk::CRC;
use crate::error::Result;
use crate::sink::{Mark, Sink};
use crate::transfer::limits::BATCH_BYTES;
use crate::transfer::part::Part;

/// Frames below this are copied, so that what waits does not hold more than it counts.
const COPIED_BELOW_BYTES: usize = 64 << 10;

/// From a store into a sink.
pub(super) struct Pour<'a> {
    pub(super) fetcher: &'a Fetcher,
    pub(super) placing: &'a Placing,
}

/// Consecutive bytes, gathered for the sink.
pub(super) struct Gathered {
    start: u64,
    frames: Vec<Bytes>,
    crc: Crc,
}

impl Gathered {
    pub(super) fn new(start: u64) -> Self {
        Self { start, frames: Vec::new(), crc: Crc::empty(CRC) }
    }

    pub(super) fn len(&self) -> u64 {
        self.crc.len()
    }

    fn end(&self) -> u64 {
        self.start + self.len()
    }

    pub(super) fn push(&mut self, frame: Bytes) {
        self.crc.update(&frame);
        let short = frame.len() < COPIED_BELOW_BYTES;
        self.frames.push(if short { Bytes::copy_from_slice(&frame) } else { frame });
    }

    /// What was gathered, to begin anew behind it.
    pub(super) fn take(&mut self) -> Self {
        let next = Self::new(self.end());
        std::mem::replace(self, next)
    }

    /// Where it begins, and its bytes.
    pub(super) fn into_parts(self) -> (u64, Vec<Bytes>) {
        (self.start, self.frames)
    }
}

impl Pour<'_> {
    /// A whole blob, but for what the sink has been given already: from the first byte that it
    /// lacks.
    pub(super) async fn whole(&self, blob: &Digest) -> Result<(), Trouble> {
        let from = self.placing.done().gaps(0..blob.len).next().map_or(blob.len, |gap| gap.start);
        let is_file = matches!(self.placing.sink, Sink::File(_));
        let batch_bytes = if is_file { BATCH_BYTES } else { 0 };
        let mut body = ResumingBody::new(self.fetcher, *blob, from);
        let mut turns = Turns::new();
        let mut gathered = Gathered::new(from);
        loop {
            let asked = body.next().await;
            let rest = Part::of_bytes(body.position()..blob.len);
            let frame = asked.map_err(|trouble| trouble.with(&rest, &self.fetcher.calls))?;
            let Some(frame) = frame else { break };
            let start = body.position() - frame.len() as u64;
            for (at, bytes) in self.lacking(start, &frame) {
                if at != gathered.end() {
                    self.write(gathered.take(), &mut turns).await?;
                    gathered = Gathered::new(at);
                }
                gathered.push(bytes);
                if gathered.len() >= batch_bytes {
                    let write = self.write(gathered.take(), &mut turns);
                    // A disk is waited for.
                    if is_file { write.await } else { body.idle(write).await }?;
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
