//! [`ReadChannel`]: one blob as a stream that survives.
//!
//! | file | idea |
//! |---|---|
//! | `source` | the requests: opened when bytes are wanted, aligned with where reading goes on |
//! | `pieces` | what is delivered next: stored frames or decoded pieces, checked on the way |
//! | `held` | what has arrived and was not taken yet |
//! | `seek` | where reading goes on, and where it ends |
//! | `faces` | `AsyncRead`, `AsyncBufRead`, `AsyncSeek`, `Stream` |
//! | `carry` | capture and restore |
//!
//! Invariants:
//! - `next` is the offset of the stored byte that the source brings next; what lies before it has
//!   been delivered, passed over, or is held. It moves by calls of the caller and by bytes that
//!   arrive, never by I/O alone: seeks are free, and are paid for by the next read.
//! - Every byte that is delivered goes through the running checksum at the moment when it is, so
//!   that a capture between two reads has the sum of exactly what was delivered.
//! - All requests of a channel are pinned to the version that the first answer named.

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

/// Reads one blob as a stream: one request for everything, restarted where it breaks, in one
/// version, verified at its end.
///
/// It is an [`AsyncRead`](tokio::io::AsyncRead), [`AsyncBufRead`](tokio::io::AsyncBufRead),
/// [`AsyncSeek`](tokio::io::AsyncSeek) and a [`Stream`](futures_core::Stream) of `Result<Bytes>`;
/// all of these can be mixed, and each goes on where the last one stopped.
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
/// Positions are offsets in the blob, whatever the range: a channel of bytes 100 to 200 stands at
/// 100 first. With [`decode`](crate::ReadBuilder::decode) they count decoded bytes, and a seek to anywhere
/// but the current position is `Unsupported`.
///
/// # Errors
///
/// An interruption that the policy bridges is not seen. After an error the channel stays where it
/// was, and the next read tries again, with the policy's attempts anew; only damage
/// ([`Verification::Mismatch`], or a body that goes on beyond its end) stays. The end of a damaged
/// blob is never delivered as an end: the
/// read that would have returned it fails with `Integrity`.
///
/// # Cancel safety
///
/// Every future here can be dropped and asked for again: bytes are delivered by a call that
/// returns, or by a later one, and a request under way is gone on with. Dropping the channel, or
/// [`suspend`](Self::suspend), ends the request and gives back what was taken from the budget.
///
/// The futures need a tokio runtime with its I/O and time drivers.
pub struct ReadChannel {
    location: Arc<Location>,
    options: ReadOptions,
    // When the first read began: the deadline counts from there.
    epoch: Option<Instant>,
    // Of all requests since the last error.
    flow: Arc<Flow>,
    source: Source,
    next: u64,
    // Reading goes on so many bytes before an end that is not known; `next` means nothing then.
    suffix: Option<u64>,
    // The end of what is read, exclusive; u64::MAX for none.
    limit: u64,
    len_bytes: Option<u64>,
    info: Option<BlobInfo>,
    pinned: Option<Version>,
    // The coding of the stored bytes, once an answer has brought some.
    coding: Option<String>,
    // Bytes of the pinned version have been delivered.
    delivered: bool,
    // Bytes before this offset have been delivered, perhaps by another process.
    delivered_end: u64,
    // The checksums have been asked for beside an answer.
    looked_up: bool,
    check: Check,
    mode: Mode,
    held: Held,
    seeking: Option<SeekFrom>,
    // The position is the choice of a seek, which may go beyond the end.
    sought: bool,
    // So many decoded bytes were delivered by another process and are passed over.
    passed: u64,
    // What the gathered bytes are charged to.
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

    /// The next bytes in order, in the transport's own memory; `None` at the end, however often it
    /// is asked for. Cancel-safe.
    ///
    /// # Errors
    ///
    /// `NotFound`, `NoAccess` and so on as the remote says, `Changed` if the blob is no longer the
    /// version that was begun, `Exhausted` if the policy gives up, `OutOfRange` if the range
    /// begins beyond the end, and `Integrity` if the blob turns out to be damaged.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        poll_fn(|cx| self.poll_piece(cx)).await
    }

    /// Facts about the blob, from the first answer; opens the channel where there is none yet.
    /// Cancel-safe.
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

    /// Offset of the first byte not yet delivered; `None` as long as only its distance from the
    /// end is known, as before the first read of the last n bytes. May be beyond the end.
    pub fn position(&self) -> Option<u64> {
        self.suffix.is_none().then(|| self.arrived() - self.held.len_bytes())
    }

    /// Length in bytes of what is stored, once an answer has told it.
    pub fn len_bytes(&self) -> Option<u64> {
        self.len_bytes
    }

    /// What is proven of the bytes that were delivered; see [`Verification`].
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
            // Stored bytes go through the checksum as they are decoded.
            Mode::Undecided | Mode::Gzip(_) => self.check.verification(cut, None, false),
        }
    }

    /// What the channel has cost so far, with everything that shares its counters.
    pub fn totals(&self) -> ReadTotals {
        self.options.stats.totals()
    }

    /// The blob that is read.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Ends the request in flight and gives back what was taken from the budget; the next read
    /// asks again for what is left. Bytes that are held stay.
    pub fn suspend(&mut self) {
        self.close();
        self.buffer = None;
    }

    /// Offset behind everything that has been taken in.
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
