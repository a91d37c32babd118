//! Decides where the body of a response ends if its head states this in more than one way.
//!
//! Source: RFC 9112 sections 6.1 and 6.3. A `Transfer-Encoding` overrides a `Content-Length`. The
//! number then describes neither the body nor the blob. hyper frames the body by the
//! `Transfer-Encoding` and returns both fields, so `Content-Length` is removed here. Such a head
//! looks like request smuggling: its connection is not used for another request.
//!
//! Only `chunked` is decoded. hyper would deliver the bytes of any other coding as bytes of the
//! blob. The client sends no `TE`, so it asked for no other coding, and refuses a response that has
//! one.

use http::{HeaderMap, header};

/// Characters of a refused coding that an error shows.
const SHOWN_CHARS_MAX: usize = 64;

/// The response has a transfer coding that the client did not offer.
#[derive(Debug, thiserror::Error)]
#[error("expected the transfer coding chunked or none, got {0}")]
pub(crate) struct CodingRefused(String);

/// Removes a `Content-Length` that does not count. Returns whether the connection may carry another
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
