//! A remote, limited to one version of its blobs: what [`super::Location::at`] returns.
//!
//! The reader needs no knowledge of it. Metadata requests, first requests and restarts all ask for
//! that version. A response of another version is `Changed`.

use std::sync::Arc;

use async_trait::async_trait;

use super::{BlobInfo, OpenRequest, Opened, Read, Remote, Selection, UploadedPart, Version};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result, Setting};

#[derive(Debug)]
pub(super) struct Pinned {
    remote: Arc<dyn Remote>,
    version: Version,
    // The blob's name in errors.
    display: String,
    // The remote's name in errors.
    scheme: String,
}

impl Pinned {
    pub(super) fn new(remote: Arc<dyn Remote>, version: Version, display: &str) -> Self {
        let scheme = format!("{} pinned to {version}", remote.scheme());
        Self { remote, version, display: display.to_owned(), scheme }
    }

    /// Refuses a request for another version, such as the one of an earlier download.
    fn agree(&self, asked: &Version, operation: Operation) -> Result<()> {
        if *asked == self.version {
            return Ok(());
        }
        let message = format!("expected {}, asked for {asked}", self.version);
        Err(Error::new(ErrorKind::Changed, operation, &self.display, message))
    }

    /// Checks that the remote reports this version, and returns it as the caller wrote it. The
    /// remote may write the same date differently, and a restart asks for the version that it was
    /// given.
    fn as_written(&self, info: BlobInfo, operation: Operation) -> Result<BlobInfo> {
        let named = self.version.expect(info.version.as_ref(), operation, &self.display);
        named.map_err(Self::explain)?;
        Ok(BlobInfo { version: Some(self.version.clone()), ..info })
    }

    fn explain(error: Error) -> Error {
        match error.kind() {
            ErrorKind::Changed => error.with_hint(Setting::Version),
            _ => error,
        }
    }
}

#[async_trait]
impl Read for Pinned {
    async fn stat(&self, blob: &str) -> Result<BlobInfo> {
        let asked = self.remote.stat_version(blob, &self.version).await;
        let info = asked.map_err(Self::explain)?;
        self.as_written(info, Operation::Stat)
    }

    async fn stat_version(&self, blob: &str, version: &Version) -> Result<BlobInfo> {
        self.agree(version, Operation::Stat)?;
        self.stat(blob).await
    }

    async fn open(&self, blob: &str, request: &OpenRequest, budget: &Budget) -> Result<Opened> {
        if let Some(asked) = &request.version {
            self.agree(asked, Operation::Read)?;
        }
        let version = Some(self.version.clone());
        let request = OpenRequest { range: request.range.clone(), version };
        let opened = self.remote.open(blob, &request, budget).await;
        let mut opened = opened.map_err(Self::explain)?;
        opened.info = self.as_written(opened.info, Operation::Read)?;
        Ok(opened)
    }

    fn check_version(&self, version: &Version) -> Result<()> {
        self.remote.check_version(version)
    }

    fn selection(&self, blob: &str) -> Option<Selection> {
        self.remote.selection(blob)
    }

    fn open_gives_checksums(&self) -> bool {
        self.remote.open_gives_checksums()
    }

    async fn uploaded_part(
        &self,
        blob: &str,
        number: u32,
        version: Option<&Version>,
    ) -> Result<Option<UploadedPart>> {
        if let Some(version) = version {
            self.agree(version, Operation::Stat)?;
        }
        self.remote.uploaded_part(blob, number, Some(&self.version)).await
    }
}

/// A pinned version can only be read: writing would create another version.
impl Remote for Pinned {
    fn scheme(&self) -> &str {
        &self.scheme
    }
}
