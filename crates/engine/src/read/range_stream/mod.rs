//! A stream of one range that survives interruptions: [`RangeStream`].
//!
//! It sends a request, delivers the bytes of the response, and restarts at the first byte not yet
//! delivered. Example: a read of bytes 0 to 999 is interrupted after 400 bytes. The next request
//! asks for bytes 400 to 999 of the same version.
//!
//! Invariants:
//! - Bytes are delivered in order, each once. `next` is the offset of the first byte not yet
//!   delivered, and a restart requests the bytes from there on.
//! - All delivered bytes are of one version. The first response pins it, and every later request
//!   asks for it. A response with another version, or with none, is not read. If a blob has no
//!   version, no failure after the first delivered byte is retried.
//! - The end of a body counts as the end of the range only if the length confirms it: a body that
//!   ends before the range is an interruption. If no response gives the length, the blob ends at
//!   the end of a body without a length. It is an error if that is before the delivered bytes.
//! - A body that continues beyond the end that its head claims is invalid as a whole. So the stream
//!   reports its end only after the body has ended. If the reader verifies the bytes itself, the
//!   extra bytes are cut off instead.
//! - The stream is polled, and all of its state is in the stream (`phase`). So dropping a future
//!   that polls it loses nothing, not even a request in flight. Dropping the stream ends its
//!   request.
//!
//! `options` holds the caller's options. `answer` checks the head of a response, `end` handles the
//! end of its body, and `interruption` decides after a failure. [`Retrying`] limits the requests in
//! number and time. Verification of checksums is not done here.

mod answer;
mod end;
mod interruption;
mod options;
mod values;

pub(crate) use interruption::FLAWS_MAX;
pub(crate) use options::{Known, RangeOptions};

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::checksum::StoredChecksum;
use tidegate_core::range::ByteRange;
use tidegate_core::retry::{RetryClass, RetryPolicy};

use super::ReadStats;
use super::flow::Flow;
use super::live::{Arrival, Live};
use super::request::{Asking, RequestPlan};
use super::retrying::Retrying;
use crate::budget::{Budget, RequestPermit};
use crate::error::{ErrorKind, Result};
use crate::remote::{BlobInfo, Location, OpenRequest, Version};
use crate::transfer::window::TransferWindow;

/// One year: no limit in practice, and short enough to be added to an
/// [`Instant`](tokio::time::Instant).
const UNHURRIED: Duration = Duration::from_hours(24 * 365);

/// Reads one range of one blob, and restarts after interruptions. The first call that needs a
/// request sends it.
pub(crate) struct RangeStream {
    location: Arc<Location>,
    wanted: ByteRange,
    budget: Budget,
    stats: Arc<ReadStats>,
    policy: RetryPolicy,
    hedge: Option<Duration>,
    flow: Arc<Flow>,
    window: Option<Arc<TransferWindow>>,
    reader_verifies: bool,
    flaws: u32,
    retrying: Retrying,
    pinned: Option<Version>,
    len_bytes: Option<u64>,
    coding: Option<String>,
    checksums: Vec<StoredChecksum>,
    delivered_end: u64,
    info: Option<BlobInfo>,
    // `next` and `end` are offsets in the blob. They are known after the first response.
    next: u64,
    end: Option<u64>,
    begun: bool,
    delivered_bytes: u64,
    done: bool,
    manner: Manner,
    phase: Phase,
    next_permit: Option<RequestPermit>,
    waited: Duration,
}

/// Properties of the first response.
#[derive(Clone, Copy, Debug, Default)]
struct Manner {
    ignores_ranges: bool,
    encoded_unasked: bool,
}

enum Phase {
    /// No request is in flight.
    Idle,
    /// A request has been sent, or waits for its permit.
    Asking(Asking),
    /// The body of a response is being read.
    Live(Live),
    /// The stream waits for the delay before a retry.
    Resting(std::pin::Pin<Box<tokio::time::Sleep>>),
    /// A body is longer than its head claims, and some of its bytes may have been delivered. Every
    /// further read fails.
    Unsound,
}

