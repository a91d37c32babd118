//! Composite checksums: the checksum of the concatenated checksums of an upload's parts.
//!
//! S3 stores such a value for an object of several parts: CRC32, CRC32C, SHA-1 or SHA-256 of the
//! parts' raw values, and as entity tag the MD5 of the parts' MD5s. A reader that knows where the parts
//! end can compute it again. [`PartLayout`] holds these positions. [`CompositeChecksummer`] computes
//! the value from bytes in order; [`CrcParts`](crate::parts::CrcParts) computes it from CRCs of
//! pieces in any order.
//!
//! Source: Amazon S3 User Guide, "Checking object integrity", section on composite checksums.

use std::ops::Range;
use std::sync::Arc;

use super::{Checksum, ChecksumAlgorithm, ChecksumError, Checksummer};

/// Where the parts of a blob end. Clones share the list, which has at most
/// [`PARTS_MAX`](Self::PARTS_MAX) entries of 8 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartLayout {
    /// The end of each part. Invariants: not empty; strictly ascending, except that a blob without
    /// bytes has one empty part.
    ends: Arc<[u64]>,
}

impl PartLayout {
    /// S3's limit on the parts of one upload.
    pub const PARTS_MAX: u32 = 10_000;

    /// The layout of `parts` parts of `part_bytes` bytes. The last part may be shorter. `None`
    /// if such parts do not cover `len` bytes exactly, or if there are too many.
    pub fn equal(len: u64, parts: u32, part_bytes: u64) -> Option<Self> {
        if parts == 1 && part_bytes == len {
            return Some(Self { ends: Arc::new([len]) });
        }
        let is_covered =
            (1..=len).contains(&part_bytes) && len.div_ceil(part_bytes) == u64::from(parts);
        if parts > Self::PARTS_MAX || !is_covered {
            return None;
        }
        let ends = (1..=u64::from(parts)).map(|part| part.saturating_mul(part_bytes).min(len));
        Some(Self { ends: ends.collect() })
    }

    /// The layout of parts of these sizes. `None` if they do not add up to `len` bytes, if one is
    /// empty, or if there are too many.
    pub fn from_sizes(len: u64, sizes: &[u64]) -> Option<Self> {
        if sizes == [len] {
            return Some(Self { ends: Arc::new([len]) });
        }
        if u32::try_from(sizes.len()).is_ok_and(|count| count > Self::PARTS_MAX) {
            return None;
        }
        let mut end = 0_u64;
        let mut ends = Vec::with_capacity(sizes.len());
        for size in sizes {
            end = end.checked_add(*size).filter(|_| *size > 0)?;
            ends.push(end);
        }
        (ends.last() == Some(&len)).then(|| Self { ends: ends.into() })
    }

    /// The number of parts, at least one.
    pub fn count(&self) -> u32 {
        u32::try_from(self.ends.len()).unwrap_or(u32::MAX)
    }

    /// The length of the blob.
    pub fn len_bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The ranges of the parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(self.ends.iter().copied()).map(|(start, end)| start..end)
    }

    /// The end of the part that holds the byte at `offset`; the blob's length beyond its end.
    pub fn end_of_part(&self, offset: u64) -> u64 {
        let index = self.ends.partition_point(|end| *end <= offset);
        self.ends.get(index).copied().unwrap_or(self.len_bytes())
    }

    /// Whether a part ends at `offset`.
    pub fn is_end(&self, offset: u64) -> bool {
        self.ends.binary_search(&offset).is_ok()
    }

    /// Whether all bytes of `range` are in one part.
    pub fn holds(&self, range: &Range<u64>) -> bool {
        range.is_empty() || range.end <= self.end_of_part(range.start)
    }
}

/// An incremental computation of a composite checksum, over the blob's bytes in order.
#[derive(Clone, Debug)]
pub struct CompositeChecksummer {
    layout: PartLayout,
    /// The part that the next byte belongs to.
    index: usize,
    /// Bytes appended so far.
    position: u64,
    part: Checksummer,
    whole: Checksummer,
}

impl CompositeChecksummer {
    /// An empty computation. An algorithm that cannot be computed is
    /// [`ChecksumError::Unsupported`].
    pub fn new(algorithm: ChecksumAlgorithm, layout: PartLayout) -> Result<Self, ChecksumError> {
        let (part, whole) = (Checksummer::new(algorithm)?, Checksummer::new(algorithm)?);
        Ok(Self { layout, index: 0, position: 0, part, whole })
    }

    /// The algorithm.
    pub const fn algorithm(&self) -> ChecksumAlgorithm {
        self.whole.algorithm()
    }

