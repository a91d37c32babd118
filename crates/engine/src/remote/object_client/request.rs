//! [`ObjectRequest`]: a request for an object or its bucket, before it has credentials. Pure.

use std::borrow::Cow;
use std::fmt;

use http::{HeaderMap, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::starting_line::Runner;
use crate::error::Operation;
use crate::remote::write::Payload;

/// The characters that a signature of AWS leaves as they are.
const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The same in a path.
const ENCODED_PATH: AsciiSet = ENCODED.remove(b'/');

/// One request.
#[derive(Clone, Debug)]
pub(in crate::remote) struct ObjectRequest<'a> {
    pub(in crate::remote) method: Method,
    pub(in crate::remote) operation: Operation,
    /// `None` for the bucket itself.
    pub(in crate::remote) key: Option<&'a str>,
    /// Names and values, not encoded.
    pub(in crate::remote) query: Vec<(&'static str, Cow<'a, str>)>,
    pub(in crate::remote) headers: HeaderMap,
    pub(in crate::remote) payload: Option<&'a Payload>,
    /// Another address than the key's.
    elsewhere: Option<OtherAddress>,
    /// Keeps the last byte of the payload until the other requests of a race have come as far.
    pub(super) runner: Option<&'a Runner>,
}

/// The address of a request that is not for an object of the bucket.
#[derive(Clone, Debug)]
pub(in crate::remote) struct OtherAddress {
    /// The URL, without what [`ObjectRequest::query`] adds.
    pub(in crate::remote) url: Secret,
    /// Whether the request carries the client's credentials and headers.
    pub(in crate::remote) is_signed: bool,
    /// A status that is no failure, in addition to those of success.
    pub(in crate::remote) accepted: Option<u16>,
}

/// A text that `Debug` hides.
#[derive(Clone)]
pub(in crate::remote) struct Secret(pub(in crate::remote) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl<'a> ObjectRequest<'a> {
    pub(in crate::remote) fn new(method: Method, operation: Operation, key: &'a str) -> Self {
        Self {
            method,
            operation,
            key: Some(key),
            query: Vec::new(),
            headers: HeaderMap::new(),
            payload: None,
            elsewhere: None,
            runner: None,
        }
    }

    /// A request for the bucket itself.
    pub(in crate::remote) fn of_bucket(method: Method, operation: Operation) -> Self {
        Self { key: None, ..Self::new(method, operation, "") }
    }

    pub(in crate::remote) fn query(
        mut self,
        name: &'static str,
        value: impl Into<Cow<'a, str>>,
    ) -> Self {
        self.query.push((name, value.into()));
        self
    }

    pub(in crate::remote) fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers.extend(headers);
        self
    }

    pub(in crate::remote) fn payload(mut self, payload: &'a Payload) -> Self {
        self.payload = Some(payload);
        self
    }

    /// The same request as one of a race.
    #[cfg(any(feature = "gcs", feature = "s3"))]
    pub(in crate::remote) fn in_race(mut self, runner: Option<&'a Runner>) -> Self {
        self.runner = runner;
        self
    }

    /// The same request to another address; the key is only shown.
    #[cfg(feature = "gcs")]
    pub(in crate::remote) fn elsewhere(mut self, elsewhere: OtherAddress) -> Self {
        self.elsewhere = Some(elsewhere);
        self
    }

    /// Whether the request carries the client's credentials and headers.
    pub(super) fn is_signed(&self) -> bool {
        self.elsewhere.as_ref().is_none_or(|elsewhere| elsewhere.is_signed)
    }

    /// Whether a status is no failure.
    pub(super) fn accepts(&self, status: u16) -> bool {
        let accepted = self.elsewhere.as_ref().and_then(|elsewhere| elsewhere.accepted);
        (200..300).contains(&status) || accepted == Some(status)
    }

    /// The URL of the request.
    pub(super) fn url(&self, base: &str) -> String {
        let mut url = match &self.elsewhere {
            Some(elsewhere) => elsewhere.url.0.clone(),
            None => base.to_owned(),
        };
        if let (Some(key), None) = (self.key, &self.elsewhere) {
            url.push('/');
            url.extend(utf8_percent_encode(key, &ENCODED_PATH));
        }
        for (name, value) in &self.query {
            url.push(if url.contains('?') { '&' } else { '?' });
            url.extend(utf8_percent_encode(name, &ENCODED));
            url.push('=');
            url.extend(utf8_percent_encode(value, &ENCODED));
        }
        url
    }
}

/// A key as a header or a path names it.
pub(in crate::remote) fn encoded(key: &str) -> String {
    utf8_percent_encode(key, &ENCODED_PATH).to_string()
}
