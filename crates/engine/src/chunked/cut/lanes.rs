//! [`Lanes`]: the chunks that one thread hashes side by side.
//!
//! Each lane has a slot of the thread's buffer. A slot is filled again when its bytes are hashed.
//! When one chunk ends, the next chunk takes its lane. So a core always hashes the number of
//! messages at which it is fastest (see [`tidegate_core::sha256`]), regardless of the chunk
//! lengths.

use std::collections::VecDeque;
use std::ops::Range;

use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::sha256::{self, Sha256};

use super::board::Piece;
use super::ended::CutEnded;
use super::stream::CutChunk;
use crate::error::Result;

/// One read fills at most this many bytes of a slot. A system call costs little compared with them.
/// All slots together (16 × 32 KiB = 512 KiB) fit the core's own cache.
const SLOT_BYTES: usize = 32 << 10;

/// A lane with a smaller slot gains nothing.
const SLOT_BYTES_MIN: usize = 4 << 10;

/// All reads except the last of a chunk are hashed in whole blocks of SHA-256.
const BLOCK_BYTES: usize = 64;

/// The size of all slots together.
pub(super) const SLOTS_BYTES: usize = sha256::LANES * SLOT_BYTES;

/// The chunks that a thread is hashing.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    busy: Vec<Lane>,
    /// Chunks that have no lane yet.
    waiting: VecDeque<Piece>,
    ended: CutEnded,
}

/// One of the chunks that are hashed side by side.
#[derive(Debug)]
struct Lane {
    piece: Piece,
    hasher: Sha256,
    slot: usize,
    /// The part of the slot that was read and is not yet hashed.
    filled: Range<usize>,
    /// The file position of the next read.
    at: u64,
}

impl Lanes {
    pub(super) fn is_empty(&self) -> bool {
        self.busy.is_empty() && self.waiting.is_empty()
    }

    /// How many more chunks it can take.
    pub(super) fn free(&self) -> usize {
        sha256::LANES.saturating_sub(self.busy.len() + self.waiting.len())
    }

    pub(super) fn take(&mut self, pieces: Vec<Piece>) {
        self.waiting.extend(pieces);
    }

    /// Hashes one step. All lanes advance by the same length, that of the lane with the fewest
    /// bytes in its slot. Returns the chunks that are due to be reported, with their indices.
    pub(super) fn advance(
        &mut self,
        slots: &mut [u8],
        mut read: impl FnMut(&mut [u8], u64) -> Result<()>,
    ) -> Result<Vec<(u64, CutChunk)>> {
        let count = count(slots.len());
        let mut slots: Vec<&mut [u8]> = slots.chunks_mut(slots.len() / count).collect();
        self.begin(count);
        // Each empty slot gets as many bytes as the other slots hold, so that all slots become
        // empty together.
        let at_hand = self.busy.iter().map(|lane| lane.filled.len()).filter(|len| *len > 0).min();
        let at_hand = at_hand.map(|len| len - len % BLOCK_BYTES);
        for lane in self.busy.iter_mut().filter(|lane| lane.filled.is_empty()) {
            let Some(slot) = slots.get_mut(lane.slot) else { continue };
            let whole_blocks = slot.len() - slot.len() % BLOCK_BYTES;
            let rest = usize::try_from(lane.piece.range.end - lane.at).unwrap_or(usize::MAX);
            let len = rest.min(at_hand.unwrap_or(whole_blocks));
            read(&mut slot[..len], lane.at)?;
            lane.at += len as u64;
            lane.filled = 0..len;
            if len < BLOCK_BYTES {
                // The end of a chunk, shorter than a block. It would limit the step of all other
                // lanes to zero blocks.
                lane.hasher.update(&slot[..len]);
                lane.filled = 0..0;
            }
        }
        self.note_ended();
        let step = self.busy.iter().map(|lane| lane.filled.len() / BLOCK_BYTES).min();
        let step = step.unwrap_or(0) * BLOCK_BYTES;
        let mut messages = Vec::with_capacity(self.busy.len());
        for lane in &mut self.busy {
            let start = lane.filled.start;
            lane.filled.start += step;
            let bytes = slots.get(lane.slot).map(|slot| &slot[start..start + step]);
            messages.push((&mut lane.hasher, bytes.unwrap_or_default()));
        }
        sha256::update_all(&mut messages);
        for lane in self.busy.iter_mut().filter(|lane| lane.filled.len() < BLOCK_BYTES) {
            let bytes = slots.get(lane.slot).map(|slot| &slot[lane.filled.clone()]);
            lane.hasher.update(bytes.unwrap_or_default());
            lane.filled = 0..0;
        }
        self.note_ended();
        Ok(self.ended.take(!self.is_empty()))
    }

    /// Gives a lane to waiting chunks, if one of `count` lanes is free.
    fn begin(&mut self, count: usize) {
        for slot in 0..count {
            if self.busy.iter().any(|lane| lane.slot == slot) {
                continue;
            }
            let Some(piece) = self.waiting.pop_front() else { return };
            let at = piece.range.start;
            self.busy.push(Lane { piece, hasher: Sha256::new(), slot, filled: 0..0, at });
        }
    }

    fn note_ended(&mut self) {
        let has_ended = |lane: &mut Lane| lane.filled.is_empty() && lane.at == lane.piece.range.end;
        for lane in self.busy.extract_if(.., has_ended) {
            let (index, chunk) = lane.finish();
            self.ended.push(index, chunk);
        }
    }
}

/// The number of lanes for which this many bytes suffice.
fn count(slots_bytes: usize) -> usize {
    (slots_bytes / SLOT_BYTES_MIN).clamp(1, sha256::LANES)
}

impl Lane {
    fn finish(self) -> (u64, CutChunk) {
        let Piece { index, range } = self.piece;
        let hash = self.hasher.finish();
        let digest =
            Digest { function: DigestFunction::Sha256, hash, len: range.end - range.start };
        (index, CutChunk { offset: range.start, digest })
    }
}
