//! The bytes of a blob that a request asks for ([`ByteRange`]) and those that a server says it sent
//! ([`ContentRange`]).
//!
//! Requests, restarts and plans all do arithmetic on ranges, often before the blob's length is
//! known. All of that arithmetic is here, and checked: an overflow or an unknown position is a
//! [`RangeError`]. Ranges are half-open (`start..end`) everywhere except in text. There, HTTP and
//! people count inclusively (`0-99` is a hundred bytes).
//!
//! Source: RFC 9110, section 14 (range requests).

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::excerpt::excerpt;

/// The bytes of a blob that a reader asks for. The blob's length may still be unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ByteRange {
    /// The whole blob.
    All,
    /// From this position to the end.
    From(u64),
    /// Half-open, `start <= end`; empty when they are equal.
    Bounded(Range<u64>),
    /// The last n bytes, or the whole blob if it is shorter.
    Last(u64),
}

/// Why a range is malformed or cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RangeError {
    /// The end lies before the start.
    #[error("the range ends at {end}, before its start {start}")]
    Reversed {
        /// First position.
        start: u64,
        /// Position after the last.
        end: u64,
    },
    /// The range starts beyond the blob's end.
    #[error("the range starts at {start}, beyond the blob's end at {len}")]
    BeyondEnd {
        /// First position asked for.
        start: u64,
        /// Length of the blob in bytes.
        len: u64,
    },
    /// A position would pass 2^64.
    #[error("position {start} + {len} does not fit into 64 bits")]
    Overflow {
        /// The position before the move.
        start: u64,
        /// The number of bytes to move by.
        len: u64,
    },
    /// The positions of the last n bytes are unknown while the blob's length is unknown.
    #[error("the last {n} bytes have no known position until the blob's length is known")]
    LengthUnknown {
        /// The number of bytes from the end.
        n: u64,
    },
    /// More bytes were delivered than the range holds.
    #[error("{delivered} bytes were delivered of a range of {len}")]
    TooMuchDelivered {
        /// Bytes delivered.
        delivered: u64,
        /// Bytes that the range holds.
        len: u64,
    },
    /// A range as typed by a user was not understood.
    #[error("expected a range such as 0-99, 100- or -500, got {}: {reason}", excerpt(text))]
    MalformedText {
        /// The text that the user typed.
        text: String,
        /// The reason.
        reason: &'static str,
    },
    /// A `Content-Range` header was not understood or contradicts itself.
    #[error("expected a Content-Range such as \"bytes 0-9/10\", got {}: {reason}", excerpt(header))]
    MalformedHeader {
        /// The header's value.
        header: String,
        /// The reason.
        reason: &'static str,
    },
}

impl ByteRange {
    /// No bytes at all.
    pub const EMPTY: Self = Self::Bounded(0..0);

    /// No bytes at all; the same as [`ByteRange::EMPTY`].
    pub const fn empty() -> Self {
        Self::EMPTY
    }

    /// `start..end`, half-open; an end before the start is an error.
    pub const fn from_to(start: u64, end: u64) -> Result<Self, RangeError> {
        if end < start {
            return Err(RangeError::Reversed { start, end });
        }
        Ok(Self::Bounded(start..end))
    }

    /// The first `n` bytes.
    pub const fn first(n: u64) -> Self {
        Self::Bounded(0..n)
    }

    /// The first `n` bytes from `offset`.
    pub fn first_from(offset: u64, n: u64) -> Result<Self, RangeError> {
        Ok(Self::Bounded(offset..add(offset, n)?))
    }

    /// The last `n` bytes.
    pub const fn last(n: u64) -> Self {
        Self::Last(n)
    }

    /// Whether the range is empty for every length of the blob. `From` the end of a blob is empty
    /// too, but that is unknown here.
    pub const fn is_empty(&self) -> bool {
        match self {
            Self::All | Self::From(_) => false,
            Self::Bounded(range) => range.start >= range.end,
            Self::Last(n) => *n == 0,
        }
    }

