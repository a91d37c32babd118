//! The blobs of a server, by path, with their earlier versions if the server keeps them.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{blob::Blob, flavour::Problem};

/// The version of the first written blob. Like a generation of GCS, it looks like microseconds since
/// 1970, and it is higher than the versions that tests give to their own blobs.
const VERSION_FIRST: u64 = 1_700_000_000_000_000;

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
    written: AtomicU64,
    /// Paths of buckets that are there even without a blob, each with a slash at its end, and their
    /// regions.
    buckets: Mutex<BTreeMap<String, Option<String>>>,
    /// Newest last; never empty.
    blobs: Mutex<BTreeMap<String, Vec<Blob>>>,
}

impl Store {
    pub(crate) fn new(versioning: bool) -> Self {
        Self {
            versioning,
            written: AtomicU64::new(0),
            buckets: Mutex::default(),
            blobs: Mutex::default(),
        }
    }

    /// Puts `blob` at `path`. If it replaces an older blob, it gets a higher version.
    pub(crate) fn put(&self, path: &str, blob: Blob) {
        let _ = self.put_if(path, blob, |_| Ok(()));
    }

    /// The same, if `check` accepts what is there. Both happen as one step. Returns the blob with
    /// its version.
    pub(crate) fn put_if(
        &self,
        path: &str,
        mut blob: Blob,
        check: impl FnOnce(Option<&Blob>) -> Result<(), Problem>,
    ) -> Result<Blob, Problem> {
        let mut blobs = self.lock();
        let path = absolute(path);
        check(blobs.get(&path).and_then(|versions| versions.last()))?;
        let versions = blobs.entry(path).or_default();
        if let Some(previous) = versions.last() {
            blob.version = blob.version.max(previous.version.saturating_add(1));
        }
        if !self.versioning {
            versions.clear();
        }
        versions.push(blob.clone());
        Ok(blob)
    }

    /// The version of the next written blob. No two blobs get the same one, also after a delete.
    pub(crate) fn next_version(&self) -> u64 {
        VERSION_FIRST + self.written.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn remove(&self, path: &str) {
        self.lock().remove(&absolute(path));
    }

    /// Removes the blob, if `check` accepts what is there; returns whether there was one.
    pub(crate) fn remove_if(
        &self,
        path: &str,
        check: impl FnOnce(Option<&Blob>) -> Result<(), Problem>,
    ) -> Result<bool, Problem> {
        let mut blobs = self.lock();
        let path = absolute(path);
        check(blobs.get(&path).and_then(|versions| versions.last()))?;
        Ok(blobs.remove(&path).is_some())
    }

    /// Removes one version of a blob; returns whether there was one.
    pub(crate) fn remove_version(&self, path: &str, id: &str) -> bool {
        let mut blobs = self.lock();
        let Some(versions) = blobs.get_mut(path) else { return false };
        let before = versions.len();
        versions.retain(|blob| blob.version_id() != id);
        let is_removed = versions.len() < before;
        if versions.is_empty() {
            blobs.remove(path);
        }
        is_removed
    }

    /// The first path from `from` on, in the order of bytes, and its current blob.
    pub(crate) fn next_at(&self, from: &str) -> Option<(String, Blob)> {
        let blobs = self.lock();
        let mut range = blobs.range::<str, _>((Bound::Included(from), Bound::Unbounded));
        let (path, versions) = range.next()?;
        Some((path.clone(), versions.last()?.clone()))
    }

    /// The path of every blob, in the order of bytes.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Makes a bucket that is there even without a blob.
    pub(crate) fn make_bucket(&self, path: &str) {
        self.buckets().entry(path.to_owned()).or_default();
    }

    /// The same with a region; returns whether the bucket is new.
    pub(crate) fn make_bucket_in(&self, path: &str, region: Option<String>) -> bool {
        if self.has_below(path) {
            return false;
        }
        self.buckets().insert(path.to_owned(), region);
        true
    }

    /// Removes a bucket; `None` if there is none, and false if there is a blob in it.
    pub(crate) fn remove_bucket(&self, path: &str) -> Option<bool> {
        if self.next_at(path).is_some_and(|(blob, _)| blob.starts_with(path)) {
            return Some(false);
        }
        self.buckets().remove(path).map(|_| true)
    }

    /// The buckets that were made, each with a slash at its end.
    pub(crate) fn made_buckets(&self) -> Vec<String> {
        self.buckets().keys().cloned().collect()
    }

    /// The region that a bucket was made in, if its maker named one.
    pub(crate) fn region_of(&self, path: &str) -> Option<String> {
        self.buckets().get(path).cloned().flatten()
    }

    fn buckets(&self) -> MutexGuard<'_, BTreeMap<String, Option<String>>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Whether this bucket was made or any blob is below this path.
    pub(crate) fn has_below(&self, folder: &str) -> bool {
        let made = self.buckets().contains_key(folder);
        made || self.next_at(folder).is_some_and(|(path, _)| path.starts_with(folder))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Blob>>> {
        self.blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}
