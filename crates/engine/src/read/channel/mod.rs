//! [`ReadChannel`]: one blob as a stream that survives interruptions.
//!
//! | file | idea |
//! |---|---|
//! | `source` | the requests: opened when bytes are needed, aligned with the position |
//! | `pieces` | the next bytes: stored frames or decoded pieces, verified on the way |
//! | `held` | bytes that have arrived and were not taken yet |
//! | `seek` | the position, and the end of reading |
//! | `faces` | `AsyncRead`, `AsyncBufRead`, `AsyncSeek`, `Stream` |
//! | `carry` | capture and restore |
//!
//! Invariants:
//! - `next` is the offset of the stored byte that the source delivers next. The bytes before it
//!   have been delivered, skipped, or are held. It moves by calls of the caller and by bytes that
//!   arrive, never by I/O alone. A seek itself costs no I/O; the next read pays for it.
//! - Every byte goes through the running checksum at the moment when it is delivered. A capture
//!   between two reads therefore has the sum of exactly the delivered bytes.
//! - All requests of a channel are pinned to the version that the first response named.

mod carry;
mod faces;
mod held;
mod pieces;
mod seek;
mod source;

use std::fmt;
use std::future::poll_fn;
use std::io::SeekFrom;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidegate_core::range::ByteRange;

use self::held::Held;
use self::pieces::Mode;
use self::source::Source;
use super::verify::Check;
use super::{Flow, ReadOptions, ReadTotals, Verification};
use crate::budget::BytesPermit;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::{BlobInfo, Location, Version};

/// Reads one blob as a stream: one request for everything, restarted if it is interrupted, in one
/// version, verified at its end.
///
/// It is an [`AsyncRead`](tokio::io::AsyncRead), [`AsyncBufRead`](tokio::io::AsyncBufRead),
/// [`AsyncSeek`](tokio::io::AsyncSeek) and a [`Stream`](futures_core::Stream) of `Result<Bytes>`.
/// All of these can be mixed; each continues where the last one stopped.
///
/// ```no_run
/// use tidegate::Client;
///
/// # async fn example() -> tidegate::Result<()> {
/// let client = Client::default();
/// let blob = client.locate("gs://bucket/weights.bin")?;
/// let mut channel = client.read(&blob).open()?;
/// while let Some(bytes) = channel.next().await? {
///     // In the transport's own memory; nothing was copied.
///     drop(bytes);
/// }
/// assert!(channel.verified().is_verified());
/// # Ok(())
/// # }
/// ```
///
/// # Positions
///
/// Positions are offsets in the blob, whatever the range: a channel of bytes 100 to 200 starts at
/// position 100. With [`decode`](crate::ReadBuilder::decode) they count decoded bytes, and a seek
/// to any other position than the current one is `Unsupported`.
///
/// # Errors
///
/// The caller does not see an interruption that the retry policy bridges. After an error the
/// channel keeps its position, and the next read tries again with all attempts of the policy. Only
/// damage is permanent: [`Verification::Mismatch`], or a body that is longer than its head says.
/// The channel never reports the normal end of a damaged blob: the read that would have returned it
/// fails with `Integrity`.
///
/// # Cancel safety
///
/// Every future here can be dropped and called again. A call delivers bytes only when it returns,
/// and the next call continues the request in flight. Dropping the channel, or
/// [`suspend`](Self::suspend), ends the request and returns its permits to the budget.
///
/// The futures need a tokio runtime with its I/O and time drivers.
pub struct ReadChannel {
    location: Arc<Location>,
    options: ReadOptions,
    // When the first read began; the deadline counts from then.
    epoch: Option<Instant>,
    // Shared by all requests since the last error.
    flow: Arc<Flow>,
    source: Source,
    next: u64,
    // The read starts this many bytes before an end that is not known; `next` means nothing then.
    suffix: Option<u64>,
    // The end of the read, exclusive; u64::MAX for none.
    limit: u64,
    len_bytes: Option<u64>,
    info: Option<BlobInfo>,
    pinned: Option<Version>,
    // The coding of the stored bytes, once a response with bytes has arrived.
    coding: Option<String>,
    // Bytes of the pinned version have been delivered.
    delivered: bool,
    // Bytes before this offset have been delivered, perhaps by another process.
    delivered_end: u64,
    // The checksums have been looked up by a separate request.
    looked_up: bool,
    check: Check,
    mode: Mode,
    held: Held,
    seeking: Option<SeekFrom>,
    // A seek chose the position, which may lie beyond the end.
    sought: bool,
    // Another process delivered this many decoded bytes; they are decoded again and skipped.
    passed: u64,
    // The permit for the gathered bytes.
    buffer: Option<BytesPermit>,
    span: Option<tracing::Span>,
}

