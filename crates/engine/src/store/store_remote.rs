//! [`StoreRemote`]: the blobs of any [`ChunkStore`] as those of a [`Remote`], so that they can be
//! read as a stream.
//!
//! A blob's name here is its digest, which is also its version and its checksum.

use std::sync::Arc;

use async_trait::async_trait;
use tidegate_core::checksum::{Coverage, StoredChecksum};
use tidegate_core::digest::Digest;

use super::ChunkStore;
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::{BlobInfo, OpenRequest, Opened, Read, Remote, Selection, Version};

/// A store of chunks as a remote.
#[derive(Debug)]
pub(crate) struct StoreRemote(Arc<dyn ChunkStore>);

impl StoreRemote {
    pub(crate) fn new(store: Arc<dyn ChunkStore>) -> Self {
        Self(store)
    }
}

fn parse(blob: &str, operation: Operation) -> Result<Digest> {
    Digest::parse(blob).map_err(|error| {
        Error::new(ErrorKind::Invalid, operation, blob, "a store names blobs by their digests")
            .caused_by(error)
    })
}

#[async_trait]
impl Read for StoreRemote {
    async fn stat(&self, blob: &str) -> Result<BlobInfo> {
        let digest = parse(blob, Operation::Stat)?;
        if digest.len == 0 || self.0.missing(&[digest]).await?.is_empty() {
            return Ok(BlobInfo::of_digest(&digest));
        }
        Err(Error::new(ErrorKind::NotFound, Operation::Stat, blob, "the store does not have it"))
    }

    fn check_version(&self, version: &Version) -> Result<()> {
        if matches!(version, Version::Digest(_)) {
            return Ok(());
        }
        let message = "a store names versions by digests only";
        let version = version.to_string();
        Err(Error::new(ErrorKind::Invalid, Operation::Locate, version, message))
    }

    /// The digest alone: the same blob in every store.
    fn selection(&self, blob: &str) -> Option<Selection> {
        Some(Selection::new("digest").with("digest", blob))
    }

    /// The store sends everything from the start of the range, and the reader stops at its end.
    async fn open(&self, blob: &str, request: &OpenRequest, budget: &Budget) -> Result<Opened> {
        let digest = parse(blob, Operation::Read)?;
        if let Some(version) = &request.version {
            self.check_version(version)?;
            let is_own = |named: &String| named == blob || *named == digest.to_string();
            if !matches!(version, Version::Digest(named) if is_own(named)) {
                let message = format!("expected {version}, got {digest}");
                return Err(Error::new(ErrorKind::Changed, Operation::Read, blob, message));
            }
        }
        let range = request.range.resolve(digest.len).map_err(|error| {
            let message = "the range does not fit";
            Error::new(ErrorKind::OutOfRange, Operation::Read, blob, message).caused_by(error)
        })?;
        let body = self.0.get(&digest, range.start, budget).await?;
        let mut opened = Opened::new(BlobInfo::of_digest(&digest), range.start, body);
        opened.end = Some(digest.len);
        Ok(opened)
    }
}

impl Remote for StoreRemote {
    fn scheme(&self) -> &'static str {
        "store"
    }
}

impl BlobInfo {
    /// The facts that a digest gives about its blob.
    pub(crate) fn of_digest(digest: &Digest) -> Self {
        Self {
            len_bytes: Some(digest.len),
            version: Some(Version::Digest(digest.to_string())),
            checksums: vec![StoredChecksum {
                checksum: digest.checksum(),
                coverage: Coverage::FullObject,
            }],
            ..Self::default()
        }
    }
}
