//! `store:DIR`: a store of the cache server in a folder of this machine, and blobs in it,
//! `store:DIR/sha256/HASH/SIZE`.
//!
//! A path with such a name is written `./store:NAME`. A store is opened once, however many sources
//! are in it.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate::store::ChunkStore;
use tidegate::{Client, Error, ErrorKind, Location, Operation, Result};
use tidegate_core::Digest;
use tidegate_server::store::LocalStore;

use crate::local;

const PREFIX: &str = "store:";

/// A store, or a blob in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreUrl {
    folder: String,
    digest: Option<Digest>,
}

impl StoreUrl {
    /// `None` if the text has another form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(PREFIX)?;
        // The last three segments may name a blob.
        let mut slashes = rest.rmatch_indices('/').map(|(at, _)| at);
        let blob = slashes.nth(2).and_then(|at| {
            let digest = Digest::parse(&rest[at + 1..]).ok()?;
            Some((&rest[..at], digest))
        });
        Some(match blob {
            Some((folder, digest)) => Self { folder: folder.to_owned(), digest: Some(digest) },
            None => Self { folder: rest.to_owned(), digest: None },
        })
    }

    pub(crate) fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The URL of another blob in the same store, or of the store if `digest` is `None`.
    pub(crate) fn with_digest(&self, digest: Option<Digest>) -> Self {
        Self { digest, ..self.clone() }
    }

    fn folder(&self) -> Result<PathBuf> {
        if self.folder.is_empty() {
            return Err(self.invalid("the folder is missing").with_hint("write store:DIR"));
        }
        Ok(PathBuf::from(&self.folder))
    }

    fn invalid(&self, message: &str) -> Error {
        Error::new(ErrorKind::Invalid, Operation::Locate, self.to_string(), message)
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.folder)?;
        match &self.digest {
            Some(digest) => write!(f, "/{digest}"),
            None => Ok(()),
        }
    }
}

/// The stores that a command has open.
#[derive(Debug, Default)]
pub(crate) struct Stores(HashMap<PathBuf, LocalStore>);

impl Stores {
    /// Locates a blob; `-` is standard input.
    pub(crate) fn source(&mut self, client: &Client, text: &str) -> Result<Location> {
        let Some(url) = StoreUrl::parse(text) else { return local::source(client, text) };
        let digest = url.digest.ok_or_else(|| {
            url.invalid("it names a store, but no blob in it")
                .with_hint("write store:DIR/sha256/HASH/SIZE")
        })?;
        let folder = url.folder()?;
        if !folder.is_dir() {
            let message = "there is no such store";
            let missing = Error::new(ErrorKind::NotFound, Operation::Locate, text, message);
            return Err(missing.with_hint("check the path"));
        }
        Ok(Location::in_store(self.open(&folder)?, &digest))
    }

    /// The place for an upload: a store, which is created if there is none, or a blob in it.
    pub(crate) fn target(&mut self, url: &StoreUrl) -> Result<Location> {
        let store = self.open(&url.folder()?)?;
        Ok(match &url.digest {
            Some(digest) => Location::in_store(store, digest),
            None => Location::any_in_store(store),
        })
    }

    /// Ends the stores' background work. Their blobs are safe without that; the next command opens
    /// them faster after it.
    pub(crate) async fn close(self) {
        for store in self.0.into_values() {
            store.close().await;
        }
    }

    fn open(&mut self, folder: &Path) -> Result<Arc<dyn ChunkStore>> {
        let known = folder.canonicalize().ok();
        if let Some(store) = known.and_then(|folder| self.0.get(&folder)) {
            return Ok(Arc::new(store.clone()));
        }
        let store = LocalStore::open_blocking(folder, LocalStore::options_of_command(folder))?;
        // It exists now.
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        self.0.insert(folder, store.clone());
        Ok(Arc::new(store))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_folder_and_perhaps_a_blob() {
        let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        let digest = format!("sha256/{hash}/4");
        for (text, folder, blob) in [
            ("store:/var/cache".to_owned(), "/var/cache", None),
            ("store:cache/".to_owned(), "cache/", None),
            (format!("store:cache/{digest}"), "cache", Some(&digest)),
            (format!("store:/a/b/{digest}"), "/a/b", Some(&digest)),
            (format!("store:/a/{hash}/4"), &format!("/a/{hash}/4"), None),
        ] {
            let url = StoreUrl::parse(&text).unwrap();
            assert_eq!(url.folder, folder);
            assert_eq!(url.digest.map(|digest| digest.to_string()).as_ref(), blob);
            assert_eq!(url.to_string(), text);
        }
        assert_eq!(StoreUrl::parse("./store:cache"), None);
        assert!(StoreUrl::parse("store:").unwrap().folder().is_err());
    }
}
