//! What has arrived and was not taken yet: the rest of a piece for callers that take less than all
//! of it, what was gathered too much, and an error that waits behind bytes.

use bytes::{Buf, Bytes};

use crate::error::Error;

#[derive(Debug, Default)]
pub(super) struct Held {
    /// The piece as it arrived; what lies before `at` has been delivered.
    piece: Bytes,
    /// Offset of the piece's first byte, as positions count.
    start: u64,
    at: usize,
    /// Up to here it has gone through the checksum, as far as it was delivered.
    summed: usize,
    /// The piece after it.
    ahead: Option<Bytes>,
    pub(super) error: Option<Error>,
}

impl Held {
    /// Bytes that wait.
    pub(super) fn len_bytes(&self) -> u64 {
        self.rest().len() as u64 + self.ahead.as_ref().map_or(0, Bytes::len) as u64
    }

    /// What waits of the piece.
    pub(super) fn rest(&self) -> &[u8] {
        self.piece.get(self.at..).unwrap_or_default()
    }

    /// Offset of the first byte that waits.
    fn position(&self) -> u64 {
        self.start + self.at as u64
    }

    /// Holds a piece in place of the one that has been taken.
    pub(super) fn hold(&mut self, start: u64, piece: Bytes) {
        (self.piece, self.start, self.at, self.summed) = (piece, start, 0, 0);
    }

    /// Keeps a piece behind the one that is held.
    pub(super) fn keep_ahead(&mut self, piece: Bytes) {
        self.ahead = Some(piece);
    }

    /// The piece behind the one that has been taken.
    pub(super) fn take_ahead(&mut self) -> Option<Bytes> {
        self.ahead.take()
    }

    /// Counts bytes of the piece as delivered.
    pub(super) fn consume(&mut self, count: usize) {
        self.at = self.at.saturating_add(count).min(self.piece.len());
    }

    /// What has been delivered and not gone through the checksum, with its offset. From here on
    /// it counts as gone through.
    pub(super) fn unsummed(&mut self) -> Option<(u64, Bytes)> {
        let from = std::mem::replace(&mut self.summed, self.at);
        (from < self.at).then(|| (self.start + from as u64, self.piece.slice(from..self.at)))
    }

    /// How many bytes have been delivered and not gone through the checksum.
    pub(super) fn unsummed_bytes(&self) -> u64 {
        (self.at - self.summed.min(self.at)) as u64
    }

    /// Lets go of a piece that has been taken: the transport can use its memory again.
    pub(super) fn release(&mut self) {
        if self.rest().is_empty() {
            self.hold(self.position(), Bytes::new());
        }
    }

    /// Takes up to `count_max` bytes of what waits of the piece, without a copy.
    pub(super) fn take(&mut self, count_max: u64) -> Bytes {
        let mut bytes = self.piece.slice(self.at..);
        bytes.truncate(usize::try_from(count_max).unwrap_or(usize::MAX));
        self.consume(bytes.len());
        bytes
    }

    /// Moves to `position` if it is among what is held; false where it is not. What was delivered
    /// must have gone through the checksum before.
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

    /// Lets go of everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
