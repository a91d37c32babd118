//! How the head of a response tells where its body ends, where it tells it in more than one way.
//!
//! Source: RFC 9112 sections 6.1 and 6.3. A `Transfer-Encoding` overrides a `Content-Length`, whose
//! number then says nothing about the body, nor about the blob. hyper frames the body by the former
//! and hands both fields on, so the latter is removed here. Such a head is what request smuggling
//! looks like: its connection is not used for another request.
//!
//! `chunked` alone is decoded. hyper would deliver the bytes of any other coding as those of the
//! blob; no other was asked for (no `TE` is sent), so a response that has one is refused.

use http::{HeaderMap, header};

/// Characters of a refused coding that an error shows.
const SHOWN_CHARS_MAX: usize = 64;

/// The transfer coding of a response is not one that was offered.
#[derive(Debug, thiserror::Error)]
#[error("expected the transfer coding chunked or none, got {0}")]
pub(crate) struct CodingRefused(String);

/// Removes a `Content-Length` that does not count. Says whether the connection may carry another
/// request after this response.
pub(super) fn settle(headers: &mut HeaderMap) -> Result<bool, CodingRefused> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(first) = codings.next() else { return Ok(true) };
    let is_chunked = first.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    if !is_chunked || codings.next().is_some() {
        return Err(CodingRefused(shown(headers)));
    }
    Ok(headers.remove(header::CONTENT_LENGTH).is_none())
}

fn shown(headers: &HeaderMap) -> String {
    let codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let codings: Vec<_> = codings.map(|value| format!("{value:?}")).collect();
    codings.join(", ").chars().take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(fields: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_length_counts_only_without_a_transfer_coding() {
        let mut plain = headers(&[(header::CONTENT_LENGTH, "5")]);
        assert!(settle(&mut plain).unwrap() && plain.contains_key(header::CONTENT_LENGTH));
        let mut chunked = headers(&[(header::TRANSFER_ENCODING, " Chunked ")]);
        assert!(settle(&mut chunked).unwrap(), "nothing contradicts it");
        let mut both = headers(&[
            (header::CONTENT_LENGTH, "5"),
            (header::TRANSFER_ENCODING, "chunked"),
            (header::CONTENT_LENGTH, "5"),
        ]);
        assert!(!settle(&mut both).unwrap() && !both.contains_key(header::CONTENT_LENGTH));
    }

    #[test]
    fn any_other_coding_is_refused_and_shown() {
        for coding in ["gzip", "gzip, chunked", "identity", "", "chunked, chunked"] {
            let mut headers = headers(&[(header::TRANSFER_ENCODING, coding)]);
            let refused = settle(&mut headers).unwrap_err().to_string();
            assert!(refused.contains(coding), "{refused}");
        }
        let twice = [(header::TRANSFER_ENCODING, "chunked"), (header::TRANSFER_ENCODING, "gzip")];
        assert!(settle(&mut headers(&twice)).unwrap_err().to_string().contains("gzip"));
        let long = HeaderValue::from_str(&"x".repeat(5000)).unwrap();
        let mut headers = HeaderMap::from_iter([(header::TRANSFER_ENCODING, long)]);
        assert!(settle(&mut headers).unwrap_err().to_string().len() < 200);
    }
}
