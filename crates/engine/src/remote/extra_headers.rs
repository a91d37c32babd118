//! [`ExtraHeaders`]: header fields that the caller adds to every request for a blob.
//!
//! Their values reach the server byte for byte as given. The signature of S3 covers them.
//!
//! Invariants:
//! - A value is in no `Debug` output and in no error: it may be a token.
//! - Only the engine decides what a request means. Fields that select bytes, version, coding or
//!   connection are refused, and so are fields that signing sets.
//! - They go to the host of the URL, not along a redirect to another host.

use std::fmt;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::locate::invalid;
use crate::error::Result;

/// Fields that the engine sets itself, and the reason why the caller cannot set them.
const REFUSED: [(&str, &str); 27] = [
    ("range", RANGE),
    ("x-ms-range", RANGE),
    ("if-range", RANGE),
    ("if-match", VERSION),
    ("if-none-match", VERSION),
    ("if-modified-since", VERSION),
    ("if-unmodified-since", VERSION),
    ("x-goog-if-generation-match", VERSION),
    ("x-goog-if-metageneration-match", VERSION),
    ("accept-encoding", CODING),
    ("te", CODING),
    ("content-length", CONNECTION),
    ("transfer-encoding", CONNECTION),
    ("trailer", CONNECTION),
    ("expect", CONNECTION),
    ("host", CONNECTION),
    ("connection", CONNECTION),
    ("keep-alive", CONNECTION),
    ("upgrade", CONNECTION),
    ("proxy-authorization", CONNECTION),
    ("proxy-connection", CONNECTION),
    ("x-amz-date", SIGNING),
    ("x-amz-content-sha256", SIGNING),
    ("x-amz-security-token", SIGNING),
    ("x-amz-checksum-mode", SIGNING),
    ("x-ms-date", SIGNING),
    ("x-ms-version", SIGNING),
];

const RANGE: &str = "the engine asks for ranges itself";
const VERSION: &str = "the engine sets preconditions itself, from the version that is asked for";
const CODING: &str = "the engine asks for the bytes as they are stored";
const CONNECTION: &str = "it belongs to the connection, not to the blob";
const SIGNING: &str = "it is set where the request is signed";

/// Header fields that are sent with every request for a blob.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ExtraHeaders(HeaderMap);

impl fmt::Debug for ExtraHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl ExtraHeaders {
    /// No fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field; an earlier field of the same name stays.
    ///
    /// Fails with `Invalid` for a name that is not valid or that the engine sets itself, and for a
    /// value with characters other than visible ASCII, spaces and tabs. The error does not show the
    /// value.
    pub fn add(&mut self, name: &str, value: &str) -> Result<()> {
        let Ok(parsed) = HeaderName::from_bytes(name.as_bytes()) else {
            // The text may be a secret value in the wrong position, so the error does not show it.
            return Err(invalid("a header", "its name has characters that no name can have")
                .with_hint("write NAME: VALUE"));
        };
        let target = || format!("header {parsed}");
        if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| parsed == *refused) {
            return Err(invalid(&target(), why));
        }
        // `HeaderValue` allows more characters than signing does.
        let sound = value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte));
        let Some(mut value) = HeaderValue::from_str(value).ok().filter(|_| sound) else {
            return Err(invalid(
                &target(),
                "its value has characters other than visible ASCII, spaces and tabs",
            ));
        };
        value.set_sensitive(true);
        self.0.append(parsed, value);
        Ok(())
    }

    /// Adds a field that is written as in a request: `Name: value`. White space around the value is
    /// removed.
    ///
    /// Fails as [`Self::add`] does, and if there is no colon.
    pub fn add_line(&mut self, line: &str) -> Result<()> {
        let Some((name, value)) = line.split_once(':') else {
            return Err(
                invalid("a header", "there is no colon in it").with_hint("write NAME: VALUE")
            );
        };
        self.add(name, value.trim_matches([' ', '\t']))
    }

    /// The names, in lower case, each name once.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(HeaderName::as_str)
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields for an object store, whose requests carry the store's own credentials.
    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    pub(super) fn for_store(&self, anonymous: bool) -> Result<HeaderMap> {
        if !anonymous && self.0.contains_key(http::header::AUTHORIZATION) {
            return Err(invalid("header authorization", "it is set by the store's credentials")
                .with_hint(crate::error::Setting::Anonymous));
        }
        Ok(self.0.clone())
    }

    /// For fields that the engine adds itself.
    #[cfg(feature = "reapi")]
    pub(super) fn as_map_mut(&mut self) -> &mut HeaderMap {
        &mut self.0
    }

    /// The fields for a server without a credential scheme, and for further processing.
    pub(super) fn as_map(&self) -> &HeaderMap {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn what_the_engine_decides_is_refused() {
        let mut headers = ExtraHeaders::new();
        for name in ["Range", "HOST", "If-Match", "accept-encoding", "Content-Length", "X-Amz-Date"]
        {
            let error = headers.add(name, "secret").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name}");
            assert!(error.to_string().contains(&name.to_ascii_lowercase()), "{error}");
        }
        assert!(headers.is_empty());
    }

    #[test]
    fn values_are_kept_and_never_shown() {
        let mut headers = ExtraHeaders::new();
        headers.add_line("X-Token:\t MiXeD Case, \"quoted\" ").unwrap();
        headers.add("x-token", "again").unwrap();
        headers.add_line("x-empty:").unwrap();
        assert_eq!(headers.names().collect::<Vec<_>>(), ["x-token", "x-empty"]);
        let values: Vec<_> = headers.0.get_all("x-token").iter().collect();
        assert_eq!(values, ["MiXeD Case, \"quoted\"", "again"]);
        assert_eq!(format!("{headers:?}"), r#"["x-token", "x-empty"]"#);
        for line in ["s3cret", "s3cret token: x", "x-a: s3cret\n", "x-a: s3crét", ": s3cret"] {
            let error = headers.add_line(line).unwrap_err();
            assert!(!format!("{error:?}").contains("s3cr"), "{error:?}");
        }
    }
}
