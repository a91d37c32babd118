//! [`PutUrl`]: where files can be put by their digests: a cache, or a store on this machine.

use std::fmt;

use tidegate::remote::reapi::CacheUrl;
use tidegate::{Client, Location, Result};
use tidegate_core::Digest;

use crate::store_url::{StoreUrl, Stores};

/// A place for blobs that are named by their digests, or a blob in it.
#[derive(Clone, Debug)]
pub(crate) enum PutUrl {
    Cache(CacheUrl),
    Store(StoreUrl),
}

impl PutUrl {
    /// Whether text has the form of such a URL.
    pub(crate) fn is_one(text: &str) -> bool {
        let is_cache = |scheme: &str| {
            scheme.eq_ignore_ascii_case("grpc") || scheme.eq_ignore_ascii_case("grpcs")
        };
        text.split_once("://").is_some_and(|(scheme, _)| is_cache(scheme))
            || StoreUrl::parse(text).is_some()
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        match StoreUrl::parse(text) {
            Some(url) => Ok(Self::Store(url)),
            None => CacheUrl::parse(text).map(Self::Cache),
        }
    }

    pub(crate) fn digest(&self) -> Option<Digest> {
        match self {
            Self::Cache(url) => url.digest(),
            Self::Store(url) => url.digest(),
        }
    }

    pub(crate) fn with_digest(&self, digest: Option<Digest>) -> Self {
        match self {
            Self::Cache(url) => Self::Cache(url.with_digest(digest)),
            Self::Store(url) => Self::Store(url.with_digest(digest)),
        }
    }

    pub(crate) fn locate(&self, client: &Client, stores: &mut Stores) -> Result<Location> {
        match self {
            Self::Cache(url) => client.locate_target(&url.to_string()),
            Self::Store(url) => stores.target(url),
        }
    }
}

impl fmt::Display for PutUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cache(url) => url.fmt(f),
            Self::Store(url) => url.fmt(f),
        }
    }
}
