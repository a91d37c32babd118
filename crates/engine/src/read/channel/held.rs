//! Bytes that have arrived and were not taken yet: the rest of a piece that the caller took in
//! part, the piece after it, and an error that follows these bytes.

use bytes::{Buf, Bytes};

use crate::error::Error;

#[derive(Debug, Default)]
pub(super) struct Held {
    /// The piece as it arrived; the bytes before `at` have been delivered.
    piece: Bytes,
    /// Position of the piece's first byte.
    start: u64,
    at: usize,
    /// Delivered bytes before this index have gone through the checksum.
    summed: usize,
    /// The piece after it.
    ahead: Option<Bytes>,
    pub(super) error: Option<Error>,
}

impl Held {
    /// Number of bytes that wait.
    pub(super) fn len_bytes(&self) -> u64 {
        self.rest().len() as u64 + self.ahead.as_ref().map_or(0, Bytes::len) as u64
    }

    /// The bytes of the piece that wait.
    pub(super) fn rest(&self) -> &[u8] {
        self.piece.get(self.at..).unwrap_or_default()
    }

    /// Offset of the first byte that waits.
    fn position(&self) -> u64 {
        self.start + self.at as u64
    }

    /// Replaces the piece, which has been taken, by another.
    pub(super) fn hold(&mut self, start: u64, piece: Bytes) {
        (self.piece, self.start, self.at, self.summed) = (piece, start, 0, 0);
    }

    /// Keeps the piece that follows the held one.
    pub(super) fn keep_ahead(&mut self, piece: Bytes) {
        self.ahead = Some(piece);
    }

    /// Takes the piece that follows the held one.
    pub(super) fn take_ahead(&mut self) -> Option<Bytes> {
        self.ahead.take()
    }

    /// Counts bytes of the piece as delivered.
    pub(super) fn consume(&mut self, count: usize) {
        self.at = self.at.saturating_add(count).min(self.piece.len());
    }

    /// The delivered bytes that have not gone through the checksum, with their offset. From then on
    /// they count as summed.
    pub(super) fn unsummed(&mut self) -> Option<(u64, Bytes)> {
        let from = std::mem::replace(&mut self.summed, self.at);
        (from < self.at).then(|| (self.start + from as u64, self.piece.slice(from..self.at)))
    }

    /// Number of bytes that have been delivered and have not gone through the checksum.
    pub(super) fn unsummed_bytes(&self) -> u64 {
        (self.at - self.summed.min(self.at)) as u64
    }

    /// Releases a piece that has been taken, so that the transport can reuse its memory.
    pub(super) fn release(&mut self) {
        if self.rest().is_empty() {
            self.hold(self.position(), Bytes::new());
        }
    }

    /// Takes up to `count_max` waiting bytes of the piece, without a copy.
    pub(super) fn take(&mut self, count_max: u64) -> Bytes {
        let mut bytes = self.piece.slice(self.at..);
        bytes.truncate(usize::try_from(count_max).unwrap_or(usize::MAX));
        self.consume(bytes.len());
        bytes
    }

    /// Moves to `position` if its byte is held; false otherwise. The delivered bytes must have gone
    /// through the checksum before.
    pub(super) fn move_to(&mut self, position: u64) -> bool {
        let end = self.start + self.piece.len() as u64;
        let ahead = self.ahead.as_ref().map_or(0, Bytes::len) as u64;
        if self.piece.is_empty() || position < self.start || position > end + ahead {
            return false;
        }
        if position > end {
            let mut piece = self.ahead.take().unwrap_or_default();
            piece.advance(usize::try_from(position - end).unwrap_or(0).min(piece.len()));
            self.hold(position, piece);
        } else {
            self.at = usize::try_from(position - self.start).unwrap_or(self.piece.len());
            self.summed = self.at;
        }
        debug_assert_eq!(self.position(), position);
        true
    }

    /// Releases everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
