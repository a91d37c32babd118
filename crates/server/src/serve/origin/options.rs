//! [`OriginOptions`]: which remotes a server serves, and how.

use std::time::Duration;

use tidegate::{ClientOptions, Error, ErrorKind, Operation, Result};

/// A remote that is served under a name.
#[derive(Clone, PartialEq, Eq)]
pub struct Origin {
    name: String,
    base: String,
}

impl Origin {
    /// The origin of `NAME=URL`. The name has letters, digits, `-`, `_` and `.`. The URL is a prefix:
    /// `https://host/releases`, `gs://bucket/prefix`, `s3://bucket`, `az://container`, `file:///folder`.
    ///
    /// Fails with `Invalid` for other text.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, base) = text.split_once('=').unwrap_or((text, ""));
        let invalid = |message: &str| {
            let error = Error::new(ErrorKind::Invalid, Operation::Locate, name, message);
            error.with_hint("write NAME=URL, for example releases=https://host/releases")
        };
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.is_empty() || matches!(name, "." | "..") || !name.bytes().all(is_plain) {
            return Err(invalid("the name of an origin has letters, digits, '-', '_' and '.'"));
        }
        let Some((scheme, rest)) = base.split_once("://") else {
            return Err(invalid("the origin has no URL"));
        };
        if rest.is_empty() || rest.contains(['?', '#']) {
            return Err(invalid("the URL of an origin is a prefix without a query"));
        }
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(&*scheme, "http" | "https" | "gs" | "s3" | "az" | "file") {
            return Err(invalid("an origin has a URL of http, https, gs, s3, az or file"));
        }
        let base = format!("{scheme}://{}", rest.trim_end_matches('/'));
        Ok(Self { name: name.to_owned(), base })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL without a slash at the end. It may hold credentials.
    pub fn url(&self) -> &str {
        &self.base
    }
}

/// Without the URL, which may hold credentials.
impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Origin").field(&self.name).finish()
    }
}

/// Which remotes a server serves, and how.
#[derive(Clone, Debug)]
pub struct OriginOptions {
    /// The remotes. None by default.
    pub origins: Vec<Origin>,
    /// How long a version counts as fresh after the remote has confirmed it; a minute by default, so
    /// that a file of many builds costs its remote one request a minute.
    pub fresh_for: Duration,
    /// Whether a range is served while its blob is being fetched, before the blob is verified. Off by
    /// default.
    pub serves_unverified: bool,
    /// Whether Remote Asset calls may fetch any `http` or `https` URL. Off by default, because such a
    /// server reaches every host of its network for its clients.
    pub fetches_any: bool,
    /// How remotes are reached. Its budget is not used.
    pub client: ClientOptions,
}

impl OriginOptions {
    /// Whether nothing is ever fetched.
    pub(in crate::serve) fn is_unused(&self) -> bool {
        self.origins.is_empty() && !self.fetches_any
    }
}

impl Default for OriginOptions {
    fn default() -> Self {
        Self {
            origins: Vec::new(),
            fresh_for: Duration::from_mins(1),
            serves_unverified: false,
            fetches_any: false,
            client: ClientOptions::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_names_and_prefixes() {
        let origin = Origin::parse("rel-1.0=HTTPS://me:secret@host/a/").unwrap();
        assert_eq!((origin.name(), origin.url()), ("rel-1.0", "https://me:secret@host/a"));
        assert!(!format!("{origin:?}").contains("secret"));
        assert_eq!(Origin::parse("b=gs://bucket").unwrap().url(), "gs://bucket");
        assert_eq!(Origin::parse("f=file:///data/x").unwrap().url(), "file:///data/x");
        for wrong in [
            "",
            "name",
            "=http://h",
            "a/b=http://h",
            "..=http://h",
            "a=",
            "a=host/path",
            "a=http://",
            "a=http://h/?q=1",
            "a=http://h#x",
            "a=ftp://h",
            "a=grpc://h",
        ] {
            let error = Origin::parse(wrong).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{wrong}");
        }
        let error = Origin::parse("a=ftp://me:secret@h").unwrap_err();
        assert!(!error.chain().contains("secret"));
    }
}
