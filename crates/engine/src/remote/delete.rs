//! [`Delete`]: removing blobs.

use std::fmt;

use async_trait::async_trait;

use super::{Guarantee, Version};
use crate::error::Result;

/// A blob to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRequest {
    /// Its name.
    pub blob: String,
    /// The version that it must be of, so that what was written meanwhile stays; `None` deletes
    /// whatever there is.
    pub version: Option<Version>,
}

/// How a remote deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteProfile {
    /// How [`DeleteRequest::version`] is kept.
    pub version: Guarantee,
    /// One request of [`Delete::delete_all`] takes at most this many blobs.
    pub batch_max: usize,
}

impl DeleteProfile {
    /// A remote that deletes one blob a request.
    pub const fn single(version: Guarantee) -> Self {
        Self { version, batch_max: 1 }
    }
}

/// A place whose blobs can be deleted.
#[async_trait]
pub trait Delete: fmt::Debug + Send + Sync {
    /// How this remote deletes. No request is sent.
    fn delete_profile(&self) -> DeleteProfile;

    /// Deletes a blob, in one request. A blob that is not there counts as deleted, whatever version
    /// was asked for: several remotes do not tell the difference, and so the call can be repeated.
    ///
    /// Fails with `Changed` where the blob is of another version, and with `Unsupported` for a version
    /// where the profile says [`Guarantee::None`].
    ///
    /// Dropping the future ends the request. The blob may be deleted nevertheless.
    async fn delete(&self, request: &DeleteRequest) -> Result<()>;

    /// Deletes blobs, as many as the profile allows in one request; one result for each, in order. By
    /// default one after the other. Dropping the future leaves some of them.
    async fn delete_all(&self, requests: &[DeleteRequest]) -> Vec<Result<()>> {
        let mut results = Vec::with_capacity(requests.len());
        for request in requests {
            results.push(self.delete(request).await);
        }
        results
    }
}
