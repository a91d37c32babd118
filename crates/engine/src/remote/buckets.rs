//! [`Buckets`]: making and removing the bucket of a remote.

use std::fmt;

use async_trait::async_trait;

use crate::error::Result;

/// How a bucket is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketOptions {
    /// Where it is: a region of S3, a location of Google Cloud Storage. `None` for the region of
    /// the remote, or the service's default. A container of Azure is where its account is.
    pub region: Option<String>,
    /// The project that it belongs to, in Google Cloud Storage. `None` for the one that
    /// `GOOGLE_CLOUD_PROJECT` names.
    pub project: Option<String>,
}

impl BucketOptions {
    /// Sets where the bucket is.
    #[must_use]
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.region = Some(region.into());
        self
    }

    /// Sets the project that the bucket belongs to.
    #[must_use]
    pub fn project(mut self, project: impl Into<String>) -> Self {
        self.project = Some(project.into());
        self
    }
}

/// What [`Buckets::make`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MadeBucket {
    /// The bucket is new.
    New,
    /// The bucket was there, and belongs to the caller. Nothing about it was changed.
    AlreadyYours,
}

/// A remote that is a bucket, or a container, which can be made and removed.
#[async_trait]
pub trait Buckets: fmt::Debug + Send + Sync {
    /// Makes the bucket. So the call can be repeated.
    ///
    /// Fails with `AlreadyExists` if another account has a bucket of the name, and with `Invalid`
    /// if the name, the region or the project is not valid.
    ///
    /// Dropping the future ends the requests; the remote may still make the bucket.
    async fn make(&self, options: &BucketOptions) -> Result<MadeBucket>;

    /// Removes the bucket, if it is empty. Fails with `NotFound` if there is none, and with
    /// `NotEmpty` if there is anything in it, also an old version of a blob.
    ///
    /// Azure removes a container with everything in it. So it is listed first, and a blob that
    /// another client stores in that moment is lost.
    ///
    /// Dropping the future ends the requests; the remote may still remove the bucket.
    async fn remove(&self) -> Result<()>;
}
