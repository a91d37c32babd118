//! [`ReadBuilder`]: one read of a blob, before it is opened.

use std::sync::Arc;

use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;

use super::Client;
use crate::error::Result;
use crate::read::{BlockingReadChannel, ReadChannel, ReadOptions, ReadState, ReadStats, Verify};
use crate::remote::{Location, Version};

/// A read that can be opened. The defaults assume an object store some 20 ms away that limits each
/// connection to about 100 MiB/s.
#[derive(Clone, Debug)]
#[must_use = "nothing is read before it is opened"]
pub struct ReadBuilder {
    blob: Location,
    options: ReadOptions,
    state: Option<ReadState>,
}

impl ReadBuilder {
    pub(super) fn new(client: &Client, blob: &Location) -> Self {
        let options = ReadOptions {
            retry: client.0.retry.clone(),
            ..ReadOptions::within(client.0.budget.clone())
        };
        Self { blob: blob.clone(), options, state: None }
    }

    pub(super) fn restored(client: &Client, blob: &Location, state: &ReadState) -> Self {
        let options = state.options(client.0.budget.clone());
        Self { blob: blob.clone(), options, state: Some(state.clone()) }
    }

    /// Where reading begins, and where it ends unless [`limit`](ReadChannel::limit) is set; the
    /// whole blob by default.
    pub fn range(mut self, range: ByteRange) -> Self {
        self.options.range = range;
        self
    }

    /// The version that the blob must have. By default it is the version that the first response
    /// names.
    pub fn version(mut self, version: Version) -> Self {
        self.options.version = Some(version);
        self
    }

    /// The checksum that the bytes are compared with when the whole blob has been read in order.
    pub fn verify(mut self, verify: Verify) -> Self {
        self.options.verify = verify;
        self
    }

    /// Delivers the decoded content of a blob that is stored with `Content-Encoding: gzip`. A blob
    /// without an encoding is delivered unchanged. Another encoding fails with `Unsupported`.
    /// Positions then count decoded bytes. Off by default.
    pub fn decode(mut self, decode: bool) -> Self {
        self.options.decode = decode;
        self
    }

    /// How to retry after an interruption; the client's policy by default. Its deadline counts from
    /// the first read.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.options.retry = retry;
        self
    }

    /// Size of the buffer for callers that read in small pieces; 64 KiB by default.
    ///
    /// Shorter frames that have already arrived are gathered into pieces of up to this many bytes.
    /// Longer frames, and reads of at least this many bytes, bypass the buffer: they are copied
    /// once, from the transport's memory to the caller's. [`next`](ReadChannel::next) and the
    /// `Stream` return the transport's memory and never gather.
    ///
    /// The buffer is taken from the budget at the first such read, if the budget has room at once.
    /// Otherwise, and with 0, nothing is gathered.
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.options.buffer_bytes = bytes;
        self
    }

    /// The longest seek forward that continues in the open response instead of sending a new
    /// request; 2 MiB by default.
    pub fn drain_bytes_max(mut self, bytes: u64) -> Self {
        self.options.drain_bytes_max = bytes;
        self
    }

    /// Sends a second request if the head of a response has not arrived after this many
    /// milliseconds, and uses the first response. Off by default.
    pub fn hedge_ms(mut self, hedge_ms: u64) -> Self {
        self.options.hedge_ms = Some(hedge_ms);
        self
    }

    /// Counters that several reads may share.
    pub fn stats(mut self, stats: Arc<ReadStats>) -> Self {
        self.options.stats = stats;
        self
    }

    /// Opens the stream. No request is sent before the first read.
    ///
    /// # Errors
    ///
    /// `Invalid` for a location that names no blob, for a state of another blob, and for a state
    /// that contradicts itself.
    pub fn open(self) -> Result<ReadChannel> {
        let Self { blob, options, state } = self;
        blob.check_is_blob()?;
        match state {
            Some(state) => ReadChannel::restore(blob, &state, options),
            None => Ok(ReadChannel::open(blob, options)),
        }
    }

    /// Opens the stream for code without a runtime.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_blocking(self) -> Result<BlockingReadChannel> {
        self.open().map(BlockingReadChannel::from)
    }
}
