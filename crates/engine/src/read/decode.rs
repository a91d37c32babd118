//! gzip decoder: turns stored frames into pieces of content of bounded size.
//!
//! A blob may have several members in sequence (RFC 1952, section 2.2), and zero bytes after the
//! last one, as tapes and block devices leave them. The decoder checks each member's own CRC and
//! length. A small frame can expand to a large content, so the decoder makes one piece at a time.

use bytes::{Buf, Bytes, BytesMut};
use flate2::{Decompress, FlushDecompress, Status};

use crate::error::{Error, ErrorKind, Operation, Result};

/// The size of one piece of content: large enough that the cost of calls is small, and a small part
/// of a channel's memory.
const PIECE_BYTES: usize = 64 << 10;

/// The largest window that deflate allows, as a power of two.
const WINDOW_BITS: u8 = 15;

/// The decoder of one blob.
pub(super) struct Decoder {
    member: Option<Decompress>,
    input: Bytes,
    /// Number of stored bytes taken in.
    taken: u64,
    /// Number of complete members.
    members: u64,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder")
            .field("taken", &self.taken)
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self { member: None, input: Bytes::new(), taken: 0, members: 0 }
    }

    /// Adds the next stored bytes. Call it only once [`Self::piece`] returns `None`.
    pub(super) fn feed(&mut self, frame: Bytes) {
        self.input = frame;
    }

    /// The next piece of content; `None` if more stored bytes are needed.
    pub(super) fn piece(&mut self, target: &str) -> Result<Option<Bytes>> {
        let mut piece = BytesMut::new();
        while !self.input.is_empty() || self.member.is_some() {
            if self.member.is_none() && !self.next_member() {
                continue;
            }
            if piece.is_empty() {
                piece.resize(PIECE_BYTES, 0);
            }
            let left = self.input.len();
            let (given, ended) = self.inflate(&mut piece).map_err(|error| {
                let message = match (self.taken, self.members) {
                    (0..=10, 0) => {
                        "its Content-Encoding says gzip, but it is not: it may have \
                                    been stored so, or decoded on the way"
                    }
                    _ => "the gzip data is damaged",
                };
                Error::new(ErrorKind::Integrity, Operation::Read, target, message).caused_by(error)
            })?;
            if ended {
                self.member = None;
                self.members += 1;
            }
            if given > 0 {
                piece.truncate(given);
                return Ok(Some(piece.freeze()));
            }
            if !ended && self.input.len() == left {
                break;
            }
        }
        Ok(None)
    }

    /// Begins a member; `false` if only zeros are left.
    fn next_member(&mut self) -> bool {
        if self.members > 0 {
            let zeros = self.input.iter().take_while(|byte| **byte == 0).count();
            self.input.advance(zeros);
        }
        let begun = !self.input.is_empty();
        if begun {
            self.member = Some(Decompress::new_gzip(WINDOW_BITS));
        }
        begun
    }

    /// Fills `piece` as far as possible. Returns the number of bytes, and whether the member has
    /// ended.
    fn inflate(
        &mut self,
        piece: &mut [u8],
    ) -> std::result::Result<(usize, bool), flate2::DecompressError> {
        let Some(member) = &mut self.member else { return Ok((0, true)) };
        let (taken, given) = (member.total_in(), member.total_out());
        let status = member.decompress(&self.input, piece, FlushDecompress::None)?;
        let taken = member.total_in() - taken;
        // Both are at most the lengths of the slices, which are usizes.
        self.input.advance(usize::try_from(taken).unwrap_or(self.input.len()));
        self.taken += taken;
        let given = usize::try_from(member.total_out() - given).unwrap_or(piece.len());
        Ok((given, status == Status::StreamEnd))
    }

    /// The stored bytes have ended: fails if the content has not.
    pub(super) fn finish(&self, target: &str) -> Result<()> {
        if self.member.is_none() && self.members > 0 {
            return Ok(());
        }
        let message = "the gzip data ends too early";
        Err(Error::new(ErrorKind::Integrity, Operation::Read, target, message))
    }
}