impl ReadChannel {
    /// A channel over the blob at `location`. Nothing is sent before the first read.
    pub(crate) fn open(location: Location, options: ReadOptions) -> Self {
        let (next, suffix, limit) = match &options.range {
            ByteRange::Last(count) => (0, Some(*count), u64::MAX),
            ByteRange::From(start) => (*start, None, u64::MAX),
            ByteRange::Bounded(range) => (range.start, None, range.end),
            _ => (0, None, u64::MAX),
        };
        Self {
            location: Arc::new(location),
            epoch: None,
            flow: Flow::of_read(&options.retry),
            source: Source::Closed,
            next,
            suffix,
            limit,
            len_bytes: None,
            info: None,
            pinned: options.version.clone(),
            coding: None,
            delivered: false,
            delivered_end: 0,
            looked_up: false,
            check: Check::new(options.verify.clone()),
            mode: Mode::of(options.decode),
            held: Held::default(),
            seeking: None,
            sought: false,
            passed: 0,
            buffer: None,
            span: None,
            options,
        }
    }

    /// The next bytes in order, in the transport's own memory; `None` at the end, also when called
    /// again. Cancel-safe.
    ///
    /// # Errors
    ///
    /// - `NotFound`, `NoAccess` and so on as the remote says.
    /// - `Changed` if the blob is no longer the version that was begun.
    /// - `Exhausted` if the policy gives up.
    /// - `OutOfRange` if the range begins beyond the end.
    /// - `Integrity` if the blob is damaged.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        poll_fn(|cx| self.poll_piece(cx)).await
    }

    /// Facts about the blob, from the first response. Opens the channel if there is no response
    /// yet. Cancel-safe.
    ///
    /// # Errors
    ///
    /// As [`Self::next`].
    pub async fn info(&mut self) -> Result<&BlobInfo> {
        if self.info.is_none() {
            poll_fn(|cx| self.poll_known(cx)).await?;
        }
        self.info.as_ref().ok_or_else(|| self.error(ErrorKind::Invalid, "no answer was had"))
    }

    /// Offset of the first byte not yet delivered. It is `None` while only its distance from the
    /// end is known, as before the first read of the last n bytes. It may lie beyond the end.
    pub fn position(&self) -> Option<u64> {
        self.suffix.is_none().then(|| self.arrived() - self.held.len_bytes())
    }

    /// Length in bytes of the stored blob, once a response has given it.
    pub fn len_bytes(&self) -> Option<u64> {
        self.len_bytes
    }

    /// The result of verification for the delivered bytes; see [`Verification`].
    pub fn verified(&self) -> Verification {
        let cut = match self.len_bytes {
            Some(len) => self.stored_limit() < len,
            None => self.stored_limit() < u64::MAX,
        };
        let unsummed = self.held.unsummed_bytes();
        match self.mode {
            Mode::Raw => {
                let position = self.position().map(|position| position - unsummed);
                self.check.verification(cut, position, unsummed > 0)
            }
            // Stored bytes go through the checksum when they are decoded.
            Mode::Undecided | Mode::Gzip(_) => self.check.verification(cut, None, false),
        }
    }

    /// The cost so far of all reads that share the channel's counters.
    pub fn totals(&self) -> ReadTotals {
        self.options.stats.totals()
    }

    /// The blob that this channel reads.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Ends the request in flight and returns its permits to the budget. The next read sends a new
    /// request for the rest. Held bytes stay.
    pub fn suspend(&mut self) {
        self.close();
        self.buffer = None;
    }

    /// Offset behind all bytes that have arrived.
    fn arrived(&self) -> u64 {
        match &self.mode {
            Mode::Raw => self.next,
            Mode::Undecided => self.next.max(self.passed),
            Mode::Gzip(decoded) => decoded.position.max(self.passed),
        }
    }

    fn span(&mut self) -> tracing::Span {
        let Self { span, location, options, .. } = self;
        span.get_or_insert_with(
            || tracing::debug_span!("read", blob = location.display(), range = %options.range),
        )
        .clone()
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, Operation::Read, self.location.display(), message)
    }
}

impl fmt::Debug for ReadChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadChannel")
            .field("location", &self.location)
            .field("position", &self.position())
            .field("limit", &self.limit)
            .field("len_bytes", &self.len_bytes)
            .finish_non_exhaustive()
    }
}
