//! [`CacheUrl`]: the parts of a `grpc://` or `grpcs://` URL.
//!
//! `grpc://HOST[:PORT][/INSTANCE]` is a cache, the target of a put.
//! `grpc://HOST[:PORT][/INSTANCE]/sha256/HASH/SIZE` is a blob in it. An instance name may be empty
//! and may contain slashes. The blob may also have the form of the API's resource names,
//! `blobs/HASH/SIZE` and `blobs/blake3/HASH/SIZE`, as build tools print it.
//!
//! Invariant: parsing the displayed URL gives an equal one.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use tidegate_core::digest::Digest;
use tidegate_reapi::resource::is_keyword;
use url::Url;

use super::super::locate::{invalid, parse};
use crate::error::{Result, Setting};

/// Characters that must be escaped in a URL's path. `%` is included, so that no name is decoded
/// twice.
const ESCAPED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'?').add(b'`').add(b'%');

/// A cache that speaks the Remote Execution API, or a blob in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CacheUrl {
    tls: bool,
    authority: String,
    instance: String,
    digest: Option<Digest>,
}

impl CacheUrl {
    /// Parses a URL as the module docs describe it.
    ///
    /// Fails with `Invalid`. The error does not show user info and query, which may be secrets.
    pub fn parse(text: &str) -> Result<Self> {
        let url = parse(text)?;
        let tls = match url.scheme() {
            "grpc" => false,
            "grpcs" => true,
            _ => return Err(invalid(&shown(&url), "expected grpc:// or grpcs://")),
        };
        let refuse = |message: &str| invalid(&shown(&url), message);
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refuse("credentials do not belong in the URL").with_hint(Setting::Headers));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(refuse("a cache's URL has no query and no fragment"));
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| refuse("the host is missing"))?.to_ascii_lowercase();
        if http::uri::Authority::try_from(host.as_str()).is_err() {
            return Err(refuse("the host has characters that no host can have"));
        }
        let port = url.port().unwrap_or(if tls { 443 } else { 80 });
        let segments = segments(&url).ok_or_else(|| refuse("its path is not UTF-8"))?;
        let (instance, digest) = split(&segments).map_err(|message| {
            refuse(&message)
                .with_hint("write grpc://HOST:PORT/INSTANCE/sha256/HASH/SIZE for a blob")
        })?;
        Ok(Self { tls, authority: format!("{host}:{port}"), instance, digest })
    }

    /// Whether the connection is encrypted: `grpcs`.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Host and port.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The instance's name; may be empty.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The blob, if the URL names one.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The URL of another blob in the same cache, or of the cache if `digest` is `None`.
    #[must_use]
    pub fn with_digest(&self, digest: Option<Digest>) -> Self {
        Self { digest, ..self.clone() }
    }
}

impl fmt::Display for CacheUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "grpcs" } else { "grpc" };
        write!(f, "{scheme}://{}", self.authority)?;
        if !self.instance.is_empty() {
            write!(f, "/{}", utf8_percent_encode(&self.instance, ESCAPED))?;
        }
        match &self.digest {
            Some(digest) => write!(f, "/{digest}"),
            None => Ok(()),
        }
    }
}

/// The URL without user info, query and fragment, which may hold secrets.
fn shown(url: &Url) -> String {
    let mut shown = url.clone();
    // Both fail only for URLs that cannot have user info.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.set_query(None);
    shown.set_fragment(None);
    shown.to_string()
}

/// The path's segments, decoded; a final slash adds no segment.
fn segments(url: &Url) -> Option<Vec<String>> {
    let path = url.path().strip_prefix('/').unwrap_or(url.path());
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Some(Vec::new());
    }
    let decode = |text| percent_decode_str(text).decode_utf8().ok().map(String::from);
    path.split('/').map(decode).collect()
}

