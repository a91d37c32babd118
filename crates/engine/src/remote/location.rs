//! [`Location`]: one blob, and the remote or the store that holds it.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tidegate_core::digest::Digest;
use tidegate_core::printable::escaped;

use super::file::FileRemote;
use super::locate::{invalid, last_segment};
use super::pinned::Pinned;
use super::{Buckets, Delete, List, Presign, Remote, Selection, Version, Write};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::names::is_reserved;
use crate::store::{ChunkStore, StoreRemote};

/// One blob: the remote that holds it and its name there.
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
    /// `None` if an upload gives the blob its name.
    pub(crate) digest: Option<Digest>,
    /// Whether the store is the only way to the blob. Otherwise the remote also serves ranges of
    /// it.
    pub(crate) is_only: bool,
}

impl Location {
    /// A blob of any remote; `display` is shown to users and must hold no secrets. Control
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

    /// One chunk, or a whole blob, of a store, read for a transfer of `target`: errors name that.
    pub(crate) fn of_chunk(store: &Arc<dyn ChunkStore>, digest: &Digest, target: &str) -> Self {
        Self {
            remote: Arc::new(StoreRemote::new(Arc::clone(store))),
            blob: digest.to_string(),
            display: target.to_owned(),
            file_name: None,
            stored: None,
        }
    }

    /// The target of an upload to a store of chunks, where the blob is named by its content.
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
    pub(crate) fn of_file(path: &str) -> Self {
        let file_name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
        Self {
            remote: Arc::new(FileRemote::default()),
            blob: path.to_owned(),
            display: escaped(path).into_owned(),
            file_name,
            stored: None,
        }
    }

    /// The same blob in one version: a response with another version is `Changed`.
    ///
    /// The kind of version depends on the remote: a generation in Google Cloud Storage, a version
    /// id in S3 and Azure, and for these two and HTTP an entity tag or a modification date. Fails
    /// with `Invalid` for another kind of version, or for a malformed one.
    pub fn at(&self, version: Version) -> Result<Self> {
        self.remote.check_version(&version)?;
        let is_own = |stored: &Stored| {
            stored.digest.is_some_and(|digest| version == Version::Digest(digest.to_string()))
        };
        // A digest pins itself; a store is not asked for another version.
        let stored = self.stored.clone().filter(is_own);
        let remote = Arc::new(Pinned::new(Arc::clone(&self.remote), version, &self.display));
        Ok(Self { remote, stored, ..self.clone() })
    }

    /// The remote's ability to store blobs. Fails with `Unsupported` if it has none.
    pub fn write(&self) -> Result<&dyn Write> {
        self.remote.as_write().ok_or_else(|| self.lacks("does not store blobs"))
    }

    /// The remote's ability to list blobs. Fails with `Unsupported` if it has none.
    pub fn list(&self) -> Result<&dyn List> {
        self.remote.as_list().ok_or_else(|| self.lacks("does not list blobs"))
    }

    /// The remote's ability to delete blobs. Fails with `Unsupported` if it has none.
    pub fn delete(&self) -> Result<&dyn Delete> {
        self.remote.as_delete().ok_or_else(|| self.lacks("does not delete blobs"))
    }

    /// The remote's ability to sign URLs. Fails with `Unsupported` if it has none.
    pub fn presign(&self) -> Result<&dyn Presign> {
        self.remote.as_presign().ok_or_else(|| self.lacks("signs no URLs"))
    }

    /// The remote's ability to make and remove the bucket that it is. Fails with `Unsupported` if it
    /// has none, and with `Invalid` if this names something in the bucket.
    pub fn buckets(&self) -> Result<&dyn Buckets> {
        let buckets = self.remote.as_buckets().ok_or_else(|| self.lacks("has no buckets"))?;
        if self.blob.is_empty() {
            return Ok(buckets);
        }
        Err(invalid(&self.display, "it names something in a bucket")
            .with_hint("name the bucket alone"))
    }

    /// The input is valid, but this kind of remote lacks the ability: for the user, a mistake in
    /// the URL.
    fn lacks(&self, what: &str) -> Error {
        let message = format!("a remote of scheme {} {what}", self.remote.scheme());
        Error::new(ErrorKind::Unsupported, Operation::Locate, &self.display, message)
    }

    /// Everything that decides which object this is.
    pub(crate) fn selection(&self) -> Option<Selection> {
        self.remote.selection(&self.blob)
    }

    /// The store of chunks that holds it, if there is one.
    pub fn store(&self) -> Option<&Arc<dyn ChunkStore>> {
        self.stored.as_ref().map(|stored| &stored.store)
    }

    /// Its place in a store of chunks, if it has one.
    pub(crate) fn stored(&self) -> Option<&Stored> {
        self.stored.as_ref()
    }

    /// Fails with `Invalid` if it names a cache without a blob.
    pub(crate) fn check_is_blob(&self) -> Result<()> {
        if self.stored.as_ref().is_none_or(|stored| stored.digest.is_some()) {
            return Ok(());
        }
        Err(no_blob(&self.display))
    }

    /// The blob's URL without user info and query, which may hold secrets, and with control
    /// characters escaped.
    pub fn display(&self) -> &str {
        &self.display
    }

    /// The last segment of the blob's name, which a copy in a folder gets. `None` if the name ends
    /// in a slash, is not a plain file name (for example with control characters), or is a name of
    /// part files and indexes (`.NAME.tidegate-part`). The owner of a blob must not choose which
    /// file a later download resumes.
    pub fn file_name(&self) -> Option<&str> {
        let is_ours = |name: &&str| is_reserved(OsStr::new(name));
        self.file_name.as_deref().filter(|name| !is_ours(name))
    }
}

/// The error for a URL that names a cache but should name a blob.
pub(super) fn no_blob(display: &str) -> Error {
    invalid(display, "the URL names a cache, but no blob in it")
        .with_hint("write grpc://HOST:PORT/INSTANCE/sha256/HASH/SIZE")
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Location").field(&self.display).finish()
    }
}
