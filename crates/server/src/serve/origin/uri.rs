//! URIs of Remote Asset calls: which origin covers one.
//!
//! A server fetches no URL that its owner did not allow: a client could otherwise reach every host of
//! the server's network through it.

use super::path::{PathFlaw, check, decoded, is_encoded};
use super::{BlobPath, Origins};

/// Why a URI is not fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum UriFlaw {
    /// No origin covers it.
    NotCovered,
    /// It cannot name a blob of its origin.
    Path(PathFlaw),
}

impl UriFlaw {
    pub(in crate::serve) const fn message(self) -> &'static str {
        match self {
            Self::NotCovered => "no origin of this server covers the URI",
            Self::Path(flaw) => flaw.message(),
        }
    }
}

impl Origins {
    /// The blob that a URI names, through the origin with the longest URL that the URI begins with.
    pub(in crate::serve) fn path_of_uri(&self, uri: &str) -> Result<BlobPath, UriFlaw> {
        let uri = uri.split('#').next().unwrap_or_default();
        let Some((scheme, place)) = uri.split_once("://") else { return Err(UriFlaw::NotCovered) };
        let uri = format!("{}://{place}", scheme.to_ascii_lowercase());
        let covering = self.0.options.origins.iter().filter_map(|origin| {
            let rest = uri.strip_prefix(origin.url())?.strip_prefix('/')?;
            Some((origin, rest))
        });
        if let Some((origin, rest)) = covering.max_by_key(|(origin, _)| origin.url().len()) {
            check_rest(origin.url(), rest).map_err(UriFlaw::Path)?;
            return Ok(BlobPath { origin: origin.name().to_owned(), rest: rest.to_owned() });
        }
        let is_web = uri.starts_with("http://") || uri.starts_with("https://");
        if self.0.options.fetches_any && is_web {
            return Ok(BlobPath { origin: String::new(), rest: uri });
        }
        Err(UriFlaw::NotCovered)
    }
}

fn check_rest(base: &str, rest: &str) -> Result<(), PathFlaw> {
    if !is_encoded(base) {
        return check(rest);
    }
    let path = rest.split('?').next().unwrap_or_default();
    check(&decoded(path)?)
}

#[cfg(test)]
mod tests {
    use tidegate::Budget;

    use super::*;
    use crate::serve::origin::{Origin, OriginOptions};
    use crate::store::{LocalStore, StoreOptions};

    #[tokio::test]
    async fn a_uri_is_covered_by_the_longest_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStore::open(folder.path(), StoreOptions::new(64 << 20)).await.unwrap();
        let mut options = OriginOptions::default();
        for text in ["all=https://host", "some=https://host/some", "keys=gs://bucket/a"] {
            options.origins.push(Origin::parse(text).unwrap());
        }
        let make = |options: &OriginOptions| {
            Origins::new(options.clone(), store.clone(), Budget::default(), Budget::default())
        };
        let origins = make(&options);
        let found = |uri: &str| {
            origins.path_of_uri(uri).map(|path| format!("{} {}", path.origin, path.rest))
        };
        let rows = [
            ("https://host/x?y=1#z", "all x?y=1"),
            ("HTTPS://host/some/x%20y", "some x%20y"),
            ("https://host/somewhere", "all somewhere"),
            ("gs://bucket/a/b%20c?d", "keys b%20c?d"),
        ];
        for (uri, expected) in rows {
            assert_eq!(found(uri).as_deref(), Ok(expected), "{uri}");
        }
        for uri in ["https://host", "https://host.evil/x", "http://host/x", "/etc/passwd", "x", ""]
        {
            assert_eq!(found(uri), Err(UriFlaw::NotCovered), "{uri}");
        }
        for uri in ["https://host/some/../x", "https://host/%2e%2e/x", "gs://bucket/a/../b"] {
            assert_eq!(found(uri), Err(UriFlaw::Path(PathFlaw::Relative)), "{uri}");
        }
        let any = make(&OriginOptions { fetches_any: true, ..options });
        let path = any.path_of_uri("http://other/x").unwrap();
        assert_eq!((&*path.origin, &*any.url(&path)), ("", "http://other/x"));
        for uri in ["file:///etc/passwd", "gs://other/x", "grpc://host/x"] {
            assert_eq!(any.path_of_uri(uri), Err(UriFlaw::NotCovered), "{uri}");
        }
    }
}
