//! Whole blobs: a cache as a [`Remote`], so that its blobs are downloaded like those of any other
//! remote.
//!
//! A blob's name here is its digest, which is also its version and its checksum. So every read
//! gives the same bytes, and every download is verified.

use async_trait::async_trait;
use tidegate_core::digest::Digest;

use super::super::locate::invalid;
use super::super::{BlobInfo, OpenRequest, Opened, Read, Remote, Selection, Version};
use super::ReapiCache;
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};

impl ReapiCache {
    /// The digest in a blob's name.
    fn named(&self, blob: &str) -> Result<Digest> {
        Digest::parse(blob).map_err(|error| {
            invalid(&self.target(None), "its blobs are named by their digests").caused_by(error)
        })
    }
}

#[async_trait]
impl Read for ReapiCache {
    async fn stat(&self, blob: &str) -> Result<BlobInfo> {
        let digest = self.named(blob)?;
        if self.find_missing(&[digest], Operation::Stat).await?.is_empty() {
            return Ok(BlobInfo::of_digest(&digest));
        }
        let target = self.target(Some(&digest));
        Err(Error::new(ErrorKind::NotFound, Operation::Stat, target, "it is not there")
            .with_hint("check the digest and the instance's name"))
    }

    fn check_version(&self, version: &Version) -> Result<()> {
        let takes = matches!(version, Version::Digest(_));
        match version.flaw("a cache of the Remote Execution API", takes) {
            None => Ok(()),
            Some(flaw) => Err(invalid(&version.to_string(), &flaw)),
        }
    }

    /// The digest alone: the same blob in every cache.
    fn selection(&self, blob: &str) -> Option<Selection> {
        Some(Selection::new("digest").with("digest", blob))
    }

    async fn open(&self, blob: &str, request: &OpenRequest, budget: &Budget) -> Result<Opened> {
        let digest = self.named(blob)?;
        if let Some(version) = &request.version {
            self.check_version(version)?;
            if Version::Digest(digest.to_string()) != *version {
                let message = format!("expected {version}, got {digest}");
                let target = self.target(Some(&digest));
                return Err(Error::new(ErrorKind::Changed, Operation::Read, target, message));
            }
        }
        let range = request.range.resolve(digest.len).map_err(|error| {
            let target = self.target(Some(&digest));
            Error::new(ErrorKind::OutOfRange, Operation::Read, target, "the range does not fit")
                .caused_by(error)
        })?;
        let reading = self.read(&digest, range.clone(), budget).await?;
        Ok(Opened {
            info: BlobInfo::of_digest(&digest),
            start: range.start,
            end: Some(range.end),
            whole: false,
            encoded_unasked: false,
            unhurried: false,
            waited: reading.waited,
            requests: reading.requests,
            body: reading.body,
        })
    }
}

impl Remote for ReapiCache {
    fn scheme(&self) -> &'static str {
        "grpc"
    }
}
