//! [`RequestIds`]: a name for each request, in its span, in the log, and in its response.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};

/// The header, in requests and in responses.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest identifier that a client may give. A trace context of 55 characters fits twice.
const LEN_MAX: usize = 128;

/// Makes identifiers: a number of this server, mixed so that no two servers make the same ones.
#[derive(Debug)]
pub(super) struct RequestIds {
    start: u64,
    next: AtomicU64,
}

impl RequestIds {
    pub(super) fn new() -> Self {
        Self { start: fastrand::u64(..), next: AtomicU64::new(0) }
    }

    /// The identifier that the client gave, or a new one.
    pub(super) fn of(&self, given: Option<&HeaderValue>) -> HeaderValue {
        match given {
            Some(given) if is_valid(given.as_bytes()) => given.clone(),
            _ => self.make(),
        }
    }

    fn make(&self) -> HeaderValue {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // The multiplier is odd, so different numbers stay different.
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.start;
        let nibble = |byte: u8| b"0123456789abcdef"[usize::from(byte & 15)];
        let digits: Vec<u8> = mixed
            .to_be_bytes()
            .iter()
            .flat_map(|byte| [nibble(byte >> 4), nibble(*byte)])
            .collect();
        HeaderValue::from_maybe_shared(Bytes::from(digits)).unwrap_or(HeaderValue::from_static("0"))
    }
}

/// Letters, digits and some signs: what can be copied into a shell and a query of a log.
fn is_valid(given: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@,".contains(byte);
    (1..=LEN_MAX).contains(&given.len()) && given.iter().all(is_plain)
}

/// The text of an identifier.
pub(super) fn text(id: &HeaderValue) -> &str {
    id.to_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_differ() {
        let (ids, others) = (RequestIds::new(), RequestIds::new());
        let mut all: Vec<HeaderValue> = (0..1000).map(|_| ids.of(None)).collect();
        all.extend((0..1000).map(|_| others.of(None)));
        assert!(all.iter().all(|id| text(id).len() == 16));
        all.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        all.dedup();
        assert_eq!(all.len(), 2000);
    }

    #[test]
    fn only_plain_identifiers_are_taken() {
        let ids = RequestIds::new();
        let long = "a".repeat(LEN_MAX + 1);
        for (given, is_taken) in [
            ("build-7/step_2", true),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true),
            (&long[1..], true),
            (&long, false),
            ("", false),
            ("<script>", false),
            ("a b", false),
            ("\u{e9}", false),
        ] {
            let value = HeaderValue::from_bytes(given.as_bytes()).unwrap();
            assert_eq!(ids.of(Some(&value)) == value, is_taken, "{given}");
        }
    }
}
