//! Chooses the bytes that are delivered next: stored frames as they arrive, or decoded pieces. They
//! go through the checksum when they are delivered, and the checksum is compared at the end.

use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tidegate_core::range::ByteRange;

use super::ReadChannel;
use crate::error::{ErrorKind, Result};
use crate::read::decode::Decoder;

/// How stored bytes become delivered bytes.
#[derive(Debug)]
pub(super) enum Mode {
    /// Unchanged: positions are those of stored bytes.
    Raw,
    /// To be decoded if the first response names a coding.
    Undecided,
    /// Decoded.
    Gzip(Box<Decoded>),
}

#[derive(Debug)]
pub(super) struct Decoded {
    decoder: Decoder,
    /// Offset in the content behind the pieces decoded so far.
    pub(super) position: u64,
    ended: bool,
}

impl Mode {
    pub(super) fn of(decode: bool) -> Self {
        if decode { Self::Undecided } else { Self::Raw }
    }
}

impl ReadChannel {
    /// The next bytes for the caller: held bytes first, then new ones.
    pub(in crate::read) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>>> {
        let span = self.span();
        let _entered = span.enter();
        if !ready!(self.poll_held(cx, None))? {
            return Poll::Ready(Ok(None));
        }
        let room = self.room();
        let bytes = self.held.take(room);
        self.sum_up();
        Poll::Ready(Ok(Some(bytes)))
    }

    /// Ready with true once there are held bytes that may be delivered, or with false at the end.
    /// `want` is the number of bytes that the caller takes at a time: small frames are gathered up
    /// to it.
    pub(super) fn poll_held(
        &mut self,
        cx: &mut Context<'_>,
        want: Option<usize>,
    ) -> Poll<Result<bool>> {
        ready!(self.poll_sought(cx))?;
        if let ByteRange::Bounded(range) = &self.options.range
            && range.end < range.start
        {
            let message = format!("the range ends at {}, before its start", range.end);
            return Poll::Ready(Err(self.error(ErrorKind::Invalid, message)));
        }
        self.check.sound(self.location.display())?;
        while self.held.rest().is_empty() {
            let start = self.arrived() - self.held.len_bytes();
            if let Some(piece) = self.held.take_ahead() {
                self.held.hold(start, piece);
                continue;
            }
            if let Some(error) = self.held.error.take() {
                return Poll::Ready(Err(error));
            }
            let Some(piece) = ready!(self.poll_made(cx))? else {
                return Poll::Ready(Ok(false));
            };
            let start = self.arrived() - piece.len() as u64;
            let piece = match want {
                Some(want) => self.gather(cx, piece, want),
                None => piece,
            };
            self.held.hold(start, piece);
        }
        Poll::Ready(Ok(self.room() > 0))
    }

    /// Bytes that may be delivered before the limit.
    pub(super) fn room(&self) -> u64 {
        self.position().map_or(u64::MAX, |position| self.limit.saturating_sub(position))
    }

    /// Puts the delivered bytes through the checksum and releases them.
    pub(super) fn sum_up(&mut self) {
        if let Some((offset, bytes)) = self.held.unsummed()
            && matches!(self.mode, Mode::Raw)
        {
            self.check.update(offset, &bytes);
        }
        self.held.release();
    }

