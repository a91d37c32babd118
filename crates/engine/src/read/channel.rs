//! A stream of one range that survives interruptions: [`ReadChannel`].
//!
//! Invariants:
//! - Bytes are delivered in order, each once: `next` is the offset of the first byte not yet
//!   delivered, and a restart asks for exactly what begins there.
//! - All delivered bytes are of one version: the first answer pins it, every later request asks
//!   for it and its answer is compared with it. A blob without any version is never restarted
//!   once a byte has been delivered.
//! - The end is believed only where the length says so: a body that ends before the range does is
//!   an interruption.
//!
//! How long and how often to try is decided by [`tidegate_core::retry`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use tidegate_core::range::ByteRange;
use tidegate_core::retry::{GiveUpReason, Retry, RetryClass, RetryDecision, RetryPolicy};
use tokio::time::{sleep, timeout};

use super::ReadStats;
use crate::budget::{Budget, RequestPermit};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::{BlobInfo, Body, Location, OpenRequest, Opened, Version};

/// An address that has never answered is tried this often, however patient the policy: a wrong
/// port should not take as long to report as a server that restarts.
const FIRST_CONTACT_ATTEMPTS_MAX: u32 = 4;

/// What the caller chooses of a [`ReadChannel`].
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The bytes wanted; everything by default.
    pub range: Option<ByteRange>,
    /// The version that they must be of; whatever there is by default.
    pub version: Option<Version>,
    /// The length of the blob, where an earlier answer told it: an answer that tells another
    /// contradicts itself, or is of another blob.
    pub len_bytes: Option<u64>,
    /// How to go on after an interruption.
    pub retry: RetryPolicy,
}

/// Reads one range of one blob, restarting where it broke. No request is sent before the first
/// call that needs one.
pub struct ReadChannel {
    location: Location,
    wanted: ByteRange,
    budget: Budget,
    stats: Arc<ReadStats>,
    policy: RetryPolicy,
    retry: Retry,
    epoch: Instant,
    pinned: Option<Version>,
    len_bytes: Option<u64>,
    info: Option<BlobInfo>,
    // Both are offsets in the blob, and known once the first answer is there.
    next: u64,
    end: Option<u64>,
    begun: bool,
    done: bool,
    ignores_ranges: bool,
    requests: u32,
    live: Option<Live>,
    lent: Option<RequestPermit>,
    waited: Duration,
}

/// An answer that is being read.
struct Live {
    body: Body,
    position: u64,
    // The answer tells neither its length nor the blob's: where it ends, the blob does.
    endless: bool,
    _permit: RequestPermit,
}