    /// The canonical value of a `Range` header. `None` if no header must be sent: for the whole
    /// blob, and for an empty range, which HTTP cannot express and which needs no request.
    pub fn header(&self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        match self {
            Self::All => None,
            Self::From(_) | Self::Bounded(_) | Self::Last(_) => Some(format!("bytes={self}")),
        }
    }

    /// The positions of this range in a blob of `len` bytes, clipped to it.
    ///
    /// A start equal to `len` gives an empty range; a start beyond it is
    /// [`RangeError::BeyondEnd`].
    pub fn resolve(&self, len: u64) -> Result<Range<u64>, RangeError> {
        let (start, end) = match self {
            Self::All => (0, len),
            Self::From(start) => (*start, len),
            Self::Bounded(range) => {
                ordered(range)?;
                (range.start, range.end.min(len))
            }
            Self::Last(n) => (len.saturating_sub(*n), len),
        };
        if start > len {
            return Err(RangeError::BeyondEnd { start, len });
        }
        Ok(start..end)
    }

    /// The same range shifted forward by `by` bytes, for a blob that lies inside another. The last
    /// n bytes have no known position, so shifting them is an error.
    pub fn shift(&self, by: u64) -> Result<Self, RangeError> {
        match self {
            Self::All if by == 0 => Ok(Self::All),
            Self::All => Ok(Self::From(by)),
            Self::From(start) => Ok(Self::From(add(*start, by)?)),
            Self::Bounded(range) => {
                ordered(range)?;
                Ok(Self::Bounded(add(range.start, by)?..add(range.end, by)?))
            }
            Self::Last(n) => Err(RangeError::LengthUnknown { n: *n }),
        }
    }

    /// At most the first `n` bytes of this range.
    ///
    /// If `n` reaches past 2^64, the limit is the largest position, which no blob exceeds. A range
    /// of the last m bytes can only be limited to m or more, because its start is unknown.
    pub fn limit(&self, n: u64) -> Result<Self, RangeError> {
        match self {
            Self::All => Ok(Self::first(n)),
            Self::From(start) => Ok(Self::Bounded(*start..start.saturating_add(n))),
            Self::Bounded(range) => {
                ordered(range)?;
                Ok(Self::Bounded(range.start..range.start.saturating_add(n).min(range.end)))
            }
            Self::Last(last) if n >= *last => Ok(self.clone()),
            Self::Last(last) => Err(RangeError::LengthUnknown { n: *last }),
        }
    }

    /// The rest of this range after its first `n` bytes have been delivered.
    ///
    /// For [`ByteRange::Last`] this is right only if the blob has at least as many bytes as
    /// requested. A reader that has seen a `Content-Range` should continue from absolute positions
    /// instead.
    pub fn after(&self, n: u64) -> Result<Self, RangeError> {
        match self {
            Self::All if n == 0 => Ok(Self::All),
            Self::All => Ok(Self::From(n)),
            Self::From(start) => Ok(Self::From(add(*start, n)?)),
            Self::Bounded(range) => {
                ordered(range)?;
                let len = range.end - range.start;
                if n > len {
                    return Err(RangeError::TooMuchDelivered { delivered: n, len });
                }
                Ok(Self::Bounded(range.start + n..range.end))
            }
            Self::Last(last) => match last.checked_sub(n) {
                Some(left) => Ok(Self::Last(left)),
                None => Err(RangeError::TooMuchDelivered { delivered: n, len: *last }),
            },
        }
    }
}

/// The form that [`FromStr`] reads. An empty range has no such form and shows its position.
impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::From(start) => write!(f, "{start}-"),
            Self::Bounded(range) if range.start >= range.end => {
                write!(f, "empty at {}", range.start)
            }
            Self::Bounded(range) => write!(f, "{}-{}", range.start, range.end - 1),
            Self::Last(n) => write!(f, "-{n}"),
        }
    }
}

