//! What the caller of a [`ReadChannel`](super::ReadChannel) chooses.

use std::sync::Arc;

use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;

use super::{ReadStats, Verify};
use crate::budget::Budget;
use crate::remote::Version;

/// Small frames are gathered up to this size: below it a call for each frame begins to cost more
/// than the copy that saves it.
const BUFFER_BYTES: usize = 64 << 10;

/// Measured on loopback with 20 ms to the first byte of each request, best of three runs of up to
/// seven seeks forward, 2 cores: a seek that asks again takes 22 ms at any distance. One that reads
/// on takes 9.6 ms per MiB where each connection is held to 100 MiB/s, as object stores do: 19 ms
/// for 2 MiB and 39 ms for 4 MiB, so that the two meet between. Where nothing holds the connection
/// back it takes 0.3 ms per MiB, and they would meet at some 70 MiB: there, at 2 MiB, 21 ms of each
/// longer seek could be saved, at the price of all the bytes between.
const DRAIN_BYTES_MAX: u64 = 2 << 20;

/// How a blob is read. The defaults assume an object store some 20 ms away that holds each
/// connection to about 100 MiB/s.
#[derive(Clone, Debug)]
pub(crate) struct ReadOptions {
    /// Where reading begins, and where it ends until
    /// [`limit`](super::ReadChannel::limit) says otherwise; everything by default.
    pub range: ByteRange,
    /// The version that the blob must be of; by default whatever the first answer names, and that
    /// one from then on.
    pub version: Option<Version>,
    /// What the bytes are compared with when the whole blob has been read in order.
    pub verify: Verify,
    /// Deliver the content of a blob that is stored with `Content-Encoding: gzip` instead of its
    /// stored bytes. A blob without that encoding is delivered as it is; one with another is
    /// `Unsupported`. Positions then count decoded bytes. Off by default.
    pub decode: bool,
    /// How to go on after an interruption. Its deadline counts from the first read.
    pub retry: RetryPolicy,
    /// For callers that read in small pieces: frames that arrive shorter than this are gathered,
    /// as far as they are there already, into pieces of up to this many bytes. Longer frames, and
    /// reads of at least this many bytes, go around the buffer: they are copied once, from the
    /// transport's own memory into the caller's. [`next`](super::ReadChannel::next) and the
    /// `Stream` hand on that memory itself and never gather.
    ///
    /// The bytes are taken from the budget at the first such read, if they are to be had at once;
    /// otherwise, and with 0, nothing is gathered. What is left of a frame that the caller has
    /// begun is kept in any case; a frame is at most `TransportOptions::read_bytes_max`. 64 KiB by
    /// default.
    pub buffer_bytes: usize,
    /// The longest way that a seek forward reads on in the answer that is under way, instead of
    /// asking again; 2 MiB by default.
    pub drain_bytes_max: u64,
    /// Sends a second request where the head of an answer has not come after this many
    /// milliseconds, and takes whichever answers first. A request more counts as one; off by
    /// default.
    pub hedge_ms: Option<u64>,
    /// The process-wide limits. A channel holds one request of it from its first read until the
    /// end, [`suspend`](super::ReadChannel::suspend) or its drop; whoever reads more channels in
    /// turn than the budget has requests must suspend those that wait.
    pub budget: Budget,
    /// Counters, which may be shared between channels.
    pub stats: Arc<ReadStats>,
}

impl ReadOptions {
    /// The defaults, within these limits.
    pub(crate) fn within(budget: Budget) -> Self {
        Self {
            range: ByteRange::All,
            version: None,
            verify: Verify::default(),
            decode: false,
            retry: RetryPolicy::default(),
            buffer_bytes: BUFFER_BYTES,
            drain_bytes_max: DRAIN_BYTES_MAX,
            hedge_ms: None,
            budget,
            stats: Arc::default(),
        }
    }
}
