//! [`Gather`]: the bytes of an upload, cut into parts. Pure.
//!
//! The caller of `put_part` chooses pieces of any length. Services refuse short parts, and some (R2)
//! refuse parts of different lengths. So the pieces are gathered, and cut at equal lengths. Nothing
//! is copied.

use bytes::{Buf, Bytes};
use std::collections::VecDeque;

use tidegate::remote::{PartNumber, PartProfile};

/// The length of the first parts. It is a multiple of what any remote wants, and hides the time
/// between two requests.
const PART_BYTES: u64 = 8 << 20;

/// Parts double in length after each this many: 10,000 of them are more than 5 TiB.
const PARTS_OF_A_STEP: u32 = 1_000;

/// A part that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) number: PartNumber,
    /// Offset in the blob of its first byte.
    pub(crate) offset: u64,
    pub(crate) frames: Vec<Bytes>,
    pub(crate) len_bytes: u64,
}

/// See the module docs.
#[derive(Debug)]
pub(crate) struct Gather {
    bytes_min: u64,
    bytes_max: u64,
    is_equal: bool,
    /// The number of parts that were cut.
    count: u32,
    /// Bytes of the parts that were cut.
    offset: u64,
    rest: VecDeque<Bytes>,
    rest_bytes: u64,
}

impl Gather {
    pub(crate) fn new(profile: &PartProfile) -> Self {
        let multiple = profile.bytes_multiple.max(1);
        let bytes_min = PART_BYTES.max(profile.bytes_min).div_ceil(multiple) * multiple;
        Self {
            bytes_min,
            bytes_max: profile.bytes_max.max(bytes_min),
            is_equal: profile.is_equal || profile.count_max == u32::MAX,
            count: 0,
            offset: 0,
            rest: VecDeque::new(),
            rest_bytes: 0,
        }
    }

    /// The number of parts that were cut.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Adds bytes.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.rest_bytes += bytes.len() as u64;
            self.rest.push_back(bytes);
        }
    }

    /// The next part that is complete.
    pub(crate) fn cut(&mut self) -> Option<Cut> {
        let len = self.part_bytes();
        if self.rest_bytes < len { None } else { self.take(len) }
    }

    /// The bytes after the last part that was cut: the last part; `None` if there are none.
    pub(crate) fn cut_rest(&mut self) -> Option<Cut> {
        if self.rest_bytes == 0 { None } else { self.take(self.rest_bytes) }
    }

    /// The length of the next part.
    fn part_bytes(&self) -> u64 {
        if self.is_equal {
            return self.bytes_min;
        }
        let doublings = (self.count / PARTS_OF_A_STEP).min(32);
        self.bytes_min.saturating_mul(1 << doublings).min(self.bytes_max)
    }

    fn take(&mut self, len: u64) -> Option<Cut> {
        let number = PartNumber::new(self.count.checked_add(1)?)?;
        let (mut frames, mut left) = (Vec::new(), len);
        while left > 0 {
            let front = self.rest.front_mut()?;
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(front.len());
            frames.push(front.split_to(count));
            left -= count as u64;
            if !front.has_remaining() {
                self.rest.pop_front();
            }
        }
        let cut = Cut { number, offset: self.offset, frames, len_bytes: len };
        self.count += 1;
        self.offset += len;
        self.rest_bytes -= len;
        Some(cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(bytes_min: u64, bytes_multiple: u64) -> PartProfile {
        let mut profile = PartProfile::any();
        (profile.bytes_min, profile.bytes_multiple) = (bytes_min, bytes_multiple);
        profile.count_max = 10_000;
        profile
    }

    /// Whatever the pieces are, the parts are the same.
    #[test]
    fn parts_do_not_depend_on_the_pieces() {
        let part = usize::try_from(PART_BYTES).unwrap();
        let len = 3 * part + 17;
        let whole: Bytes = (0..len).map(|index| u8::try_from(index % 251).unwrap()).collect();
        for piece in [999_983, 5 << 20, part, len] {
            let mut gather = Gather::new(&profile(5 << 20, 1));
            let mut parts = Vec::new();
            for piece in whole.chunks(piece) {
                gather.push(Bytes::copy_from_slice(piece));
                parts.extend(std::iter::from_fn(|| gather.cut()));
            }
            parts.extend(gather.cut_rest());
            let lens: Vec<_> = parts.iter().map(|part| part.len_bytes).collect();
            assert_eq!(lens, [PART_BYTES, PART_BYTES, PART_BYTES, 17]);
            let numbers: Vec<_> = parts.iter().map(|part| part.number.get()).collect();
            assert_eq!(numbers, [1, 2, 3, 4]);
            assert!(parts.iter().all(|part| part.offset % PART_BYTES == 0));
            let joined = parts.iter().flat_map(|part| &part.frames).flatten();
            assert!(joined.eq(whole.iter()), "pieces of {piece} bytes");
            assert_eq!(gather.cut_rest(), None);
        }
    }

    #[test]
    fn parts_follow_the_rules_of_the_remote() {
        let len = |bytes_min, multiple| Gather::new(&profile(bytes_min, multiple)).part_bytes();
        assert_eq!(len(1, 1), PART_BYTES);
        assert_eq!(len(64 << 20, 1), 64 << 20, "Storj");
        assert_eq!(len((8 << 20) + 1, 256 << 10), (8 << 20) + (256 << 10));
    }

    #[test]
    fn a_long_upload_gets_longer_parts_unless_they_must_be_equal() {
        let mut profile = profile(5 << 20, 1);
        let mut gather = Gather::new(&profile);
        gather.count = 1_000;
        assert_eq!(gather.part_bytes(), 2 * PART_BYTES);
        gather.count = 9_999;
        assert_eq!(gather.part_bytes(), 512 * PART_BYTES);
        profile.is_equal = true;
        gather = Gather::new(&profile);
        gather.count = 9_999;
        assert_eq!(gather.part_bytes(), PART_BYTES);
    }
}
