//! `Range` and `If-None-Match`: which part of a blob a client wants, and whether it has it already.

use std::ops::Range;

/// What a response consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Selection {
    /// Everything. A header that is no single range of bytes counts as absent.
    All,
    /// These bytes; at least one.
    Part(Range<u64>),
    /// The range has no byte of the blob.
    Unsatisfiable,
}

/// The selection of a `Range` header for a blob of `len` bytes.
pub(in crate::serve) fn select(header: &str, len: u64) -> Selection {
    let Some(set) = header.trim().strip_prefix("bytes=") else { return Selection::All };
    let Some((first, last)) = set.trim().split_once('-') else { return Selection::All };
    let (first, last) = (first.trim(), last.trim());
    let part = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(len),
        (Some(first), None) if last.is_empty() => first..len,
        (None, Some(count)) if first.is_empty() => len.saturating_sub(count)..len,
        _ => return Selection::All,
    };
    if part.is_empty() { Selection::Unsatisfiable } else { Selection::Part(part) }
}

/// A number of digits only. One beyond 64 bits is larger than any blob.
fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Whether a list of entity tags contains `tag`. Weak ones count, as `If-None-Match` requires.
pub(in crate::serve) fn lists_tag(header: &str, tag: &str) -> bool {
    header.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == tag)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn single_ranges() {
        let part = Selection::Part;
        let rows = [
            ("bytes=0-0", part(0..1)),
            ("bytes=0-99", part(0..10)),
            ("bytes=3-", part(3..10)),
            ("bytes=9-9", part(9..10)),
            ("bytes=-3", part(7..10)),
            ("bytes=-99", part(0..10)),
            ("bytes= 1 - 2", part(1..3)),
            ("bytes=2-99999999999999999999999", part(2..10)),
            ("bytes=10-", Selection::Unsatisfiable),
            ("bytes=10-12", Selection::Unsatisfiable),
            ("bytes=-0", Selection::Unsatisfiable),
            ("bytes=3-2", Selection::All),
            ("bytes=0-1,3-4", Selection::All),
            ("bytes=-", Selection::All),
            ("bytes=+1-2", Selection::All),
            ("items=0-1", Selection::All),
            ("", Selection::All),
        ];
        for (header, expected) in rows {
            assert_eq!(select(header, 10), expected, "{header}");
        }
        assert_eq!(select("bytes=0-", 0), Selection::Unsatisfiable);
        assert_eq!(select("bytes=-5", 0), Selection::Unsatisfiable);
    }

    #[test]
    fn tags() {
        let tag = "\"abc\"";
        for header in ["\"abc\"", "*", "\"x\", \"abc\"", "W/\"abc\""] {
            assert!(lists_tag(header, tag), "{header}");
        }
        assert!(!lists_tag("\"abcd\"", tag) && !lists_tag("", tag));
    }

    proptest! {
        #[test]
        fn a_part_is_within_the_blob(header in "bytes=[0-9]{0,21}-[0-9]{0,21}", len in any::<u64>()) {
            if let Selection::Part(part) = select(&header, len) {
                prop_assert!(part.start < part.end && part.end <= len);
            }
        }

        #[test]
        fn any_text_is_safe(header in ".{0,40}", len in any::<u64>()) {
            let _ = (select(&header, len), lists_tag(&header, "\"a\""));
        }
    }
}