/// Splits the path into the instance and the blob at its end.
fn split(segments: &[String]) -> Result<(String, Option<Digest>), String> {
    let (instance, digest) = match segments.iter().position(|segment| segment == "blobs") {
        Some(place) => {
            let (instance, rest) = segments.split_at(place);
            (instance, Some(resource(rest.get(1..).unwrap_or_default())?))
        }
        None => match segments {
            [instance @ .., function, hash, len] if is_function(function) => {
                (instance, Some(digest(function, hash, len)?))
            }
            _ => (segments, None),
        },
    };
    // The URL of such a cache would look like a blob's URL.
    if matches!(instance, [.., function, _, _] if is_function(function)) {
        return Err("the instance's name ends like a blob's".to_owned());
    }
    for segment in instance {
        // The server would read a slash from `%2F` as a separator.
        if segment.is_empty() || segment.contains('/') {
            return Err("a part of the instance's name is empty or has a slash".to_owned());
        }
        if is_keyword(segment) {
            return Err(format!("{segment} cannot be part of an instance's name"));
        }
    }
    Ok((instance.join("/"), digest))
}

fn is_function(segment: &str) -> bool {
    matches!(segment, "sha256" | "blake3")
}

/// The part of a resource name after `blobs/`.
fn resource(segments: &[String]) -> Result<Digest, String> {
    match segments {
        [hash, len] => digest("sha256", hash, len),
        [function, hash, len] => digest(function, hash, len),
        _ => Err("expected HASH/SIZE after blobs/".to_owned()),
    }
}

fn digest(function: &str, hash: &str, len: &str) -> Result<Digest, String> {
    Digest::parse(&format!("{function}/{hash}/{len}")).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_url_names_a_cache_or_a_blob_in_it() {
        for (text, shown, instance, blob) in [
            ("grpc://Cache", "grpc://cache:80", "", false),
            ("grpcs://cache/", "grpcs://cache:443", "", false),
            ("grpc://[::1]:8980/a/b%20c/", "grpc://[::1]:8980/a/b%20c", "a/b c", false),
            ("grpc://h:1/sha256/HASH/0", "grpc://h:1/sha256/HASH/0", "", true),
            ("grpc://h:1/a/b/blake3/HASH/7", "grpc://h:1/a/b/blake3/HASH/7", "a/b", true),
            ("grpc://h:1/a/blobs/HASH/7", "grpc://h:1/a/sha256/HASH/7", "a", true),
            ("grpc://h:1/blobs/blake3/HASH/7", "grpc://h:1/blake3/HASH/7", "", true),
            ("grpc://h:1/sha256/x", "grpc://h:1/sha256/x", "sha256/x", false),
        ] {
            let url = CacheUrl::parse(&text.replace("HASH", HASH)).unwrap();
            assert_eq!(url.to_string(), shown.replace("HASH", HASH), "{text}");
            assert_eq!((url.instance(), url.digest().is_some()), (instance, blob), "{text}");
            assert_eq!(CacheUrl::parse(&url.to_string()).unwrap(), url, "{text}");
        }
    }

    #[test]
    fn what_names_nothing_is_refused_without_showing_secrets() {
        for text in [
            "grpc:///x",
            "grpc://h/a//b",
            "grpc://h/a%2Fb",
            "grpc://h/%ff",
            "grpc://h/uploads/x",
            "grpc://h/a/blobs/HASH",
            "grpc://h/a/blobs/md5/HASH/1",
            "grpc://h/sha256/HASH/-1",
            "grpc://h/sha256/HASH/01",
            "grpc://h/sha256/abc/1",
            "grpc://h/sha256/HASH/1/sha256/HASH/2",
            "grpc://me:secret@h/a",
            "grpc://h/a?token=secret",
            "grpc://h/a#secret",
            "grpc://h:99999/a",
            "grpc://h%20x/a",
        ] {
            let error = CacheUrl::parse(&text.replace("HASH", HASH)).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_is_displayed_as_a_url_that_is_taken_for_the_same(
            host in "[a-zA-Z0-9.%\\[\\]:-]{1,12}",
            path in "([a-z0-9%/.?# é\\\\^{}-]|%2[0-9a-f]|blobs|sha256/){0,12}",
            blob in prop::sample::select(vec!["", "/sha256/HASH/0", "/blobs/HASH/7"]),
        ) {
            let text = format!("grpc://{host}/{path}{}", blob.replace("HASH", HASH));
            if let Ok(url) = CacheUrl::parse(&text) {
                for url in [url.clone(), url.with_digest(None)] {
                    let shown = url.to_string();
                    let again = CacheUrl::parse(&shown);
                    prop_assert_eq!(again.ok(), Some(url), "{} as {}", text, shown);
                }
            }
        }
    }
}