    /// The next frame or decoded piece. At the end of the blob the checksum is compared.
    fn poll_made(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>>> {
        loop {
            match &mut self.mode {
                Mode::Raw => {
                    let frame = ready!(self.poll_stored(cx))?;
                    if frame.is_none() {
                        self.compare()?;
                    }
                    return Poll::Ready(Ok(frame));
                }
                Mode::Undecided => {
                    if self.limit == 0 {
                        return Poll::Ready(Ok(None));
                    }
                    ready!(self.poll_known(cx))?;
                    self.decide()?;
                }
                Mode::Gzip(_) => return self.poll_decoded(cx),
            }
        }
    }

    /// Called at the end of the read: compares the checksum if this is the end of the blob.
    fn compare(&mut self) -> Result<()> {
        match self.len_bytes {
            Some(len) if self.next == len => self.check.finish(len, self.location.display()),
            _ => Ok(()),
        }
    }

    /// Chooses the mode once the first response has named the coding.
    pub(super) fn decide(&mut self) -> Result<()> {
        let encoding = self.info.as_ref().and_then(|info| info.content_encoding.clone());
        match encoding.as_deref() {
            None if self.passed > 0 => {
                let message = "it was encoded with gzip, and is not any more";
                let error = self.error(ErrorKind::Changed, message);
                self.close();
                return Err(error);
            }
            None => {
                self.mode = Mode::Raw;
                self.bound();
            }
            Some(name) if ["gzip", "x-gzip"].iter().any(|gzip| name.eq_ignore_ascii_case(gzip)) => {
                // If decoding begins anywhere but at the start, no decoding is possible.
                if self.suffix.is_some() || self.next > 0 && !self.delivered {
                    let message = "a range of a gzip-encoded blob cannot be decoded";
                    let error = self.error(ErrorKind::Unsupported, message);
                    self.close();
                    return Err(error.with_hint("read all of it, or read it as it is stored"));
                }
                let decoder = Decoder::new();
                self.mode = Mode::Gzip(Box::new(Decoded { decoder, position: 0, ended: false }));
            }
            Some(other) => {
                let message = format!("the encoding {other:?} cannot be decoded");
                let error = self.error(ErrorKind::Unsupported, message);
                self.close();
                return Err(error.with_hint("read it as it is stored"));
            }
        }
        Ok(())
    }

    fn poll_decoded(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>>> {
        loop {
            let Mode::Gzip(decoded) = &mut self.mode else { return Poll::Ready(Ok(None)) };
            if decoded.ended || decoded.position >= self.limit {
                return Poll::Ready(Ok(None));
            }
            if let Some(piece) = decoded.decoder.piece(self.location.display())? {
                let start = decoded.position;
                decoded.position += piece.len() as u64;
                // The content that another process has delivered is decoded again and skipped.
                let passed = self.passed.saturating_sub(start).min(piece.len() as u64);
                let rest = piece.slice(usize::try_from(passed).unwrap_or(piece.len())..);
                if !rest.is_empty() {
                    return Poll::Ready(Ok(Some(rest)));
                }
                continue;
            }
            if let Some(frame) = ready!(self.poll_stored(cx))? {
                self.check.update(self.next - frame.len() as u64, &frame);
                if let Mode::Gzip(decoded) = &mut self.mode {
                    decoded.decoder.feed(frame);
                }
                continue;
            }
            self.compare()?;
            let Mode::Gzip(decoded) = &mut self.mode else { continue };
            decoded.decoder.finish(self.location.display())?;
            decoded.ended = true;
        }
    }

    /// Joins small frames, as far as they have arrived.
    fn gather(&mut self, cx: &mut Context<'_>, first: Bytes, want: usize) -> Bytes {
        let most = self.options.buffer_bytes;
        let small = first.len() < most && want < most;
        if !small || !matches!(self.mode, Mode::Raw) || !self.has_buffer() {
            return first;
        }
        let mut gathered = BytesMut::new();
        loop {
            let next = match self.poll_made(cx) {
                Poll::Pending | Poll::Ready(Ok(None)) => break,
                Poll::Ready(Ok(Some(next))) => next,
                Poll::Ready(Err(error)) => {
                    self.held.error = Some(error);
                    break;
                }
            };
            let length = first.len().max(gathered.len());
            if length + next.len() > most {
                self.held.keep_ahead(next);
                break;
            }
            if gathered.is_empty() {
                gathered.reserve(most);
                gathered.extend_from_slice(&first);
            }
            gathered.extend_from_slice(&next);
        }
        if gathered.is_empty() { first } else { gathered.freeze() }
    }

    /// Takes the buffer's bytes from the budget. It never waits for them: this channel may hold a
    /// request already, and a holder of a request must not wait for bytes.
    fn has_buffer(&mut self) -> bool {
        if self.buffer.is_none() {
            self.buffer = self.options.budget.try_bytes(self.options.buffer_bytes as u64);
        }
        self.buffer.is_some()
    }
}