/// A range as a user types it: `0-99` (inclusive, like HTTP), `100-`, `-500`, or `all`.
impl FromStr for ByteRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let malformed = |reason| RangeError::MalformedText { text: text.to_owned(), reason };
        let trimmed = text.trim();
        if trimmed == "all" {
            return Ok(Self::All);
        }
        let (first, last) = trimmed.split_once('-').ok_or_else(|| malformed("no hyphen"))?;
        match (first, last) {
            ("", "") => Err(malformed("no positions")),
            ("", n) => Ok(Self::Last(position(n).map_err(malformed)?)),
            (start, "") => Ok(Self::From(position(start).map_err(malformed)?)),
            (start, last) => Ok(Self::Bounded(inclusive(start, last).map_err(malformed)?)),
        }
    }
}

/// The value of a `Content-Range` header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ContentRange {
    /// The response holds these bytes of a blob of `total` bytes (`None`: the server does not know,
    /// `*`). Never empty, and never beyond `total`.
    Bytes {
        /// Half-open positions of the bytes in the response.
        range: Range<u64>,
        /// Length of the whole blob.
        total: Option<u64>,
    },
    /// The requested range lies outside the blob (status 416).
    Unsatisfied {
        /// Length of the whole blob.
        total: Option<u64>,
    },
}

impl ContentRange {
    /// Parses a header's value: `bytes 0-9/10`, `bytes 0-9/*`, `bytes */10`.
    pub fn parse(header: &str) -> Result<Self, RangeError> {
        Self::parse_reasoned(header)
            .map_err(|reason| RangeError::MalformedHeader { header: header.to_owned(), reason })
    }

    fn parse_reasoned(header: &str) -> Result<Self, &'static str> {
        let (unit, rest) =
            header.trim().split_once([' ', '\t']).ok_or("no space after the unit")?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return Err("the unit is not bytes");
        }
        let (range, total) = rest.trim_start().split_once('/').ok_or("no slash")?;
        let total = match total {
            "*" => None,
            digits => Some(position(digits)?),
        };
        if range == "*" {
            return Ok(Self::Unsatisfied { total });
        }
        let (first, last) = range.split_once('-').ok_or("no hyphen")?;
        let range = inclusive(first, last)?;
        if total.is_some_and(|total| range.end > total) {
            return Err("the range passes the total");
        }
        Ok(Self::Bytes { range, total })
    }
}

/// In the form of the header; parsing it returns the same value.
impl fmt::Display for ContentRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = match self {
            Self::Bytes { range, total } => {
                write!(f, "bytes {}-{}/", range.start, range.end.saturating_sub(1))?;
                total
            }
            Self::Unsatisfied { total } => {
                f.write_str("bytes */")?;
                total
            }
        };
        match total {
            Some(total) => write!(f, "{total}"),
            None => f.write_str("*"),
        }
    }
}

fn add(start: u64, len: u64) -> Result<u64, RangeError> {
    start.checked_add(len).ok_or(RangeError::Overflow { start, len })
}

/// The variants are public, so a caller can construct a reversed range.
fn ordered(range: &Range<u64>) -> Result<(), RangeError> {
    if range.end < range.start {
        return Err(RangeError::Reversed { start: range.start, end: range.end });
    }
    Ok(())
}

/// `first-last`, both inclusive, as a half-open range, which is never empty.
fn inclusive(first: &str, last: &str) -> Result<Range<u64>, &'static str> {
    let (first, last) = (position(first)?, position(last)?);
    if last < first {
        return Err("the end lies before the start");
    }
    Ok(first..last.checked_add(1).ok_or("the end does not fit into 64 bits")?)
}

/// Digits only: `u64::from_str` would also accept a plus sign.
fn position(digits: &str) -> Result<u64, &'static str> {
    if digits.is_empty() {
        return Err("a position is missing");
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("a position is not a decimal number");
    }
    // The text is all digits, so the only possible error is overflow.
    digits.parse().ok().ok_or("a position does not fit into 64 bits")
}

#[cfg(test)]
mod tests;
