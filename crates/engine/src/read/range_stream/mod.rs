//! A stream of one range that survives interruptions: [`RangeStream`].
//!
//! Invariants:
//! - Bytes are delivered in order, each once: `next` is the offset of the first byte not yet
//!   delivered, and a restart asks for exactly what begins there.
//! - All delivered bytes are of one version: the first answer pins it, every later request asks
//!   for it, and an answer that names another, or none, is not read. A blob without any version is
//!   never restarted once a byte has been delivered.
//! - The end is believed only where the length says so: a body that ends before the range does is
//!   an interruption. Where no answer tells the length, the blob ends where a body without a length
//!   does, which is never before what was delivered.
//! - A body that goes on beyond the end that its head claims makes all of it worthless. So the last
//!   byte of a body is waited behind for its end.
//! - Everything is polled and every state is kept in `phase`, so that dropping a future that polls
//!   loses nothing, not even a request under way; dropping the stream ends its request.
//!
//! `options` is what the caller chooses. `answer` takes in the head of an answer, `end` what its end
//! means, `interruption` decides what a failure means. [`Retrying`] decides how long and how often to
//! try.

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

/// As good as no limit, and a time that can be added to another.
const UNHURRIED: Duration = Duration::from_hours(24 * 365);

/// Reads one range of one blob, restarting where it broke. No request is sent before the first
/// call that needs one.
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
    // Both are offsets in the blob, and known once the first answer is there.
    next: u64,
    end: Option<u64>,
    begun: bool,
    delivered_bytes: u64,
    done: bool,
    manner: Manner,
    phase: Phase,
    lent: Option<RequestPermit>,
    waited: Duration,
}

/// How the first answer came.
#[derive(Clone, Copy, Debug, Default)]
struct Manner {
    ignores_ranges: bool,
    encoded_unasked: bool,
}

enum Phase {
    /// No request is under way.
    Idle,
    /// One has been sent, or waits for its permit.
    Asking(Asking),
    /// An answer is being read.
    Live(Live),
    /// Until it is time to ask again.
    Resting(std::pin::Pin<Box<tokio::time::Sleep>>),
    /// An answer contradicted its head after bytes of it were delivered: nothing goes on.
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
    /// A stream that has not asked for anything yet.
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
            lent: None,
            waited: Duration::ZERO,
        }
    }

    /// The same, of a range that is known before the first answer.
    pub(crate) fn between(mut self, range: Range<u64>) -> Self {
        (self.next, self.end, self.begun) = (range.start, Some(range.end), true);
        self
    }

    /// Facts that the first answer gave; asks for it where there is none yet. Cancel-safe.
    pub(crate) async fn info(&mut self) -> Result<&BlobInfo> {
        std::future::poll_fn(|cx| self.poll_begun(cx)).await?;
        // It is ready only once the facts are there.
        self.info.as_ref().ok_or_else(|| self.error(ErrorKind::Invalid, "no answer was had"))
    }

    /// The next bytes in order, in the transport's own buffer; `None` at the end of the range.
    /// Cancel-safe: bytes are delivered by a call that returns, or by a later one.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Facts that the first answer gave, once it is there.
    pub(crate) fn facts(&self) -> Option<&BlobInfo> {
        self.info.as_ref()
    }

    /// Offset in the blob of the first byte not yet delivered; meaningful once begun.
    pub(crate) fn position(&self) -> u64 {
        self.next
    }

    /// Offset in the blob of the end of what is read, once known.
    pub(crate) fn end(&self) -> Option<u64> {
        self.end
    }

    /// The remote sends whole blobs whatever range is asked for.
    pub(crate) fn ignores_ranges(&self) -> bool {
        self.manner.ignores_ranges
    }

    /// The first answer's bytes come in a coding, although they were asked for without.
    pub(crate) fn is_encoded_unasked(&self) -> bool {
        self.manner.encoded_unasked
    }

    /// Length of the blob, once an answer has told it, by its head or by its end.
    pub(crate) fn len_bytes(&self) -> Option<u64> {
        self.len_bytes
    }

    /// The bytes come as their maker makes them, and once only.
    pub(crate) fn is_local_stream(&self) -> bool {
        matches!(&self.phase, Phase::Live(live) if live.is_unhurried())
    }

    /// From the latest request to its answer's first byte.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// Gives the stream the permit for its next request, which it otherwise waits for itself.
    pub(crate) fn lend(&mut self, permit: RequestPermit) {
        self.lent = Some(permit);
    }

    /// Ends the request in flight and gives its permit back; the next read asks again for what is
    /// left.
    pub(crate) fn suspend(&mut self) {
        self.phase = Phase::Idle;
    }

    /// Moves the end of what is read: to read on through an answer that brings more than was
    /// asked for, or to stop earlier. Does nothing once the end has been delivered.
    pub(crate) fn set_end(&mut self, end: Option<u64>) {
        if !self.done {
            self.end = end;
        }
    }

    /// Passes over the bytes before `offset`: those that arrive are wasted, those of a restart are
    /// not asked for. Only once begun, and only forward.
    pub(crate) fn skip_to(&mut self, offset: u64) {
        self.next = self.next.max(offset);
    }

    /// As [`Self::info`]: ready once the facts are there.
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
                        .error(ErrorKind::Timeout, format!("no byte arrived for {seconds} s"))
                        .retryable(RetryClass::Now);
                    self.interrupted(error)?;
                }
            }
        }
    }

    /// What comes next of the answer that is being read; [`Arrival::End`] where none is.
    fn poll_arrival(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        let Phase::Live(live) = &mut self.phase else { return Poll::Ready(Arrival::End) };
        let stall = if live.is_unhurried() {
            UNHURRIED
        } else {
            Duration::from_millis(self.policy.stall_ms_max)
        };
        // The deadline ends an attempt that is under way, too.
        let retrying = &self.retrying;
        live.poll(cx, || retrying.limit(stall))
    }

    /// Cuts from a frame what was delivered before or lies beyond the end. Where something beyond
    /// the end is cut off, the answer is let go of: the end may be moved, and what follows the
    /// frame does not follow what was delivered.
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

    /// Ready once an answer is being read, or nothing is left to read.
    fn poll_live(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            match &mut self.phase {
                _ if self.done => return Poll::Ready(Ok(())),
                Phase::Live(_) => return Poll::Ready(Ok(())),
                // Later ones are counted where they are decided on.
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

    /// One request for what is left.
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
            permit: self.lent.take(),
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
