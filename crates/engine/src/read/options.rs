//! The options of a [`ReadChannel`](super::ReadChannel).

use std::sync::Arc;

use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;

use super::{ReadStats, Verify};
use crate::budget::Budget;
use crate::remote::Version;

/// Small frames are gathered up to this size. Above it, the copy costs more than the calls that it
/// saves.
const BUFFER_BYTES: usize = 64 << 10;

/// Measured on loopback with 20 ms to the first byte of each request, best of three runs of up to
/// seven seeks forward, 2 cores. A seek that sends a new request takes 22 ms at any distance. If
/// each connection is held to 100 MiB/s, as object stores do, reading on takes 9.6 ms per MiB: 19
/// ms for 2 MiB and 39 ms for 4 MiB. The costs are equal between these. On a connection without a
/// limit, reading on takes 0.3 ms per MiB, and the costs would be equal at some 70 MiB. There, the
/// limit of 2 MiB costs up to 21 ms for each longer seek, but does not transfer the bytes between.
const DRAIN_BYTES_MAX: u64 = 2 << 20;

/// How a blob is read. The defaults assume an object store some 20 ms away that holds each
/// connection to about 100 MiB/s.
#[derive(Clone, Debug)]
pub(crate) struct ReadOptions {
    /// The range to read; [`limit`](super::ReadChannel::limit) can change its end later. Everything
    /// by default.
    pub range: ByteRange,
    /// The version that the blob must have. By default it is the version that the first response
    /// names; the read is pinned to it.
    pub version: Option<Version>,
    /// The checksum to compare with after the whole blob has been read in order.
    pub verify: Verify,
    /// Deliver the decoded content of a blob that is stored with `Content-Encoding: gzip`. A blob
    /// without that encoding is delivered as it is; one with another encoding is `Unsupported`.
    /// Positions then count decoded bytes. Off by default.
    pub decode: bool,
    /// How to continue after an interruption. The deadline counts from the first read.
    pub retry: RetryPolicy,
    /// For callers that read in small pieces: shorter frames that have already arrived are joined
    /// into pieces of up to this many bytes. Longer frames, and reads of at least this many bytes,
    /// bypass the buffer: they are copied once, from the transport's own memory into the caller's.
    /// [`next`](super::ReadChannel::next) and the `Stream` return that memory itself and never
    /// gather.
    ///
    /// The first such read takes the bytes from the budget if they are free at once. Otherwise, and
    /// with 0, nothing is gathered. The rest of a frame that the caller has begun is kept in any
    /// case; a frame is at most `TransportOptions::read_bytes_max`. 64 KiB by default.
    pub buffer_bytes: usize,
    /// The longest distance of a forward seek that reads on in the current response instead of
    /// sending a new request; 2 MiB by default.
    pub drain_bytes_max: u64,
    /// Sends a second request if the head of a response has not arrived after this many
    /// milliseconds, and uses the response that arrives first. The second request takes a permit of
    /// its own, and is not sent if none is free at once. Off by default.
    pub hedge_ms: Option<u64>,
    /// The process-wide limits. A channel holds one request permit from its first read until the
    /// end, [`suspend`](super::ReadChannel::suspend) or its drop. A caller that reads more channels
    /// in turn than the budget has requests must suspend those that wait.
    pub budget: Budget,
    /// Counters, which channels may share.
    pub stats: Arc<ReadStats>,
}

impl ReadOptions {
    /// The defaults, with this budget.
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
