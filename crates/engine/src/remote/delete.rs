//! [`Delete`]: deleting blobs.

use std::fmt;

use async_trait::async_trait;

use super::{Guarantee, Version};
use crate::error::Result;

/// A blob to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRequest {
    /// Its name.
    pub blob: String,
    /// The version that the blob must have, so that a newer one is not deleted; `None` deletes any
    /// version.
    pub version: Option<Version>,
}

/// How a remote deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteProfile {
    /// How strictly [`DeleteRequest::version`] is checked.
    pub version: Guarantee,
    /// One request of [`Delete::delete_all`] takes at most this many blobs.
    pub batch_max: usize,
}

impl DeleteProfile {
    /// A remote that deletes one blob with each request.
    pub const fn single(version: Guarantee) -> Self {
        Self { version, batch_max: 1 }
    }
}

/// A remote whose blobs can be deleted.
#[async_trait]
pub trait Delete: fmt::Debug + Send + Sync {
    /// How this remote deletes. Sends no request.
    fn delete_profile(&self) -> DeleteProfile;

    /// Deletes a blob, in one request. A missing blob counts as deleted, whichever version was
    /// asked for: several remotes do not report the difference. So the call can be repeated.
    ///
    /// Fails with `Changed` if the blob has another version. Fails with `Unsupported` if a version
    /// is given and the profile says [`Guarantee::None`].
    ///
    /// Dropping the future ends the request; the remote may still delete the blob.
    async fn delete(&self, request: &DeleteRequest) -> Result<()>;

    /// Deletes blobs, as many in one request as the profile allows. Returns one result for each, in
    /// order. The default deletes one after another. Dropping the future leaves some blobs
    /// undeleted.
    async fn delete_all(&self, requests: &[DeleteRequest]) -> Vec<Result<()>> {
        let mut results = Vec::with_capacity(requests.len());
        for request in requests {
            results.push(self.delete(request).await);
        }
        results
    }
}
