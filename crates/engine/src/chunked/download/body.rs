//! [`ResumingBody`]: the bytes of one blob of a store, through as many requests as it takes: a
//! [`RangeStream`] that ends with its transfer.
//!
//! Invariants: bytes come in order, each once; a request after an interruption asks for exactly
//! what has not been delivered; never more than the digest's length is delivered. What is
//! delivered has not been verified: the reader does that, and rewinds where it is wrong.

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

/// How long the end of a response is waited for, after its last byte: it is usually in the same
/// packet.
const END_PATIENCE: Duration = Duration::from_millis(100);

/// How long a response under way may wait for the reader of what is delivered: a steady reader takes
/// some bytes in less, however slow.
const IDLE_MAX: Duration = Duration::from_secs(5);

pub(super) struct ResumingBody<'a> {
    calls: &'a Calls,
    len_bytes: u64,
    stream: RangeStream,
}

impl<'a> ResumingBody<'a> {
    /// The bytes from `position` on. Nothing is asked for yet.
    pub(super) fn new(fetcher: &'a Fetcher, digest: Digest, position: u64) -> Self {
        let calls = &fetcher.calls;
        // Some stores send the head of a response at once, others with the first bytes.
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

    /// Waits for `reader` to take what was delivered. A response under way is given up where that
    /// takes long, and asked for again afterwards: its request is free for others meanwhile, which
    /// may be what the reader waits for.
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

    /// What was delivered is wrong, as `error` says: begins again at `position`, once.
    pub(super) fn rewind(&mut self, position: u64, error: Error) -> Result<(), FetchError> {
        self.stream.rewind(position, error).map_err(|error| self.failure(error))
    }

    /// All bytes are there. Reads the response to its end: dropping it before would reset its
    /// stream, and servers take many resets for an attack. What it still says does not matter, and
    /// is not waited for long.
    async fn end(&mut self) {
        let end = tokio::time::timeout(END_PATIENCE, self.stream.sound());
        let _ = self.calls.unless_cancelled(end).await;
        self.stream.suspend();
    }

    /// The place that the stream tells is one in this blob, which may be a chunk of the target: the
    /// fetcher tells that one's place.
    fn failure(&self, error: Error) -> FetchError {
        let is_own = error.target() == &*self.calls.target;
        let error = if is_own { error.of_no_range() } else { error };
        match error.kind() {
            ErrorKind::NotFound => FetchError::Missing(error),
            _ => FetchError::Failed(error),
        }
    }
}