impl std::fmt::Debug for ReadChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadChannel")
            .field("location", &self.location)
            .field("wanted", &self.wanted)
            .field("next", &self.next)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl ReadChannel {
    /// A channel that has not asked for anything yet.
    pub fn new(
        location: Location,
        options: ReadOptions,
        budget: Budget,
        stats: Arc<ReadStats>,
    ) -> Self {
        let epoch = Instant::now();
        Self {
            location,
            wanted: options.range.unwrap_or(ByteRange::All),
            budget,
            stats,
            retry: Retry::new(&options.retry, Duration::ZERO),
            policy: options.retry,
            epoch,
            pinned: options.version,
            len_bytes: options.len_bytes,
            info: None,
            next: 0,
            end: None,
            begun: false,
            done: false,
            ignores_ranges: false,
            requests: 0,
            live: None,
            lent: None,
            waited: Duration::ZERO,
        }
    }

    /// Facts that the first answer gave; asks for it where there is none yet. Cancel-safe.
    pub async fn info(&mut self) -> Result<&BlobInfo> {
        while self.info.is_none() {
            self.ensure_live().await?;
        }
        // The loop ends only once the facts are there.
        self.info.as_ref().ok_or_else(|| self.error(ErrorKind::Invalid, "no answer was had"))
    }

    /// Offset in the blob of the first byte not yet delivered; meaningful once begun.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Offset in the blob of the end of what is read, once known.
    pub fn end(&self) -> Option<u64> {
        self.end
    }

    /// The remote sends whole blobs whatever range is asked for.
    pub fn ignores_ranges(&self) -> bool {
        self.ignores_ranges
    }

    /// From the latest request to its answer's first byte.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Gives the channel the permit for its next request, which it otherwise waits for itself.
    pub(crate) fn lend(&mut self, permit: RequestPermit) {
        self.lent = Some(permit);
    }

    /// Ends the request in flight and gives its permit back; the next read asks again for what is
    /// left.
    pub(crate) fn suspend(&mut self) {
        self.live = None;
    }

    /// Moves the end of what is read: to read on through an answer that brings more than was
    /// asked for, or to stop earlier. Does nothing once the end has been delivered.
    pub fn set_end(&mut self, end: Option<u64>) {
        if !self.done {
            self.end = end;
        }
    }

    /// The next bytes in order, in the transport's own buffer; `None` at the end of the range.
    /// Cancel-safe: bytes are delivered by a call that returns, or by a later one.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if self.done || (self.begun && self.end.is_some_and(|end| self.next >= end)) {
                self.finish();
                return Ok(None);
            }
            self.ensure_live().await?;
            let Some(live) = self.live.as_mut() else { continue };
            let stall = Duration::from_millis(self.policy.stall_ms_max);
            // The deadline ends an attempt that is under way, too.
            let left = self.retry.remaining(self.epoch.elapsed()).unwrap_or(stall);
            let limit = stall.min(left);
            match timeout(limit, live.body.next()).await {
                Ok(Some(Ok(frame))) => {
                    if let Some(bytes) = self.take(frame) {
                        return Ok(Some(bytes));
                    }
                }
                Ok(Some(Err(error))) => self.interrupted(error).await?,
                Ok(None) if self.live.as_ref().is_some_and(|live| live.endless) => self.done = true,
                Ok(None) if self.end.is_some_and(|end| self.next >= end) => {}
                Ok(None) => {
                    let error = self
                        .error(ErrorKind::Transport, "the body ended before the range did")
                        .retryable(RetryClass::Now);
                    self.interrupted(error).await?;
                }
                Err(_elapsed) => {
                    let seconds = limit.as_secs_f64();
                    let error = self
                        .error(ErrorKind::Timeout, format!("no byte arrived for {seconds} s"))
                        .retryable(RetryClass::Now);
                    self.interrupted(error).await?;
                }
            }
        }
    }

    /// Cuts from a frame what was delivered before or lies beyond the end.
    fn take(&mut self, mut frame: Bytes) -> Option<Bytes> {
        let live = self.live.as_mut()?;
        let arrived = frame.len() as u64;
        let start = live.position;
        live.position += arrived;
        let skip = self.next.saturating_sub(start).min(arrived);
        let stop = self.end.map_or(arrived, |end| end.saturating_sub(start).min(arrived));
        // Both are at most the frame's length, which is a usize.
        let (skip, stop) = (to_usize(skip), to_usize(stop).max(to_usize(skip)));
        frame.truncate(stop);
        let bytes = frame.split_off(skip);
        self.stats.wasted(arrived - bytes.len() as u64);
        if bytes.is_empty() {
            return None;
        }
        self.next += bytes.len() as u64;
        self.retry.on_bytes(bytes.len() as u64);
        self.stats.delivered(bytes.len() as u64);
        Some(bytes)
    }

    fn finish(&mut self) {
        self.done = true;
        self.live = None;
    }

    async fn ensure_live(&mut self) -> Result<()> {
        while self.live.is_none() && !self.done {
            if let Err(error) = self.open().await {
                self.interrupted(error).await?;
            }
        }
        Ok(())
    }

    /// Sends one request for what is left and takes in its answer's head.
    async fn open(&mut self) -> Result<()> {
        let range = self.remaining();
        let request = OpenRequest { range, version: self.pinned.clone() };
        let permit = match self.lent.take() {
            Some(permit) => permit,
            None => self.budget.request().await,
        };
        self.stats.request();
        self.requests += 1;
        if self.requests > 1 {
            self.stats.restart();
        }
        let left = self.retry.remaining(self.epoch.elapsed());
        let limit = Duration::from_millis(self.policy.header_ms_max);
        let limit = limit.min(left.unwrap_or(limit));
        let asked = self.location.remote.open(&self.location.blob, &request);
        let opened = timeout(limit, asked).await.unwrap_or_else(|_elapsed| {
            let seconds = limit.as_secs_f64();
            Err(self
                .error(ErrorKind::Timeout, format!("no answer came within {seconds} s"))
                .retryable(RetryClass::Now))
        })?;
        self.accept(opened, permit)
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

    fn accept(&mut self, opened: Opened, permit: RequestPermit) -> Result<()> {
        if let (Some(was), Some(is)) = (self.len_bytes, opened.info.len_bytes)
            && was != is
        {
            let message = format!("its length was {was} bytes and is {is} now");
            // The same version cannot have two lengths: one of the two answers is wrong.
            let same = self.pinned.is_some() && self.pinned == opened.info.version;
            return Err(if same {
                self.error(ErrorKind::Integrity, message).retryable(RetryClass::Now)
            } else {
                self.error(ErrorKind::Changed, message)
            });
        }
        self.len_bytes = self.len_bytes.or(opened.info.len_bytes);
        if self.info.is_some() {
            // The first answer may not have told where the blob ends.
            self.end = self.end.or(opened.info.len_bytes);
        } else {
            let range = self.first_range(&opened)?;
            if !self.begun {
                self.next = range.0;
                self.end = range.1;
                self.begun = true;
            }
            self.pinned = self.pinned.take().or_else(|| opened.info.version.clone());
            self.ignores_ranges = opened.whole && self.wanted != ByteRange::All;
            self.info = Some(opened.info.clone());
        }
        self.waited = opened.waited;
        self.stats.more_requests(opened.requests.saturating_sub(1));
        self.live = Some(Live {
            body: opened.body,
            position: opened.start,
            endless: opened.end.is_none() && opened.info.len_bytes.is_none(),
            _permit: permit,
        });
        Ok(())
    }

    /// Where the range begins and ends, once the first answer tells the length.
    fn first_range(&self, opened: &Opened) -> Result<(u64, Option<u64>)> {
        match opened.info.len_bytes {
            Some(len) => {
                let range = self.wanted.resolve(len).map_err(|error| {
                    self.error(ErrorKind::OutOfRange, "the range does not fit the blob")
                        .caused_by(error)
                })?;
                Ok((range.start, Some(range.end)))
            }
            None => match &self.wanted {
                ByteRange::All => Ok((0, opened.end)),
                ByteRange::From(start) => Ok((*start, opened.end)),
                ByteRange::Bounded(range) => Ok((range.start, Some(range.end))),
                _ => Err(self.error(
                    ErrorKind::Unsupported,
                    "the remote does not tell the length, so its last bytes cannot be asked for",
                )),
            },
        }
    }

    /// Decides what to do about a failure: returns once it is time to ask again, or with the
    /// error that ends the read.
    async fn interrupted(&mut self, error: Error) -> Result<()> {
        self.live = None;
        let error = self.in_context(error);
        if self.begun && self.next > self.wanted_start() && self.pinned.is_none() {
            return Err(error.with_hint(
                "the server names no version of the blob, so a break cannot be bridged; try again",
            ));
        }
        // Who names a version has had an answer, here or in an earlier read.
        let first_contact =
            self.info.is_none() && self.pinned.is_none() && error.kind() == ErrorKind::Transport;
        let class = *error.retry();
        match self.retry.on_interruption(class, self.epoch.elapsed()) {
            RetryDecision::After(_)
                if first_contact && self.requests >= FIRST_CONTACT_ATTEMPTS_MAX =>
            {
                Err(self.exhausted(error))
            }
            RetryDecision::After(delay) => {
                tracing::debug!(
                    target = self.location.display(),
                    offset = self.next,
                    delay_ms = delay.as_millis(),
                    error = error.chain(),
                    "restart"
                );
                if !delay.is_zero() {
                    sleep(delay).await;
                }
                Ok(())
            }
            RetryDecision::GiveUp(GiveUpReason::NotRetryable) => Err(error),
            RetryDecision::GiveUp(_) => Err(self.exhausted(error)),
        }
    }

    fn wanted_start(&self) -> u64 {
        match &self.wanted {
            ByteRange::From(start) => *start,
            ByteRange::Bounded(range) => range.start,
            _ => 0,
        }
    }

    /// A failure means more once an answer has been had: what was there and is gone has changed.
    fn in_context(&self, error: Error) -> Error {
        match (error.kind(), self.len_bytes) {
            (ErrorKind::NotFound, _) if self.info.is_some() || self.pinned.is_some() => {
                error.into_kind(ErrorKind::Changed)
            }
            (ErrorKind::OutOfRange, Some(said)) => self
                .error(
                    ErrorKind::Integrity,
                    format!("the remote said {said} bytes, but there are fewer"),
                )
                .caused_by(error),
            _ => error,
        }
    }

    fn exhausted(&self, error: Error) -> Error {
        self.error(ErrorKind::Exhausted, "gave up").after_attempts(self.requests).caused_by(error)
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        let error = Error::new(kind, Operation::Read, self.location.display(), message);
        match self.end {
            Some(end) if self.begun => error.at(self.next..end),
            _ => error,
        }
    }
}

fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