impl std::fmt::Debug for RangeStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RangeStream")
            .field("location", &self.location)
            .field("wanted", &self.wanted)
            .field("next", &self.next)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl RangeStream {
    /// A stream that has not sent a request yet.
    pub(crate) fn new(
        location: impl Into<Arc<Location>>,
        options: RangeOptions,
        budget: Budget,
        stats: Arc<ReadStats>,
    ) -> Self {
        Self {
            location: location.into(),
            wanted: options.range.unwrap_or(ByteRange::All),
            budget,
            stats,
            hedge: options.hedge,
            flow: options.flow.unwrap_or_else(|| Flow::of_read(&options.retry)),
            window: options.window,
            reader_verifies: options.reader_verifies,
            flaws: 0,
            retrying: Retrying::new(&options.retry),
            policy: options.retry,
            pinned: options.known.version,
            len_bytes: options.known.len_bytes,
            coding: options.known.coding,
            checksums: options.known.checksums,
            delivered_end: options.known.delivered_end,
            info: None,
            next: 0,
            end: None,
            begun: false,
            delivered_bytes: 0,
            done: false,
            manner: Manner::default(),
            phase: Phase::Idle,
            next_permit: None,
            waited: Duration::ZERO,
        }
    }

    /// Sets a range that is known before the first response, in bytes of the blob.
    pub(crate) fn between(mut self, range: Range<u64>) -> Self {
        (self.next, self.end, self.begun) = (range.start, Some(range.end), true);
        self
    }

    /// Facts from the first response. Sends a request if there is no response yet. Cancel-safe.
    pub(crate) async fn info(&mut self) -> Result<&BlobInfo> {
        std::future::poll_fn(|cx| self.poll_begun(cx)).await?;
        // `poll_begun` is ready only after the facts are known.
        self.info.as_ref().ok_or_else(|| self.error(ErrorKind::Invalid, "no answer was had"))
    }

    /// The next bytes in order, in the transport's own buffer; `None` at the end of the range.
    /// Cancel-safe: if the future is dropped, a later call delivers the bytes.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Facts from the first response; `None` before it.
    pub(crate) fn facts(&self) -> Option<&BlobInfo> {
        self.info.as_ref()
    }

    /// Offset in the blob of the first byte not yet delivered. It is valid after the first
    /// response, or after [`Self::between`].
    pub(crate) fn position(&self) -> u64 {
        self.next
    }

    /// Offset in the blob of the end of the range; `None` if it is unknown.
    pub(crate) fn end(&self) -> Option<u64> {
        self.end
    }

    /// The remote ignored the range of the first request and sent the whole blob.
    pub(crate) fn ignores_ranges(&self) -> bool {
        self.manner.ignores_ranges
    }

    /// The bytes of the first response have a content coding, although the request asked for none.
    pub(crate) fn is_encoded_unasked(&self) -> bool {
        self.manner.encoded_unasked
    }

    /// Length of the blob in bytes, from the caller, the head of a response or the end of its body;
    /// `None` if it is unknown.
    pub(crate) fn len_bytes(&self) -> Option<u64> {
        self.len_bytes
    }

    /// The producer sets the pace of the bytes, as in a pipe, and they can be read only once.
    pub(crate) fn is_local_stream(&self) -> bool {
        matches!(&self.phase, Phase::Live(live) if live.is_unhurried())
    }

    /// Time from sending a request to the head of its response, for the latest response.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// Gives the stream the permit for its next request. Without it, the stream waits for a permit.
    pub(crate) fn give_permit(&mut self, permit: RequestPermit) {
        self.next_permit = Some(permit);
    }

    /// Ends the request in flight and releases its permit. The next read requests the remaining
    /// bytes.
    pub(crate) fn suspend(&mut self) {
        self.phase = Phase::Idle;
    }

    /// Moves the end of the range: to continue through a response with more bytes than requested,
    /// or to stop earlier. Does nothing after the end was delivered.
    pub(crate) fn set_end(&mut self, end: Option<u64>) {
        if !self.done {
            self.end = end;
        }
    }

    /// Skips the bytes before `offset`. If they arrive, they count as wasted; a restart does not
    /// request them. Call it only after the first response. It only moves forward.
    pub(crate) fn skip_to(&mut self, offset: u64) {
        self.next = self.next.max(offset);
    }

    /// As [`Self::info`]: ready after the facts are known.
    pub(crate) fn poll_begun(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while self.info.is_none() {
            ready!(self.poll_live(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// As [`Self::next`].
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>>> {
        loop {
            if self.done || (self.begun && self.end.is_some_and(|end| self.next >= end)) {
                ready!(self.poll_sound(cx))?;
                self.finish();
                return Poll::Ready(Ok(None));
            }
            ready!(self.poll_live(cx))?;
            if !matches!(self.phase, Phase::Live(_)) {
                continue;
            }
            match ready!(self.poll_arrival(cx)) {
                Arrival::Frame(frame) => {
                    if let Some(bytes) = self.take(frame)? {
                        return Poll::Ready(Ok(Some(bytes)));
                    }
                }
                Arrival::Failed(error) => self.interrupted(error)?,
                Arrival::End => self.body_ended()?,
                Arrival::TooSlow { last } => self.too_slow(last)?,
                Arrival::Stalled(limit) => {
                    let seconds = limit.as_secs_f64();
                    let error = self
                        .error(ErrorKind::Timeout, format!("timed out after {seconds} s: no data"))
                        .retryable(RetryClass::Now);
                    self.interrupted(error)?;
                }
            }
        }
    }

    /// The next event of the body that is being read; [`Arrival::End`] if there is no body.
    fn poll_arrival(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        let Phase::Live(live) = &mut self.phase else { return Poll::Ready(Arrival::End) };
        let stall = if live.is_unhurried() {
            UNHURRIED
        } else {
            Duration::from_millis(self.policy.stall_ms_max)
        };
        // The deadline also ends a request in flight.
        let retrying = &self.retrying;
        live.poll(cx, || retrying.limit(stall))
    }

    /// Removes from a frame the bytes that were delivered before, and those beyond the end of the
    /// range. If bytes beyond the end are removed, the response is dropped: the caller may move the
    /// end later, and the next frame would then leave a gap after the delivered bytes.
    fn take(&mut self, mut frame: Bytes) -> Result<Option<Bytes>> {
        let Phase::Live(live) = &mut self.phase else { return Ok(None) };
        let arrived = frame.len() as u64;
        let start = live.passed(arrived);
        if live.is_beyond() && !self.reader_verifies {
            return Err(self.too_long());
        }
        let skip = self.next.saturating_sub(start).min(arrived);
        let stop = self.end.map_or(arrived, |end| end.saturating_sub(start).min(arrived));
        // Both are at most the frame's length, which is a usize.
        let (skip, stop) = (to_usize(skip), to_usize(stop).max(to_usize(skip)));
        if (stop as u64) < arrived {
            self.phase = Phase::Idle;
        }
        frame.truncate(stop);
        let bytes = frame.split_off(skip);
        self.stats.wasted(arrived - bytes.len() as u64);
        if bytes.is_empty() {
            return Ok(None);
        }
        self.next += bytes.len() as u64;
        self.delivered_end = self.delivered_end.max(self.next);
        self.delivered_bytes += bytes.len() as u64;
        self.retrying.on_bytes(bytes.len() as u64);
        self.stats.delivered(bytes.len() as u64);
        Ok(Some(bytes))
    }

    fn finish(&mut self) {
        self.done = true;
        self.phase = Phase::Idle;
    }

    /// Ready after a response has begun, or if nothing is left to read.
    fn poll_live(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            match &mut self.phase {
                _ if self.done => return Poll::Ready(Ok(())),
                Phase::Live(_) => return Poll::Ready(Ok(())),
                // `ask_again` counts the later requests.
                Phase::Idle if self.retrying.requests() == 0 && !self.flow.try_request() => {
                    return Poll::Ready(Err(self.never_a_byte()));
                }
                Phase::Idle => self.phase = Phase::Asking(self.ask()),
                Phase::Asking(asking) => {
                    let (answer, span) = ready!(asking.poll(cx));
                    let outcome = match answer {
                        Ok(answered) => self.accept(answered, span),
                        Err(error) if error.kind() == ErrorKind::Timeout => Err(self.placed(error)),
                        Err(error) => Err(error),
                    };
                    if let Err(error) = outcome {
                        self.interrupted(error)?;
                    }
                }
                Phase::Resting(sleep) => {
                    ready!(sleep.as_mut().poll(cx));
                    self.phase = Phase::Idle;
                }
                Phase::Unsound => return Poll::Ready(Err(self.too_long())),
            }
        }
    }

    /// A request for the remaining bytes.
    fn ask(&mut self) -> Asking {
        let request = OpenRequest { range: self.remaining(), version: self.pinned.clone() };
        if self.retrying.on_request() {
            self.stats.restart();
        }
        let limit = Duration::from_millis(self.policy.header_ms_max);
        Asking::new(RequestPlan {
            location: Arc::clone(&self.location),
            request,
            budget: self.budget.clone(),
            stats: Arc::clone(&self.stats),
            permit: self.next_permit.take(),
            limit: self.retrying.limit(limit),
            hedge: self.hedge,
            window: self.window.clone(),
            attempt: self.retrying.requests(),
        })
    }

    fn remaining(&self) -> ByteRange {
        if !self.begun {
            return self.wanted.clone();
        }
        match self.end {
            Some(end) if self.next > 0 || self.wanted != ByteRange::All => {
                ByteRange::Bounded(self.next..end)
            }
            _ if self.next > 0 => ByteRange::From(self.next),
            _ => ByteRange::All,
        }
    }
}

fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
