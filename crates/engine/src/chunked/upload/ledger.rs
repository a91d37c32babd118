//! [`Ledger`]: the chunks of the blob that have been cut so far, and the fate of each.
//!
//! Pure. It takes about 200 bytes of memory for each distinct chunk. They are not charged to the
//! budget: a manifest must be complete before it can be registered, and a holder of budget bytes
//! must not wait for more of them. `choice` limits the number of chunks.

use std::collections::HashMap;

use tidegate_core::digest::Digest;

/// What became of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkStatus {
    /// Not known yet.
    Open,
    /// The store says that it has it.
    Present,
    /// This upload has put it, now or before the store lost it.
    Sent,
    /// Another upload of this process has put it.
    Shared,
}

/// A chunk that may have to be sent, and its place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UploadChunk {
    /// Its number among the distinct chunks.
    pub(super) id: usize,
    pub(super) offset: u64,
    pub(super) digest: Digest,
}

#[derive(Debug)]
struct Entry {
    piece: UploadChunk,
    fate: ChunkStatus,
    was_sent: bool,
    was_settled: bool,
}

/// The chunks of one blob.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The blob's chunks in order, by number.
    order: Vec<usize>,
    distinct: Vec<Entry>,
    index: HashMap<Digest, usize>,
    open: usize,
    len_bytes: u64,
}

impl Ledger {
    /// Appends the next chunk of the blob. Returns its number if no earlier chunk was equal.
    pub(super) fn append(&mut self, digest: Digest) -> Option<usize> {
        let offset = self.len_bytes;
        self.len_bytes = self.len_bytes.saturating_add(digest.len);
        let next = self.distinct.len();
        let id = *self.index.entry(digest).or_insert(next);
        self.order.push(id);
        if id != next {
            return None;
        }
        let piece = UploadChunk { id, offset, digest };
        self.distinct.push(Entry {
            piece,
            fate: ChunkStatus::Open,
            was_sent: false,
            was_settled: false,
        });
        self.open += 1;
        Some(id)
    }

    /// Sets the fate of a chunk. `Open` is allowed again: the store may have lost the chunk.
    /// Returns whether the chunk is settled for the first time.
    pub(super) fn settle(&mut self, id: usize, fate: ChunkStatus) -> bool {
        let Some(entry) = self.distinct.get_mut(id) else { return false };
        self.open += usize::from(fate == ChunkStatus::Open);
        self.open -= usize::from(entry.fate == ChunkStatus::Open);
        entry.was_sent |= fate == ChunkStatus::Sent;
        entry.fate =
            if entry.was_sent && fate != ChunkStatus::Open { ChunkStatus::Sent } else { fate };
        fate != ChunkStatus::Open && !std::mem::replace(&mut entry.was_settled, true)
    }

    /// A distinct chunk by its number.
    pub(super) fn piece(&self, id: usize) -> Option<UploadChunk> {
        self.distinct.get(id).map(|entry| entry.piece)
    }

    /// Numbers of the distinct chunks whose fate passes `test`.
    pub(super) fn ids(&self, test: impl Fn(ChunkStatus) -> bool) -> Vec<usize> {
        let those = self.distinct.iter().filter(|entry| test(entry.fate));
        those.map(|entry| entry.piece.id).collect()
    }

    /// Distinct chunks whose fate passes `test`, and their bytes.
    pub(super) fn count(&self, test: impl Fn(ChunkStatus) -> bool) -> (u64, u64) {
        let those = self.distinct.iter().filter(|entry| test(entry.fate));
        those.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.piece.digest.len))
    }

    /// The number of distinct chunks whose fate is not known.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Chunks in the blob, and their bytes.
    pub(super) fn cut(&self) -> (u64, u64) {
        (self.order.len() as u64, self.len_bytes)
    }

    /// The blob's chunks in order.
    pub(super) fn chunks(&self) -> Vec<Digest> {
        let all = self.order.iter();
        all.filter_map(|id| self.distinct.get(*id).map(|entry| entry.piece.digest)).collect()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::digest::DigestFunction;

    use super::*;

    fn chunk(text: &str) -> Digest {
        Digest::of(DigestFunction::Sha256, text.as_bytes())
    }

    #[test]
    fn a_chunk_is_new_once_and_lies_where_it_came_first() {
        let mut ledger = Ledger::default();
        let ids = ["ab", "c", "ab", "d"].map(|text| ledger.append(chunk(text)));
        assert_eq!(ids, [Some(0), Some(1), None, Some(2)]);
        assert_eq!(ledger.chunks(), ["ab", "c", "ab", "d"].map(chunk));
        assert_eq!(ledger.piece(2).map(|piece| piece.offset), Some(5));
        assert_eq!((ledger.cut(), ledger.open()), ((4, 6), 3));
    }

    #[test]
    fn fates_are_counted_and_may_be_taken_back() {
        let mut ledger = Ledger::default();
        for text in ["ab", "c"] {
            ledger.append(chunk(text));
        }
        assert!(ledger.settle(0, ChunkStatus::Sent));
        assert!(ledger.settle(1, ChunkStatus::Present));
        assert_eq!((ledger.open(), ledger.count(|fate| fate == ChunkStatus::Sent)), (0, (1, 2)));
        ledger.settle(0, ChunkStatus::Open);
        ledger.settle(0, ChunkStatus::Open);
        assert_eq!((ledger.open(), ledger.ids(|fate| fate == ChunkStatus::Open)), (1, vec![0]));
        ledger.settle(7, ChunkStatus::Sent);
        assert_eq!(ledger.open(), 1);
        // A chunk that was sent once stays `Sent`, even if another upload sends it the next time.
        assert!(!ledger.settle(0, ChunkStatus::Present));
        assert_eq!(ledger.ids(|fate| fate == ChunkStatus::Sent), [0]);
    }
}
