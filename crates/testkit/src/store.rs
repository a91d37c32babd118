//! The blobs of a server, by path, with their earlier versions if the server keeps them.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::blob::Blob;

/// The version that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selector {
    Latest,
    /// A GCS generation.
    Generation(u64),
    /// An S3 version id.
    VersionId(String),
    /// A version that cannot exist, for example a generation that is not a number.
    Impossible,
}

#[derive(Debug)]
pub(crate) struct Store {
    versioning: bool,
    /// Newest last; never empty.
    blobs: Mutex<HashMap<String, Vec<Blob>>>,
}

impl Store {
    pub(crate) fn new(versioning: bool) -> Self {
        Self { versioning, blobs: Mutex::default() }
    }

    /// Puts `blob` at `path`. If it replaces an older blob, it gets a higher version.
    pub(crate) fn put(&self, path: &str, mut blob: Blob) {
        let mut blobs = self.lock();
        let versions = blobs.entry(absolute(path)).or_default();
        if let Some(previous) = versions.last() {
            blob.version = blob.version.max(previous.version.saturating_add(1));
        }
        if !self.versioning {
            versions.clear();
        }
        versions.push(blob);
    }

    pub(crate) fn remove(&self, path: &str) {
        self.lock().remove(&absolute(path));
    }

    pub(crate) fn find(&self, path: &str, selector: &Selector) -> Option<Blob> {
        let blobs = self.lock();
        let versions = blobs.get(path)?;
        let found = match selector {
            Selector::Latest => versions.last(),
            Selector::Generation(version) => versions.iter().find(|b| b.version == *version),
            Selector::VersionId(id) => versions.iter().find(|b| b.version_id() == *id),
            Selector::Impossible => None,
        };
        found.cloned()
    }

    /// Whether any blob is below this path.
    pub(crate) fn has_below(&self, folder: &str) -> bool {
        self.lock().keys().any(|path| path.starts_with(folder))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Blob>>> {
        self.blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}
