//! [`Location`]: one blob, by the remote or the store that holds it.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tidegate_core::digest::Digest;
use tidegate_core::printable::escaped;

use super::file::FileRemote;
use super::locate::{invalid, last_segment};
use super::pinned::Pinned;
use super::{Delete, List, Remote, Selection, Version, Write};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::names::is_reserved;
use crate::store::{ChunkStore, StoreRemote};

/// One blob: the remote that holds it and the name it has there.
#[derive(Clone)]
pub struct Location {
    /// The remote.
    pub remote: Arc<dyn Remote>,
    /// The blob's name at the remote; empty for a cache without a blob, the target of an upload.
    pub blob: String,
    pub(super) display: String,
    pub(super) file_name: Option<String>,
    pub(super) stored: Option<Stored>,
}

/// A blob's place in a store of chunks.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) store: Arc<dyn ChunkStore>,
    /// `None` where an upload gives the blob its name.
    pub(crate) digest: Option<Digest>,
    /// There is no other way to the blob, such as a request for a range of it.
    pub(crate) is_only: bool,
}

impl Location {
    /// A blob of any remote; `display` is shown to people and must hold no secrets. Control
    /// characters in it are escaped.
    pub fn new(
        remote: Arc<dyn Remote>,
        blob: impl Into<String>,
        display: impl Into<String>,
    ) -> Self {
        let blob = blob.into();
        let file_name = last_segment(&blob);
        let display = escaped(&display.into()).into_owned();
        Self { remote, blob, display, file_name, stored: None }
    }

    /// A blob in a store of chunks.
    pub fn in_store(store: Arc<dyn ChunkStore>, digest: &Digest) -> Self {
        let remote = Arc::new(StoreRemote::new(Arc::clone(&store)));
        let stored = Stored { store, digest: Some(*digest), is_only: true };
        Self {
            remote,
            blob: digest.to_string(),
            display: digest.to_string(),
            file_name: Some(digest.checksum().hex()),
            stored: Some(stored),
        }
    }

    /// The target of an upload to a store of chunks, where the blob gets the name of its content.
    pub fn any_in_store(store: Arc<dyn ChunkStore>) -> Self {
        let remote = Arc::new(StoreRemote::new(Arc::clone(&store)));
        Self {
            remote,
            blob: String::new(),
            display: "a store of chunks".to_owned(),
            file_name: None,
            stored: Some(Stored { store, digest: None, is_only: true }),
        }
    }

    /// A local file.
    pub(super) fn of_file(path: &str) -> Self {
        let file_name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
        Self {
            remote: Arc::new(FileRemote::default()),
            blob: path.to_owned(),
            display: escaped(path).into_owned(),
            file_name,
            stored: None,
        }
    }

    /// The same blob in one version: a response that brings another one is `Changed`.
    ///
    /// The kinds depend on the remote: a generation in Google Cloud Storage, a version id in S3 and
    /// Azure, and for both and HTTP an entity tag or a modification date. Fails with `Invalid` for a
    /// version of another kind, or one that cannot be.
    pub fn at(&self, version: Version) -> Result<Self> {
        self.remote.check_version(&version)?;
        let is_own = |stored: &Stored| {
            stored.digest.is_some_and(|digest| version == Version::Digest(digest.to_string()))
        };
        // A digest pins itself; a store is not asked for another one.
        let stored = self.stored.clone().filter(is_own);
        let remote = Arc::new(Pinned::new(Arc::clone(&self.remote), version, &self.display));
        Ok(Self { remote, stored, ..self.clone() })
    }

    /// The remote as one that stores blobs. Fails with `Unsupported` where it does not.
    pub fn write(&self) -> Result<&dyn Write> {
        self.remote.as_write().ok_or_else(|| self.lacks("does not store blobs"))
    }

    /// The remote as one that lists blobs. Fails with `Unsupported` where it does not.
    pub fn list(&self) -> Result<&dyn List> {
        self.remote.as_list().ok_or_else(|| self.lacks("does not list blobs"))
    }

    /// The remote as one that deletes blobs. Fails with `Unsupported` where it does not.
    pub fn delete(&self) -> Result<&dyn Delete> {
        self.remote.as_delete().ok_or_else(|| self.lacks("does not delete blobs"))
    }

    /// The input is understood, but this kind of remote cannot do it: a mistake in the URL, as far as
    /// the user is concerned.
    fn lacks(&self, what: &str) -> Error {
        let message = format!("a remote of scheme {} {what}", self.remote.scheme());
        Error::new(ErrorKind::Unsupported, Operation::Locate, &self.display, message)
    }

    /// Everything that decides which object this is.
    pub(crate) fn selection(&self) -> Option<Selection> {
        self.remote.selection(&self.blob)
    }

    /// The store of chunks that holds it, where it is in one.
    pub fn store(&self) -> Option<&Arc<dyn ChunkStore>> {
        self.stored.as_ref().map(|stored| &stored.store)
    }

    /// Its place in a store of chunks.
    pub(crate) fn stored(&self) -> Option<&Stored> {
        self.stored.as_ref()
    }

    /// Fails with `Invalid` where it names a cache, but no blob in it.
    pub(crate) fn check_is_blob(&self) -> Result<()> {
        if self.stored.as_ref().is_none_or(|stored| stored.digest.is_some()) {
            return Ok(());
        }
        Err(no_blob(&self.display))
    }

    /// The blob's URL without user info and query, where secrets hide, and with control characters
    /// escaped.
    pub fn display(&self) -> &str {
        &self.display
    }

    /// The last segment of the blob's name: what a copy in a folder is called. `None` where the
    /// name ends in a slash, is no plain file name (as one with control characters), or is one that
    /// part files and indexes have (`.NAME.tidegate-part`): the owner of a blob's name must not
    /// choose what a later download resumes.
    pub fn file_name(&self) -> Option<&str> {
        let is_ours = |name: &&str| is_reserved(OsStr::new(name));
        self.file_name.as_deref().filter(|name| !is_ours(name))
    }
}

/// A URL names a cache where it should name a blob.
pub(super) fn no_blob(display: &str) -> Error {
    invalid(display, "the URL names a cache, but no blob in it")
        .with_hint("write grpc://HOST:PORT/INSTANCE/sha256/HASH/SIZE")
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Location").field(&self.display).finish()
    }
}
