//! [`Page`]: the status for people, as one HTML document without any other file.
//!
//! The page asks for `/status` and shows it. All that comes from clients becomes text of the document,
//! never markup. The response forbids everything else: it allows the one script and the one style
//! sheet of the page, by their hashes, and requests to this server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tidegate_core::digest::{Digest, DigestFunction};

use super::routes::response;
use crate::serve::body::ResponseBody;

const HTML: &str = include_str!("page.html");

/// The page and its policy.
#[derive(Debug)]
pub(super) struct Page {
    policy: HeaderValue,
}

impl Page {
    pub(super) fn new() -> Self {
        let policy = format!(
            "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; img-src data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            hash(between("<script>", "</script>")),
            hash(between("<style>", "</style>")),
        );
        let nothing = HeaderValue::from_static("default-src 'none'");
        Self { policy: HeaderValue::from_str(&policy).unwrap_or(nothing) }
    }

    pub(super) fn response(&self) -> Response<ResponseBody> {
        let html = Bytes::from_static(HTML.as_bytes());
        let mut response = response(StatusCode::OK, "text/html; charset=utf-8", html);
        let headers = response.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, self.policy.clone());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        let referrer = HeaderName::from_static("referrer-policy");
        headers.insert(referrer, HeaderValue::from_static("no-referrer"));
        response
    }
}

/// The text of the page between two tags. Each of them occurs once.
fn between(begin: &str, end: &str) -> &'static str {
    let rest = HTML.split_once(begin).map_or("", |(_, rest)| rest);
    rest.split_once(end).map_or("", |(text, _)| text)
}

/// A source expression that allows exactly this text.
fn hash(text: &str) -> String {
    let digest = Digest::of(DigestFunction::Sha256, text.as_bytes());
    format!("sha256-{}", STANDARD.encode(digest.hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy would block what this test finds. The page must not need it.
    #[test]
    fn the_page_needs_nothing_but_itself() {
        for tag in ["<script>", "</script>", "<style>", "</style>"] {
            assert_eq!(HTML.matches(tag).count(), 1, "{tag}");
        }
        assert!(between("<script>", "</script>").len() > 100);
        assert!(between("<style>", "</style>").len() > 100);
        let text = HTML.replace("http://www.w3.org/2000/svg", "");
        for external in ["http:", "https:", "src=", "@import", "url(", " style=", "onclick="] {
            assert!(!text.contains(external), "{external}");
        }
        for unsafe_call in ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("] {
            assert!(!HTML.contains(unsafe_call), "{unsafe_call}");
        }
    }
}