    /// Bytes appended so far.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Appends bytes. Bytes beyond the last part make the result `None`.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Some(end) = self.layout.ends.get(self.index) else {
                self.position = u64::MAX;
                return;
            };
            let room = usize::try_from(end - self.position).unwrap_or(usize::MAX);
            let (head, rest) = bytes.split_at(room.min(bytes.len()));
            self.part.update(head);
            self.position += head.len() as u64;
            if self.position == *end {
                self.end_part();
            }
            bytes = rest;
        }
    }

    fn end_part(&mut self) {
        let empty = Checksummer::new(self.part.algorithm()).unwrap_or_else(|_| self.part.clone());
        let part = std::mem::replace(&mut self.part, empty);
        self.whole.update(part.finish().as_bytes());
        self.index += 1;
    }

    /// The composite checksum; `None` if the appended bytes are not exactly the parts' bytes.
    pub fn finish(mut self) -> Option<Checksum> {
        let count = self.layout.ends.len();
        if self.layout.len_bytes() == 0 && self.index < count {
            self.end_part();
        }
        let is_complete = self.index == count && self.position == self.layout.len_bytes();
        is_complete.then(|| self.whole.finish())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_parts_cover_the_blob_with_a_shorter_last_one() {
        let parts = |layout: PartLayout| layout.parts().collect::<Vec<_>>();
        assert_eq!(parts(PartLayout::equal(10, 3, 4).unwrap()), [0..4, 4..8, 8..10]);
        assert_eq!(parts(PartLayout::equal(8, 2, 4).unwrap()), [0..4, 4..8]);
        assert_eq!(parts(PartLayout::equal(0, 1, 0).unwrap()).len(), 1);
        for (len, count, size) in [(8, 3, 4), (9, 2, 4), (0, 2, 4), (8, 2, 0), (8, 0, 4), (8, 1, 9)]
        {
            assert_eq!(PartLayout::equal(len, count, size), None, "{len} {count} {size}");
        }
        let too_many = PartLayout::PARTS_MAX + 1;
        assert_eq!(PartLayout::equal(too_many.into(), too_many, 1), None);
    }

    #[test]
    fn sizes_must_add_up_and_none_is_empty() {
        let layout = PartLayout::from_sizes(9, &[2, 6, 1]).unwrap();
        assert_eq!(layout.parts().collect::<Vec<_>>(), [0..2, 2..8, 8..9]);
        assert_eq!([0, 1, 2, 8, 9, 70].map(|at| layout.end_of_part(at)), [2, 2, 8, 9, 9, 9]);
        assert!(layout.holds(&(2..8)) && !layout.holds(&(1..3)) && layout.holds(&(5..5)));
        for sizes in [&[2, 6][..], &[2, 0, 7], &[], &[u64::MAX, 10], &[9, 0]] {
            assert_eq!(PartLayout::from_sizes(9, sizes), None, "{sizes:?}");
        }
        assert!(PartLayout::from_sizes(0, &[0]).is_some());
    }

    /// What S3 computes: the algorithm over the parts' raw values.
    fn by_definition(algorithm: ChecksumAlgorithm, bytes: &[u8], layout: &PartLayout) -> Checksum {
        let mut values = Vec::new();
        for part in layout.parts() {
            let part =
                &bytes[usize::try_from(part.start).unwrap()..usize::try_from(part.end).unwrap()];
            values.extend_from_slice(Checksummer::of(algorithm, part).unwrap().as_bytes());
        }
        Checksummer::of(algorithm, &values).unwrap()
    }

    proptest! {
        #[test]
        fn however_the_bytes_are_cut_the_value_is_the_defined_one(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            part_bytes in 1_u64..100,
            cut in any::<proptest::sample::Index>(),
        ) {
            let len = bytes.len() as u64;
            let parts = u32::try_from(len.div_ceil(part_bytes)).unwrap();
            let layout = PartLayout::equal(len, parts, part_bytes)
                .or_else(|| PartLayout::from_sizes(len, &[len]))
                .unwrap();
            for algorithm in ChecksumAlgorithm::ALL.into_iter().filter(|a| a.is_computable()) {
                let mut summer = CompositeChecksummer::new(algorithm, layout.clone()).unwrap();
                let (head, tail) = bytes.split_at(cut.index(bytes.len() + 1));
                summer.update(head);
                let early = summer.clone().finish();
                prop_assert!(early.is_none() || head.len() == bytes.len());
                summer.update(tail);
                let expected = by_definition(algorithm, &bytes, &layout);
                prop_assert_eq!(summer.clone().finish(), Some(expected));
                summer.update(b"x");
                prop_assert_eq!(summer.finish(), None);
            }
        }
    }
}
