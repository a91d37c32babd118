//! The position and the end of reading. Only one call waits: a seek from an end that is not known
//! waits for the blob's length.

use std::future::poll_fn;
use std::io::SeekFrom;
use std::task::{Context, Poll, ready};

use super::{Mode, ReadChannel};
use crate::error::{Error, ErrorKind, Result};

impl ReadChannel {
    /// Moves to another position, and returns it. Positions are offsets in the blob.
    /// [`SeekFrom::End`] counts from the end of reading: the blob's end or the
    /// [limit](Self::limit), whichever comes first.
    ///
    /// A seek costs nothing until the next read. That read continues the current response if the
    /// position lies ahead by no more than
    /// [`drain_bytes_max`](crate::ReadBuilder::drain_bytes_max), and sends a new request otherwise.
    /// Positions at and beyond the end are valid; a read there returns no bytes. Only a seek from
    /// the end of a blob of unknown length sends a request at once: for the sought bytes, or for
    /// the blob's facts.
    ///
    /// Cancel-safe: the next call finishes a seek that was not awaited to its end.
    ///
    /// # Errors
    ///
    /// - `Invalid` for a position before the start or beyond 2^64; the channel then keeps its
    ///   position.
    /// - `Unsupported` for any position but the current one of a decoded blob.
    /// - The errors of [`next`](Self::next) if the length must be requested.
    pub async fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.start_seek_to(to);
        poll_fn(|cx| self.poll_sought(cx)).await
    }

    /// Ends reading before offset `end` of the blob; `u64::MAX` reads to the blob's end. If `end`
    /// lies before the current position, reads return no bytes; if it lies beyond the blob, it
    /// changes nothing. A request in flight is ended there, and a later request asks for no more.
    /// With [`decode`](crate::ReadBuilder::decode) the offset is one of decoded bytes.
    pub fn limit(&mut self, end: u64) {
        self.limit = end;
        self.bound();
        let stored = self.stored_limit();
        if self.suffix.is_none() && self.next >= stored {
            self.close();
        }
    }

    pub(in crate::read) fn start_seek_to(&mut self, to: SeekFrom) {
        self.seeking = Some(to);
    }

    pub(in crate::read) fn is_seeking(&self) -> bool {
        self.seeking.is_some()
    }

    /// Finishes a seek, if there is one; ready with the position.
    pub(in crate::read) fn poll_sought(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64>> {
        let Some(to) = self.seeking else {
            return Poll::Ready(Ok(self.position().unwrap_or(0)));
        };
        let outcome = ready!(self.poll_seek(cx, to));
        self.seeking = None;
        Poll::Ready(outcome)
    }

    fn poll_seek(&mut self, cx: &mut Context<'_>, to: SeekFrom) -> Poll<Result<u64>> {
        if matches!(self.mode, Mode::Undecided) && !self.stays(to) {
            ready!(self.poll_known(cx))?;
            self.decide()?;
        }
        let (base, by) = match to {
            SeekFrom::Start(offset) => (offset, 0),
            SeekFrom::Current(by) => {
                if self.suffix.is_some() {
                    ready!(self.poll_known(cx))?;
                }
                (self.position().unwrap_or(0), by)
            }
            SeekFrom::End(by) => (ready!(self.poll_end(cx))?, by),
        };
        let Some(target) = base.checked_add_signed(by) else {
            return Poll::Ready(Err(self.nowhere(base, by)));
        };
        if Some(target) == self.position() {
            return Poll::Ready(Ok(target));
        }
        if matches!(self.mode, Mode::Gzip(_)) {
            let message = "a position in decoded content has no place among the stored bytes";
            let error = self.error(ErrorKind::Unsupported, message);
            return Poll::Ready(Err(error.with_hint("read it as it is stored, or from the start")));
        }
        self.move_to(target);
        Poll::Ready(Ok(target))
    }

    /// Whether the seek leaves the position as it is.
    fn stays(&self, to: SeekFrom) -> bool {
        match to {
            SeekFrom::Start(offset) => self.position() == Some(offset),
            SeekFrom::Current(by) => by == 0,
            SeekFrom::End(_) => false,
        }
    }

    /// The end of reading.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64>> {
        if matches!(self.mode, Mode::Gzip(_)) {
            let message = "the length of decoded content is not known";
            return Poll::Ready(Err(self.error(ErrorKind::Unsupported, message)));
        }
        self.poll_len(cx).map_ok(|len| len.min(self.limit))
    }

    fn nowhere(&self, base: u64, by: i64) -> Error {
        let message = format!("position {base} {by:+} is before the start or beyond 2^64");
        self.error(ErrorKind::Invalid, message)
    }

    fn move_to(&mut self, target: u64) {
        self.sum_up();
        let waiting = self.arrived() - self.held.len_bytes();
        if self.held.rest().is_empty()
            && let Some(piece) = self.held.take_ahead()
        {
            self.held.hold(waiting, piece);
        }
        self.sought = true;
        self.suffix = None;
        if self.held.move_to(target) {
            return;
        }
        self.held.clear();
        self.next = target;
        if !self.is_underway() {
            self.close();
        }
    }
}
