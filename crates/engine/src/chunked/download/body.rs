//! [`ResumingBody`]: streams one blob from a store, and restarts after interruptions. It is a
//! [`RangeStream`] that ends when its transfer is cancelled.
//!
//! Invariants:
//! - Bytes are delivered in order, each byte once. Only [`ResumingBody::rewind`] delivers bytes
//!   again.
//! - A restart requests exactly the bytes that have not been delivered.
//! - At most as many bytes are delivered as the digest says.
//!
//! It does not verify the bytes. The reader verifies them, and rewinds if they are wrong.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryPolicy;

use super::fetch::Fetcher;
use super::fetch_error::FetchError;
use crate::error::{Error, ErrorKind};
use crate::read::{Known, RangeOptions, RangeStream};
use crate::remote::{Location, Version};
use crate::transfer::attempt::Calls;

/// Timeout for the end of a response after its last byte. Both are usually in the same packet.
const END_PATIENCE: Duration = Duration::from_millis(100);

/// How long a response in flight may wait for the reader of the delivered bytes. A slow reader that
/// does not pause takes some bytes within this time.
const IDLE_MAX: Duration = Duration::from_secs(5);

pub(super) struct ResumingBody<'a> {
    calls: &'a Calls,
    len_bytes: u64,
    stream: RangeStream,
}

impl<'a> ResumingBody<'a> {
    /// Streams the bytes from `position` on. Sends no request yet.
    pub(super) fn new(fetcher: &'a Fetcher, digest: Digest, position: u64) -> Self {
        let calls = &fetcher.calls;
        // Some stores send the head of a response at once, and some send it with the first bytes.
        // So both timeouts are the longer one.
        let silence_ms_max = calls.policy.header_ms_max.max(calls.policy.stall_ms_max);
        let (header_ms_max, stall_ms_max) = (silence_ms_max, silence_ms_max);
        let location = Location::of_chunk(&fetcher.store, &digest, &calls.target);
        let options = RangeOptions {
            known: Known {
                version: Some(Version::Digest(location.blob.clone())),
                len_bytes: Some(digest.len),
                ..Known::default()
            },
            retry: RetryPolicy { header_ms_max, stall_ms_max, ..calls.policy.clone() },
            flow: Some(Arc::clone(&fetcher.flow)),
            window: Some(Arc::clone(&fetcher.window)),
            reader_verifies: true,
            ..RangeOptions::default()
        };
        let (budget, stats) = (calls.budget.clone(), Arc::clone(&calls.stats));
        let stream = RangeStream::new(location, options, budget, stats);
        Self { calls, len_bytes: digest.len, stream: stream.between(position..digest.len) }
    }

    /// Offset of the first byte not yet delivered.
    pub(super) fn position(&self) -> u64 {
        self.stream.position()
    }

    /// The next bytes; `None` once all have been delivered. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, FetchError> {
        if self.position() >= self.len_bytes {
            self.end().await;
            return Ok(None);
        }
        let next = self.calls.unless_cancelled(self.stream.next()).await?;
        next.map_err(|error| self.failure(error))
    }

    /// Waits until `reader` has taken the delivered bytes. If this takes longer than [`IDLE_MAX`],
    /// the response in flight is dropped, and the next read sends a new request. Meanwhile its
    /// request permit is free for other transfers. The reader may be waiting for one of them.
    pub(super) async fn idle<T>(&mut self, reader: impl Future<Output = T>) -> T {
        let mut reader = std::pin::pin!(reader);
        tokio::select! {
            biased;
            outcome = &mut reader => return outcome,
            () = tokio::time::sleep(IDLE_MAX) => {}
        }
        self.stream.suspend();
        reader.await
    }

    /// Begins again at `position`, because the delivered bytes are wrong, as `error` says. Fails
    /// the second time.
    pub(super) fn rewind(&mut self, position: u64, error: Error) -> Result<(), FetchError> {
        self.stream.rewind(position, error).map_err(|error| self.failure(error))
    }

    /// Reads the response to its end after the last byte. Dropping it earlier would reset its HTTP
    /// stream, and servers treat many resets as an attack. The result is ignored, and the wait is
    /// short.
    async fn end(&mut self) {
        let end = tokio::time::timeout(END_PATIENCE, self.stream.sound());
        let _ = self.calls.unless_cancelled(end).await;
        self.stream.suspend();
    }

    /// Converts an error of the stream. The stream's range is a range of this blob, which may be a
    /// chunk of the target. So the range is removed, and the fetcher adds the chunk's range in the
    /// target.
    fn failure(&self, error: Error) -> FetchError {
        let is_own = error.target() == &*self.calls.target;
        let error = if is_own { error.of_no_range() } else { error };
        match error.kind() {
            ErrorKind::NotFound => FetchError::Missing(error),
            _ => FetchError::Failed(error),
        }
    }
}
