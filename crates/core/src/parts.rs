//! [`CrcParts`]: combines the CRCs of finished pieces, in any order, into that of the whole blob.
//!
//! Neighbours are combined as soon as they meet. So it holds one entry per gap, not one per piece.
//!
//! Pieces are not combined across the ends of an upload's parts, if these are given. Then the CRC of
//! each part is known at the end, too, at one entry more per part.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::checksum::{Checksum, ChecksumError, Crc, CrcAlgorithm, PartLayout};

/// The CRCs of disjoint pieces of one blob.
#[derive(Clone, Debug)]
pub struct CrcParts {
    algorithm: CrcAlgorithm,
    /// The position of each run mapped to its CRC. Invariant: runs are not empty, do not overlap,
    /// and touch only where a part of `layout` ends.
    runs: BTreeMap<u64, Crc>,
    layout: Option<PartLayout>,
}

/// Why a piece was refused. The pieces added before are unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartsError {
    /// Some bytes of the piece have been counted already.
    #[error("piece {piece:?} overlaps {present:?}, which is present already")]
    Overlap {
        /// Positions of the piece.
        piece: Range<u64>,
        /// Positions of the run that it overlaps.
        present: Range<u64>,
    },
    /// The piece would end beyond 2^64.
    #[error("a piece of {len} bytes at {start} does not fit into 64 bits")]
    Overflow {
        /// Position of the piece.
        start: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// The piece lies in two parts of the upload.
    #[error("piece {piece:?} goes beyond the end of its part at {end}")]
    TwoParts {
        /// Positions of the piece.
        piece: Range<u64>,
        /// The end of the part in which it begins.
        end: u64,
    },
    /// The pieces cannot be combined.
    #[error("pieces cannot be combined")]
    Combine(#[from] ChecksumError),
}

impl CrcParts {
    /// An empty collection.
    pub const fn new(algorithm: CrcAlgorithm) -> Self {
        Self { algorithm, runs: BTreeMap::new(), layout: None }
    }

    /// An empty collection that keeps the CRCs of these parts apart. A piece must lie in one part.
    pub const fn with_layout(algorithm: CrcAlgorithm, layout: PartLayout) -> Self {
        Self { algorithm, runs: BTreeMap::new(), layout: Some(layout) }
    }

    /// The algorithm of all pieces.
    pub const fn algorithm(&self) -> CrcAlgorithm {
        self.algorithm
    }

    /// Adds the piece that begins at `start`. An empty piece adds nothing.
    pub fn insert(&mut self, start: u64, piece: Crc) -> Result<(), PartsError> {
        if piece.algorithm() != self.algorithm {
            let (first, next) = (self.algorithm, piece.algorithm());
            return Err(ChecksumError::AlgorithmMismatch { first, next }.into());
        }
        if piece.is_empty() {
            return Ok(());
        }
        let end = start
            .checked_add(piece.len())
            .ok_or(PartsError::Overflow { start, len: piece.len() })?;
        if let Some(layout) = &self.layout
            && !layout.holds(&(start..end))
        {
            return Err(PartsError::TwoParts { piece: start..end, end: layout.end_of_part(start) });
        }
        let is_end = |at| self.layout.as_ref().is_some_and(|layout| layout.is_end(at));
        let before = self.runs.range(..end).next_back().map(|(&at, &crc)| (at, crc));
        if let Some((at, crc)) = before
            && at + crc.len() > start
        {
            let present = at..at + crc.len();
            return Err(PartsError::Overlap { piece: start..end, present });
        }
        let mut run = (start, piece);
        if let Some((at, crc)) = before
            && at + crc.len() == start
            && !is_end(start)
        {
            run = (at, crc.combine(&piece)?);
        }
        let after = self.runs.get(&end).copied().filter(|_| !is_end(end));
        if let Some(crc) = after {
            run.1 = run.1.combine(&crc)?;
        }
        // No error can occur from here on.
        if after.is_some() {
            self.runs.remove(&end);
        }
        self.runs.insert(run.0, run.1);
        Ok(())
    }

    /// The CRC of the whole blob, if exactly its `len` bytes have been added.
    pub fn whole(&self, len: u64) -> Option<Crc> {
        if len == 0 {
            return self.runs.is_empty().then(|| Crc::empty(self.algorithm));
        }
        self.single_run().and_then(|(start, crc)| (start == 0 && crc.len() == len).then_some(crc))
    }

    /// The position and the CRC of all bytes added so far, if there is no gap between them. `None`
    /// without bytes.
    pub fn single_run(&self) -> Option<(u64, Crc)> {
        let mut runs = self.iter();
        let (start, mut whole) = runs.next()?;
        for (at, crc) in runs {
            if at != start + whole.len() {
                return None;
            }
            whole = whole.combine(&crc).ok()?;
        }
        Some((start, whole))
    }

    /// The composite checksum of the parts. `None` if a byte is missing, or if no parts were given.
    pub fn composite(&self) -> Option<Checksum> {
        let layout = self.layout.as_ref()?;
        let mut whole = Crc::empty(self.algorithm);
        for part in layout.parts() {
            let crc = match self.runs.get(&part.start) {
                Some(crc) => *crc,
                None => Crc::empty(self.algorithm),
            };
            if crc.len() != part.end - part.start {
                return None;
            }
            whole.update(crc.to_checksum().as_bytes());
        }
        Some(whole.to_checksum())
    }

    /// The runs added so far, by position, with neighbours combined within a part.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Crc)> + '_ {
        self.runs.iter().map(|(&start, &crc)| (start, crc))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CrcParts, PartsError};
    use crate::checksum::{ChecksumAlgorithm, CompositeChecksummer, Crc, CrcAlgorithm, PartLayout};

    fn crc(bytes: &[u8]) -> Crc {
        Crc::of(CrcAlgorithm::Crc32c, bytes)
    }

    #[test]
    fn an_overlap_is_refused_names_both_and_changes_nothing() {
        let mut parts = CrcParts::new(CrcAlgorithm::Crc32c);
        parts.insert(10, crc(b"abcde")).unwrap();
        for start in [6, 9, 10, 12, 14] {
            let error = parts.insert(start, crc(b"12345")).unwrap_err();
            assert_eq!(error, PartsError::Overlap { piece: start..start + 5, present: 10..15 });
        }
        parts.insert(5, crc(b"12345")).unwrap();
        assert_eq!(parts.iter().collect::<Vec<_>>(), [(5, crc(b"12345abcde"))]);
    }

    #[test]
    fn only_the_exact_whole_counts() {
        let mut parts = CrcParts::new(CrcAlgorithm::Crc32c);
        assert_eq!(parts.whole(0), Some(Crc::empty(CrcAlgorithm::Crc32c)));
        assert_eq!(parts.whole(3), None);
        parts.insert(0, crc(b"")).unwrap();
        parts.insert(0, crc(b"ab")).unwrap();
        assert_eq!(parts.whole(3), None);
        assert_eq!(parts.whole(1), None);
        assert_eq!(parts.whole(0), None);
        parts.insert(9, crc(b"z")).unwrap();
        assert_eq!(parts.whole(2), None);
    }

    #[test]
    fn impossible_pieces_are_refused() {
        let mut parts = CrcParts::new(CrcAlgorithm::Crc32c);
        assert!(matches!(parts.insert(u64::MAX, crc(b"a")), Err(PartsError::Overflow { .. })));
        let other = Crc::of(CrcAlgorithm::Crc64Nvme, b"a");
        assert!(matches!(parts.insert(0, other), Err(PartsError::Combine(_))));
    }

    #[test]
    fn a_piece_in_two_parts_is_refused() {
        let layout = PartLayout::from_sizes(6, &[2, 4]).unwrap();
        let mut parts = CrcParts::with_layout(CrcAlgorithm::Crc32c, layout);
        let refused = parts.insert(1, crc(b"ab")).unwrap_err();
        assert_eq!(refused, PartsError::TwoParts { piece: 1..3, end: 2 });
        parts.insert(0, crc(b"ab")).unwrap();
        parts.insert(2, crc(b"c")).unwrap();
        assert_eq!((parts.single_run(), parts.composite()), (Some((0, crc(b"abc"))), None));
    }

    proptest! {
        /// Parts of any size, cut into pieces that arrive in any order.
        #[test]
        fn the_composite_is_that_of_the_bytes_in_order(
            (sizes, order) in proptest::collection::vec(1_u64..50, 1..12).prop_flat_map(|sizes| {
                let order: Vec<usize> = (0..sizes.len() * 2).collect();
                (Just(sizes), Just(order).prop_shuffle())
            }),
        ) {
            let len: u64 = sizes.iter().sum();
            let bytes: Vec<u8> = (0..len).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect();
            let layout = PartLayout::from_sizes(len, &sizes).unwrap();
            let mut parts = CrcParts::with_layout(CrcAlgorithm::Crc32c, layout.clone());
            let ranges: Vec<_> = layout.parts().collect();
            for piece in order {
                let part = &ranges[piece / 2];
                let middle = part.start + (part.end - part.start) / 2;
                let piece = if piece % 2 == 0 { part.start..middle } else { middle..part.end };
                let at = |offset: u64| usize::try_from(offset).unwrap();
                parts.insert(piece.start, crc(&bytes[at(piece.start)..at(piece.end)])).unwrap();
            }
            let mut summer = CompositeChecksummer::new(ChecksumAlgorithm::Crc32c, layout).unwrap();
            summer.update(&bytes);
            prop_assert_eq!(parts.composite(), summer.finish());
            prop_assert_eq!(parts.whole(len), Some(crc(&bytes)));
        }

        #[test]
        fn any_order_gives_the_whole(
            (pieces, order) in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..50), 1..12,
            ).prop_flat_map(|pieces| {
                let order: Vec<usize> = (0..pieces.len()).collect();
                (Just(pieces), Just(order).prop_shuffle())
            }),
            crc64 in any::<bool>(),
        ) {
            let algorithm = if crc64 { CrcAlgorithm::Crc64Nvme } else { CrcAlgorithm::Crc32c };
            let whole = pieces.concat();
            let start = |index: usize| pieces[..index].iter().map(Vec::len).sum::<usize>() as u64;
            let mut parts = CrcParts::new(algorithm);
            for index in order {
                parts.insert(start(index), Crc::of(algorithm, &pieces[index])).unwrap();
            }
            prop_assert!(parts.iter().count() <= 1);
            prop_assert_eq!(parts.whole(whole.len() as u64), Some(Crc::of(algorithm, &whole)));
        }
    }
}
