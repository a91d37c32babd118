//! How much of an upload the service has, by its response. Pure.

/// The bytes of `Range: bytes=0-N`; without the header, 0. `None` if it says anything else.
pub(super) fn kept(range: Option<&str>) -> Option<u64> {
    let Some(range) = range else { return Some(0) };
    let last = range.trim().strip_prefix("bytes=0-").or_else(|| range.strip_prefix("bytes 0-"))?;
    last.parse::<u64>().ok()?.checked_add(1)
}

/// `Content-Range` of these bytes; `None` as total says that more will follow.
pub(super) fn content_range(offset: u64, len_bytes: u64, total: Option<u64>) -> String {
    let total = total.map_or_else(|| "*".to_owned(), |total| total.to_string());
    match offset.saturating_add(len_bytes).checked_sub(1) {
        Some(last) if len_bytes > 0 => format!("bytes {offset}-{last}/{total}"),
        _ => format!("bytes */{total}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_without_a_range_kept_nothing() {
        assert_eq!(kept(None), Some(0));
        assert_eq!(kept(Some("bytes=0-0")), Some(1));
        assert_eq!(kept(Some("bytes=0-262143")), Some(262_144));
        let wrong = ["bytes=1-5", "0-5", "bytes=0-", "bytes=0--1", "bytes=0-18446744073709551615"];
        for text in wrong {
            assert_eq!(kept(Some(text)), None, "{text}");
        }
    }

    #[test]
    fn a_range_says_where_the_bytes_are() {
        assert_eq!(content_range(0, 262_144, None), "bytes 0-262143/*");
        assert_eq!(content_range(262_144, 5, Some(262_149)), "bytes 262144-262148/262149");
        assert_eq!(content_range(262_144, 0, Some(262_144)), "bytes */262144");
        assert_eq!(content_range(0, 0, Some(0)), "bytes */0");
        assert_eq!(content_range(0, 0, None), "bytes */*");
    }
}
