//! The URL of a cache server over HTTP: user and password in it become the header `Authorization`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate::{Error, ErrorKind, Operation, Result};
use tidegate_server::cache_client::{CacheClient, CacheClientError};

/// A client of the server at a URL. Blocks.
pub(crate) fn client(url: &str) -> Result<CacheClient> {
    let refused = |error: CacheClientError| {
        // The URL may hold a password.
        let target = "the URL of the cache";
        Error::new(ErrorKind::Invalid, Operation::Locate, target, "it cannot be used")
            .caused_by(error)
            .with_hint("write http://HOST:PORT, or https://USER:PASSWORD@HOST/PATH")
    };
    let (url, user) = without_user(url);
    let authorization = user.map(|user| format!("Basic {}", STANDARD.encode(user)));
    CacheClient::new(&url, authorization.as_deref()).map_err(refused)
}

/// A URL without user and password, and these, with percent signs decoded.
fn without_user(url: &str) -> (String, Option<Vec<u8>>) {
    let Some((scheme, rest)) = url.split_once("://") else { return (url.to_owned(), None) };
    let authority = rest.split('/').next().unwrap_or_default();
    let Some((user, host)) = authority.rsplit_once('@') else { return (url.to_owned(), None) };
    let user = percent_encoding::percent_decode_str(user).collect();
    (format!("{scheme}://{host}{}", &rest[authority.len()..]), Some(user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_leaves_the_url() {
        let rows = [
            ("http://host:80/go", "http://host:80/go", None),
            ("https://a:b@host/go/", "https://host/go/", Some("a:b")),
            ("https://a:p%40ss@host", "https://host", Some("a:p@ss")),
            ("https://host/a@b", "https://host/a@b", None),
        ];
        for (url, expected, user) in rows {
            let expected = (expected.to_owned(), user.map(|user| user.as_bytes().to_vec()));
            assert_eq!(without_user(url), expected);
        }
        assert!(client("ftp://host").is_err());
        assert!(client("http://").is_err());
    }
}
