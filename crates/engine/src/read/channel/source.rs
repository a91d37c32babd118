//! The source of stored bytes: a [`RangeStream`]. It is opened when bytes are needed, and again
//! when the position moves to a byte that the open stream will not deliver.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;

use super::{Mode, ReadChannel};
use crate::error::{Error, ErrorKind, Result};
use crate::read::lookup::{Looking, Lookup};
use crate::read::{Facts, Flow, Known, PartsWanted, RangeOptions, RangeStream, Verify};
use crate::remote::BlobInfo;

pub(super) enum Source {
    /// No request.
    Closed,
    /// The first request, and at the same time a request for the checksums.
    Looking(Looking),
    /// The request has been sent; its response may have arrived.
    Asked(Box<Request>),
    /// A request for the blob's facts alone: a seek needs its length.
    Sizing(std::pin::Pin<Box<dyn Future<Output = Result<BlobInfo>> + Send>>),
}

/// A stream, and the end of its requested range; `u64::MAX` for the blob's end.
pub(super) struct Request {
    stream: RangeStream,
    end: u64,
    /// The end of the first response. It may be known when the blob's length is not.
    answered: Option<u64>,
    begun: bool,
}

impl ReadChannel {
    /// The next stored bytes at `next`; `None` at the end of the read.
    pub(super) fn poll_stored(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>>> {
        loop {
            let outcome = if self.is_at_end() {
                ready!(self.poll_sound(cx)).map(|()| None)
            } else {
                match ready!(self.poll_open(cx)) {
                    Ok(()) => match &mut self.source {
                        Source::Asked(request) => ready!(request.stream.poll_next(cx)),
                        _ => continue,
                    },
                    Err(error) => Err(error),
                }
            };
            match outcome {
                Ok(Some(frame)) => {
                    self.next += frame.len() as u64;
                    self.delivered_end = self.delivered_end.max(self.next);
                    self.delivered = true;
                    return Poll::Ready(Ok(Some(frame)));
                }
                Ok(None) if self.is_at_end() => {
                    self.close();
                    return Poll::Ready(Ok(None));
                }
                Ok(None) => self.ended(),
                Err(error) if self.may_be_beyond_the_end(&error) => self.find_end(),
                Err(error) => {
                    if self.is_unsound() {
                        self.check.spoil();
                    }
                    self.close();
                    self.flow = Flow::of_read(&self.options.retry);
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    /// Waits until the body has ended: the last byte counts only then.
    fn poll_sound(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.source {
            Source::Asked(request) => request.stream.poll_sound(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn is_unsound(&self) -> bool {
        matches!(&self.source, Source::Asked(request) if request.stream.is_unsound())
    }

    /// Handles a read from beyond an unknown end: takes the length from the error response, or
    /// requests the blob's facts.
    fn find_end(&mut self) {
        let found = match &self.source {
            Source::Asked(request) => request.stream.len_bytes(),
            _ => None,
        };
        self.len_bytes = self.len_bytes.or(found);
        match found {
            Some(_) => self.close(),
            None => self.size(),
        }
    }

    /// Ready once the first response has arrived.
    pub(super) fn poll_known(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while self.info.is_none() {
            if self.is_at_end() && matches!(self.source, Source::Closed) {
                self.size();
            }
            match ready!(self.poll_open(cx)) {
                Err(error) if self.may_be_beyond_the_end(&error) => self.size(),
                outcome => outcome?,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Ready with the blob's length, from the request in flight or from a separate one.
    pub(super) fn poll_len(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64>> {
        loop {
            if let Some(len) = self.len_bytes {
                return Poll::Ready(Ok(len));
            }
            match self.source {
                // The response gives neither length nor version, so a second request could not be
                // matched to it.
                _ if self.is_underway() && self.pinned.is_none() => {
                    return Poll::Ready(Err(self.no_length()));
                }
                Source::Closed => self.size(),
                _ if self.is_underway() => self.size(),
                _ => {}
            }
            match ready!(self.poll_open(cx)) {
                Err(error) if self.may_be_beyond_the_end(&error) => self.size(),
                outcome => outcome?,
            }
        }
    }

    /// The end of the read, in stored bytes.
    pub(super) fn stored_limit(&self) -> u64 {
        match self.mode {
            Mode::Raw => self.limit,
            // The number of stored bytes for a given number of decoded bytes is unknown.
            Mode::Undecided | Mode::Gzip(_) => u64::MAX,
        }
    }

    pub(super) fn is_at_end(&self) -> bool {
        let end = self.stored_limit().min(self.len_bytes.unwrap_or(u64::MAX));
        match self.suffix {
            Some(count) => count == 0,
            // An empty read is at its end in any mode.
            None => self.next >= end || self.limit == 0,
        }
    }

    /// Ends the request in flight.
    pub(super) fn close(&mut self) {
        self.source = Source::Closed;
    }

    /// Requests the blob's facts alone.
    pub(super) fn size(&mut self) {
        self.source = Source::Sizing(Box::pin(self.lookup().size()));
    }

    /// Facts from a separate request must belong to the blob that is being read.
    fn agrees(&self, info: &BlobInfo) -> Result<()> {
        let message = match (self.len_bytes, info.len_bytes) {
            (Some(was), Some(is)) if was != is => {
                format!("its length was {was} bytes and is {is} now")
            }
            (_, Some(is)) if is < self.delivered_end => {
                format!("its length is {is}, but {} were delivered", self.delivered_end)
            }
            _ => return Ok(()),
        };
        // One version cannot have two lengths, nor one that is shorter than the delivered bytes.
        let same = self.pinned.is_some() && self.pinned == info.version;
        let kind = if same { ErrorKind::Integrity } else { ErrorKind::Changed };
        Err(self.error(kind, message))
    }

    /// Turns an error of the request for facts into the channel's error. A blob that is missing
    /// after a response named its version has changed. `OutOfRange` means that the remote refuses
    /// all ranges; the request is not repeated.
    fn gone(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::OutOfRange => {
                let message = "the remote refuses every range, and does not tell the length";
                self.error(ErrorKind::Integrity, message).caused_by(error)
            }
            ErrorKind::NotFound if self.pinned.is_some() => error.into_kind(ErrorKind::Changed),
            _ => error,
        }
    }

    fn no_length(&self) -> Error {
        self.error(ErrorKind::Unsupported, "the remote does not tell the blob's length")
    }

    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let outcome = ready!(self.poll_aligned(cx));
        if outcome.is_err() {
            self.close();
        }
        Poll::Ready(outcome)
    }

    /// Ready with an open response whose next byte is the one at `next`, or once there is nothing
    /// to request.
    fn poll_aligned(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            let at_end = self.is_at_end();
            match &mut self.source {
                Source::Closed if at_end => return Poll::Ready(Ok(())),
                Source::Closed => self.ask()?,
                Source::Looking(looking) => {
                    let (stream, facts) = ready!(looking.as_mut().poll(cx));
                    let Facts { info, unverified, parts } = facts?;
                    self.looked_up = true;
                    self.check.learn(&info.checksums, unverified);
                    self.check.learn_parts(parts);
                    let request = Request { stream, end: u64::MAX, answered: None, begun: false };
                    self.source = Source::Asked(Box::new(request));
                }
                Source::Sizing(sizing) => {
                    let info =
                        ready!(sizing.as_mut().poll(cx)).map_err(|error| self.gone(error))?;
                    self.close();
                    self.agrees(&info)?;
                    self.adopt(info);
                    let Some(len) = self.len_bytes else {
                        return Poll::Ready(Err(self.no_length()));
                    };
                    if let Some(count) = self.suffix.take() {
                        self.next = len.saturating_sub(count);
                    }
                    return Poll::Ready(Ok(()));
                }
                Source::Asked(request) if !request.begun => {
                    ready!(request.stream.poll_begun(cx))?;
                    self.begin();
                }
                Source::Asked(request) => {
                    let at = request.stream.position();
                    if at == self.next {
                        return Poll::Ready(Ok(()));
                    }
                    let gap = self.next.checked_sub(at);
                    let near = gap.is_some_and(|gap| gap <= self.options.drain_bytes_max);
                    let reached = self.next < request.end;
                    if near && reached {
                        request.stream.skip_to(self.next);
                    } else {
                        self.close();
                    }
                }
            }
        }
    }

    /// Processes the first response of a request.
    fn begin(&mut self) {
        let Source::Asked(request) = &mut self.source else { return };
        request.begun = true;
        request.answered = request.stream.end();
        if self.suffix.take().is_some() {
            self.next = request.stream.position();
        }
        if let Some(info) = request.stream.facts().cloned() {
            self.coding = self.coding.take().or_else(|| Known::of(&info).coding);
            self.adopt(info);
        }
        self.bound();
    }

    fn adopt(&mut self, info: BlobInfo) {
        self.len_bytes = self.len_bytes.or(info.len_bytes);
        self.pinned = self.pinned.take().or_else(|| info.version.clone());
        self.check.learn(&info.checksums, None);
        self.info.get_or_insert(info);
    }

    /// Ends the stream at the end of reading, if that lies before the end of the requested range.
    pub(super) fn bound(&mut self) {
        let limit = self.stored_limit();
        let len = self.len_bytes;
        if let Source::Asked(request) = &mut self.source
            && request.begun
        {
            let end = limit.min(request.end).min(request.answered.or(len).unwrap_or(u64::MAX));
            request.stream.set_end((end < u64::MAX).then_some(end));
        }
    }

    /// Whether a request is in flight and its first response has arrived.
    pub(super) fn is_underway(&self) -> bool {
        matches!(&self.source, Source::Asked(request) if request.begun)
    }

    /// The stream has ended, at the end of the blob or of the requested range.
    fn ended(&mut self) {
        let Source::Asked(request) = &self.source else { return };
        let asked = request.end.min(self.stored_limit());
        let end = request.stream.end().unwrap_or(self.next);
        if end < asked && self.len_bytes.is_none() {
            self.len_bytes = Some(end);
        }
        self.close();
    }

    /// A seek may go beyond an unknown end without an error; a range may not.
    fn may_be_beyond_the_end(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::OutOfRange && self.sought && self.len_bytes.is_none()
    }

    fn ask(&mut self) -> Result<()> {
        if self.delivered && self.pinned.is_none() {
            let message = "the server names no version of the blob, so that bytes of two requests \
                           cannot be known to be of one";
            return Err(self.error(ErrorKind::Unsupported, message));
        }
        let end = self.stored_limit();
        let range = match (self.suffix, self.next, end) {
            (Some(count), ..) => ByteRange::Last(count),
            (None, 0, u64::MAX) => ByteRange::All,
            (None, start, u64::MAX) => ByteRange::From(start),
            (None, start, end) => ByteRange::Bounded(start..end),
        };
        let whole = range == ByteRange::All;
        let end = if self.suffix.is_some() { u64::MAX } else { end };
        let options = RangeOptions {
            range: Some(range),
            known: Known {
                version: self.pinned.clone(),
                len_bytes: self.len_bytes,
                coding: self.coding.clone(),
                checksums: self
                    .info
                    .as_ref()
                    .map(|info| info.checksums.clone())
                    .unwrap_or_default(),
                delivered_end: self.delivered_end,
            },
            retry: self.policy(),
            hedge: self.options.hedge_ms.map(Duration::from_millis),
            flow: Some(Arc::clone(&self.flow)),
            ..RangeOptions::default()
        };
        let (budget, stats) = (self.options.budget.clone(), Arc::clone(&self.options.stats));
        let stream = RangeStream::new(Arc::clone(&self.location), options, budget, stats);
        let lacks_checksums = !self.looked_up
            && *self.check.verify() == Verify::Stored
            && !self.location.remote.open_gives_checksums();
        self.source = if whole && lacks_checksums {
            Source::Looking(self.lookup().beside(stream))
        } else {
            Source::Asked(Box::new(Request { stream, end, answered: None, begun: false }))
        };
        Ok(())
    }

    fn lookup(&mut self) -> Lookup {
        Lookup {
            location: Arc::clone(&self.location),
            version: self.pinned.clone(),
            retry: self.policy(),
            budget: self.options.budget.clone(),
            stats: Arc::clone(&self.options.stats),
            wants: PartsWanted { composites: true, entity_tags: false },
        }
    }

    /// The caller's policy, with the rest of its deadline.
    fn policy(&mut self) -> RetryPolicy {
        let since = self.epoch.get_or_insert_with(Instant::now).elapsed();
        let mut policy = self.options.retry.clone();
        policy.deadline_ms = policy.deadline_ms.map(|deadline| {
            deadline.saturating_sub(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
        });
        policy
    }
}
