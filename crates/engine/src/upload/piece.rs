//! The payload of a range: read once for its checksum, once to be sent, and compared.
//!
//! A checksum goes before the bytes, so the range of a file is read twice. The second reading
//! computes the CRC again. The last piece is released only if both agree, and if the file is what it
//! was. Otherwise the request ends before its last byte, and the remote stores nothing.
//!
//! Invariant: of a range at most [`HELD_PIECES`] pieces are in memory at once: one that is being
//! read, one that is held back, and those that the connection has taken and not yet written.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use tidegate_core::checksum::{ChecksumAlgorithm, Crc};

use super::file::UploadFile;
use super::sums::{PartSummer, PartSums};
use crate::error::{Operation, Result};
use crate::offload::offload;
use crate::remote::{Body, Payload};
use crate::store::SendProgress;

/// One read. Larger ones were not faster on loopback, and each request in flight holds some.
const PIECE_BYTES: usize = 256 << 10;

/// See the module docs.
const HELD_PIECES: u64 = 4;

/// Bytes that a request with `len` bytes of a file holds.
pub(super) fn held_bytes(len: u64) -> u64 {
    len.min(HELD_PIECES * PIECE_BYTES as u64)
}

/// The checksums of a range of a file.
pub(super) async fn sums_of_file(
    file: &Arc<UploadFile>,
    range: Range<u64>,
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<PartSums> {
    let file = Arc::clone(file);
    let name = Arc::clone(file.name());
    offload(Operation::Upload, &name, move || {
        let mut summer = PartSummer::new(algorithm);
        let mut buffer = vec![0; piece_len(&range)];
        let mut at = range.start;
        while at < range.end {
            let piece = &mut buffer[..piece_len(&(at..range.end))];
            file.read_exact(piece, at)?;
            summer.update(piece);
            at += piece.len() as u64;
        }
        Ok(summer.finish())
    })
    .await
}

/// The checksums of bytes in memory.
pub(super) async fn sums_of_bytes(
    bytes: Bytes,
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<PartSums> {
    offload(Operation::Upload, "bytes in memory", move || {
        let mut summer = PartSummer::new(algorithm);
        summer.update(&bytes);
        Ok(summer.finish())
    })
    .await
}

fn piece_len(range: &Range<u64>) -> usize {
    let left = range.end.saturating_sub(range.start);
    usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES)
}

/// The state of a payload between two pieces.
struct Reading {
    file: Arc<UploadFile>,
    left: Range<u64>,
    crc: Crc,
    expected: Crc,
    sending: SendProgress,
}

/// The bytes of a range of a file.
pub(super) fn of_file(
    file: &Arc<UploadFile>,
    range: Range<u64>,
    sums: &PartSums,
    sending: &SendProgress,
) -> Payload {
    let (file, sending, expected) = (Arc::clone(file), sending.clone(), sums.crc);
    let len = range.end - range.start;
    Payload::reopened(len, move || -> Body {
        let reading = Reading {
            file: Arc::clone(&file),
            left: range.clone(),
            crc: Crc::empty(expected.algorithm()),
            expected,
            sending: sending.clone(),
        };
        Box::pin(stream::try_unfold(reading, Reading::next))
    })
}

impl Reading {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let name = Arc::clone(self.file.name());
        let (piece, this) = offload(Operation::Upload, &name, move || {
            let mut piece = BytesMut::zeroed(piece_len(&self.left));
            self.file.read_exact(&mut piece, self.left.start)?;
            self.crc.update(&piece);
            self.left.start += piece.len() as u64;
            if self.left.is_empty() {
                // Without the last piece the remote stores nothing.
                if self.crc != self.expected {
                    return Err(self.file.changed("its bytes differ from those read before"));
                }
                self.file.unchanged()?;
            }
            Ok((piece.freeze(), self))
        })
        .await?;
        this.sending.passed(piece.len() as u64);
        Ok(Some((piece, this)))
    }
}

/// Bytes in memory, in pieces, so that progress shows.
pub(super) fn of_bytes(bytes: Bytes, sending: &SendProgress) -> Payload {
    let sending = sending.clone();
    let len = bytes.len() as u64;
    Payload::reopened(len, move || -> Body {
        let state = (bytes.clone(), sending.clone());
        Box::pin(stream::unfold(state, |(mut rest, sending)| async move {
            if rest.is_empty() {
                return None;
            }
            let piece = rest.split_to(rest.len().min(PIECE_BYTES));
            sending.passed(piece.len() as u64);
            Some((Ok(piece), (rest, sending)))
        }))
    })
}

/// Frames in memory, which the caller has charged to the budget.
pub(super) fn of_frames(frames: &Arc<[Bytes]>, sending: &SendProgress) -> Payload {
    let (frames, sending) = (Arc::clone(frames), sending.clone());
    let len = frames.iter().map(|frame| frame.len() as u64).sum();
    Payload::reopened(len, move || -> Body {
        let (frames, sending) = (Arc::clone(&frames), sending.clone());
        Box::pin(stream::iter((0..frames.len()).filter_map(move |index| {
            let frame = frames.get(index)?.clone();
            sending.passed(frame.len() as u64);
            Some(Ok(frame))
        })))
    })
}
