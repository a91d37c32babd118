//! Prefixes of URLs, as the configuration file names them.
//!
//! A prefix is a scheme (`s3://`), a scheme and a host or bucket (`https://host:8080`,
//! `s3://bucket`), or these and the first segments of a path. It ends where a segment ends: so
//! `https://a.example` is no prefix of `https://a.example.evil/x`, and `s3://b/log` is none of
//! `s3://b/logs/x`.
//!
//! Hosts are compared in lower case and without the default port, and paths of HTTP after `.` and
//! `..` are resolved: two spellings of one address have the same settings.

use std::fmt;

use url::Url;

/// Schemes of remotes behind a network.
const SCHEMES: [&str; 7] = ["gs", "s3", "az", "http", "https", "grpc", "grpcs"];

/// A prefix, or a whole URL without user info, query and fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    scheme: &'static str,
    /// The host and port, or the bucket; empty if only the scheme counts.
    authority: String,
    /// Empty, or a path that begins with a slash and does not end with one.
    path: String,
}

impl Prefix {
    /// Reads a prefix in the file. The error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.contains(['?', '#']) {
            return Err("a prefix has no query and no fragment".to_owned());
        }
        let authority = text.split_once("://").and_then(|(_, rest)| rest.split('/').next());
        if authority.is_some_and(|authority| authority.contains('@')) {
            return Err("a prefix holds no user name and no password".to_owned());
        }
        Self::of_url(text).ok_or_else(|| {
            let schemes = SCHEMES.map(|scheme| format!("{scheme}://")).join(", ");
            format!("a prefix begins with one of {schemes}, followed by a host or a bucket")
        })
    }

    /// What counts of a URL; `None` for a path, or for the URL of a local file.
    pub(crate) fn of_url(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let scheme = SCHEMES.into_iter().find(|known| scheme.eq_ignore_ascii_case(known))?;
        if rest.is_empty() {
            return Some(Self { scheme, authority: String::new(), path: String::new() });
        }
        let (authority, path) = match scheme {
            "http" | "https" => of_http(text)?,
            // A key is literal: it may contain `?` and `#`.
            "gs" | "s3" | "az" => split(rest),
            _ => {
                let (authority, path) = split(rest);
                (authority.to_ascii_lowercase(), path)
            }
        };
        let authority = authority.rsplit('@').next().unwrap_or_default().to_owned();
        let path = path.trim_end_matches('/').to_owned();
        (!authority.is_empty()).then_some(Self { scheme, authority, path })
    }

    pub(crate) fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// The prefix that is a scheme alone.
    pub(crate) fn of_scheme(&self) -> Self {
        Self { scheme: self.scheme, authority: String::new(), path: String::new() }
    }

    /// Whether `other` is this URL, or one below it.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        if self.scheme != other.scheme {
            return false;
        }
        if self.authority.is_empty() {
            return true;
        }
        let below = other.path.strip_prefix(self.path.as_str());
        self.authority == other.authority
            && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Orders the prefixes of one URL: a longer one has priority.
    pub(crate) fn len(&self) -> usize {
        self.authority.len() + self.path.len()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

/// Host and port, and the path.
fn of_http(text: &str) -> Option<(String, String)> {
    let url = Url::parse(text).ok()?;
    let host = url.host_str()?;
    let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    Some((authority, url.path().to_owned()))
}

fn split(rest: &str) -> (String, String) {
    let at = rest.find('/').unwrap_or(rest.len());
    (rest[..at].to_owned(), rest[at..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(prefix: &str, url: &str) -> bool {
        Prefix::parse(prefix).unwrap().covers(&Prefix::of_url(url).unwrap())
    }

    #[test]
    fn a_prefix_ends_where_a_segment_ends() {
        for (prefix, url, expected) in [
            ("https://a.example", "https://a.example/x?sig=1", true),
            ("https://a.example", "https://a.example.evil/x", false),
            ("https://a.example", "https://a.example@evil/x", false),
            ("https://a.example", "https://me:pw@a.example/x", true),
            ("https://a.example", "http://a.example/x", false),
            ("https://a.example", "https://a.example:8443/x", false),
            ("https://A.Example:443/", "https://a.example/x", true),
            ("https://a.example/p", "https://a.example/p", true),
            ("https://a.example/p/", "https://a.example/p/x", true),
            ("https://a.example/p", "https://a.example/pq", false),
            ("https://a.example/p", "https://a.example/p/../q", false),
            ("s3://", "s3://bucket/key", true),
            ("s3://bucket", "s3://bucket/key", true),
            ("s3://bucket", "s3://bucket-2/key", false),
            ("s3://bucket/a?b", "s3://bucket/a", false),
            ("grpc://Cache:80", "grpc://cache:80/main/sha256/x/1", true),
        ] {
            if prefix.contains('?') {
                assert!(Prefix::parse(prefix).is_err(), "{prefix}");
                continue;
            }
            assert_eq!(covers(prefix, url), expected, "{prefix} {url}");
        }
    }

    #[test]
    fn what_is_no_url_of_a_server_is_refused() {
        for text in ["a.example", "ftp://h", "file:///x", "https://u:pw@h", "https://h?a", "s3:/b"]
        {
            let error = Prefix::parse(text).unwrap_err();
            assert!(!error.contains("pw"), "{error}");
        }
        assert!(Prefix::of_url("/a/b").is_none() && Prefix::of_url("file:///a").is_none());
    }
}
