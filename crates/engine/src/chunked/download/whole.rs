//! [`BlobStream`]: streams a whole blob into the sink as it arrives.
//!
//! It is for a blob that is not fetched as chunks, and for the rest of a blob with a missing chunk.
//! The bytes that it writes are not verified before. Only the hash of the whole blob verifies them,
//! at the end.

use bytes::Bytes;
use tidegate_core::digest::Digest;

use super::body::ResumingBody;
use super::fetch::Fetcher;
use super::fetch_error::FetchError;
use super::place::{Placing, Turns};
use crate::chunked::chunk::CRC;
use crate::sink::{Batch, Sink};
use crate::transfer::blob_part::BlobPart;
use crate::transfer::gather::FrameGatherer;
use crate::transfer::limits::BATCH_BYTES;

/// Frames shorter than this are copied. A short frame can be a slice of a larger buffer, which it
/// would hold while it waits. The budget does not account for that buffer.
const COPIED_BELOW_BYTES: usize = 64 << 10;

/// A blob on its way from a store into a sink.
pub(super) struct BlobStream<'a> {
    pub(super) fetcher: &'a Fetcher,
    pub(super) placing: &'a Placing,
}

/// The gatherer for a stream of bytes that begins at `start`.
pub(super) fn gatherer(start: u64) -> FrameGatherer {
    FrameGatherer::new(start, CRC, COPIED_BELOW_BYTES)
}

impl BlobStream<'_> {
    /// Streams the blob from the first byte that the sink has not received. Bytes that the sink has
    /// already received are not written again.
    pub(super) async fn whole(&self, blob: &Digest) -> Result<(), FetchError> {
        let from = self.placing.done().gaps(0..blob.len).next().map_or(blob.len, |gap| gap.start);
        let is_file = matches!(self.placing.destination.sink, Sink::File(_));
        let batch_bytes = if is_file { BATCH_BYTES } else { 0 };
        let mut body = ResumingBody::new(self.fetcher, *blob, from);
        let mut turns = Turns::new();
        let mut gatherer = gatherer(from);
        loop {
            let asked = body.next().await;
            let rest = BlobPart::of_bytes(body.position()..blob.len);
            let frame = asked.map_err(|failure| failure.with(&rest, &self.fetcher.calls))?;
            let Some(frame) = frame else { break };
            let start = body.position() - frame.len() as u64;
            for (at, bytes) in self.lacking(start, &frame) {
                if at != gatherer.end() {
                    self.write(gatherer.take(true), &mut turns).await?;
                    gatherer.restart(at);
                }
                gatherer.push(bytes);
                if gatherer.pending_bytes() >= batch_bytes {
                    let write = self.write(gatherer.take(true), &mut turns);
                    // The request stays in flight while a disk writes, but not while the reader of
                    // another sink pauses.
                    if is_file { write.await } else { body.idle(write).await }?;
                }
            }
        }
        self.write(gatherer.take(true), &mut turns).await?;
        turns.all_back(&self.placing.stop).await;
        self.fetcher.streamed_bytes(blob.len - from);
        Ok(())
    }

    /// The parts of a frame that the sink has not received.
    fn lacking(&self, start: u64, frame: &Bytes) -> Vec<(u64, Bytes)> {
        let within = |at: u64| usize::try_from(at - start).unwrap_or(usize::MAX);
        let done = self.placing.done();
        done.gaps(start..start + frame.len() as u64)
            .map(|gap| (gap.start, frame.slice(within(gap.start)..within(gap.end))))
            .collect()
    }

    async fn write(&self, batch: Option<Batch>, turns: &mut Turns) -> Result<(), FetchError> {
        if batch.is_some() {
            turns.all_back(&self.placing.stop).await;
        }
        Ok(self.placing.write_all(batch, turns, &self.fetcher.calls).await?)
    }
}
