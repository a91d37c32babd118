//! The server's parser of `Range`, RFC 9110 section 14.
//!
//! It does not use Tidegate's parser, so that client and server cannot share an error.

use std::ops::Range;

/// The requested range of a blob of a known length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// No range, or one that a server must ignore: malformed, another unit, several ranges.
    Whole,
    /// Bytes that exist.
    Part(Range<u64>),
    /// No byte of it exists.
    Unsatisfiable,
}

/// Resolves the value of a `Range` field against `len_bytes`.
pub(crate) fn resolve(field: Option<&str>, len_bytes: u64) -> Asked {
    field.and_then(|field| parse(field, len_bytes)).unwrap_or(Asked::Whole)
}

fn parse(field: &str, len_bytes: u64) -> Option<Asked> {
    let (unit, set) = field.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return None;
    }
    let (first, last) = set.trim().split_once('-')?;
    if first.is_empty() {
        let suffix = number(last)?.min(len_bytes);
        return Some(part(len_bytes - suffix, len_bytes, len_bytes));
    }
    let first = number(first)?;
    if last.is_empty() {
        return Some(part(first, len_bytes, len_bytes));
    }
    let last = number(last)?;
    (first <= last).then(|| part(first, last.saturating_add(1).min(len_bytes), len_bytes))
}

fn part(start: u64, end: u64, len_bytes: u64) -> Asked {
    if start < end && end <= len_bytes { Asked::Part(start..end) } else { Asked::Unsatisfiable }
}

/// Accepts only digits. A number that does not fit is beyond every blob, so it saturates.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_as_rfc_9110_says() {
        let cases: &[(&str, u64, Asked)] = &[
            ("bytes=0-0", 10, Asked::Part(0..1)),
            ("bytes=2-", 10, Asked::Part(2..10)),
            ("bytes=-3", 10, Asked::Part(7..10)),
            ("bytes=-30", 10, Asked::Part(0..10)),
            ("BYTES=1-99999999999999999999999", 10, Asked::Part(1..10)),
            ("bytes=9-18446744073709551615", 10, Asked::Part(9..10)),
            ("bytes=10-", 10, Asked::Unsatisfiable),
            ("bytes=-0", 10, Asked::Unsatisfiable),
            ("bytes=0-", 0, Asked::Unsatisfiable),
            ("bytes=-5", 0, Asked::Unsatisfiable),
            ("bytes=3-2", 10, Asked::Whole),
            ("bytes=0-1,3-4", 10, Asked::Whole),
            ("lines=0-1", 10, Asked::Whole),
            ("bytes=+1-2", 10, Asked::Whole),
            ("bytes=-", 10, Asked::Whole),
            ("bytes", 10, Asked::Whole),
        ];
        for (field, len, expected) in cases {
            assert_eq!(resolve(Some(field), *len), *expected, "{field} of {len}");
        }
        assert_eq!(resolve(None, 10), Asked::Whole);
    }
}
