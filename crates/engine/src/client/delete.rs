//! [`DeleteBuilder`]: deleting one blob.

use std::future::IntoFuture;
use std::pin::Pin;

use tokio_util::sync::CancellationToken;

use super::Client;
use super::calls::calls;
use crate::error::{Operation, Result};
use crate::remote::{DeleteRequest, Location, Version};

/// A delete that has not begun. A blob that is missing counts as deleted, so that the call can be
/// repeated.
///
/// # Errors
///
/// `Unsupported` if the remote deletes nothing, or not by this version; `Changed` if the blob has
/// another version; `NoAccess` and so on; `Exhausted` with the last failure as its source.
#[derive(Debug)]
#[must_use = "nothing is deleted before it is awaited"]
pub struct DeleteBuilder {
    client: Client,
    blob: Location,
    version: Option<Version>,
    cancel: CancellationToken,
}

impl DeleteBuilder {
    pub(super) fn new(client: &Client, blob: &Location) -> Self {
        let cancel = CancellationToken::new();
        Self { client: client.clone(), blob: blob.clone(), version: None, cancel }
    }

    /// Deletes only this version.
    pub fn version(mut self, version: Version) -> Self {
        self.version = Some(version);
        self
    }

    /// Ends the request.
    pub fn cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    async fn run(self) -> Result<()> {
        let Self { client, blob, version, cancel } = self;
        let delete = blob.delete()?;
        let request = DeleteRequest { blob: blob.blob.clone(), version };
        let calls = calls(&client, Operation::Delete, &blob, cancel);
        calls.attempt(calls.patience(0), |_| delete.delete(&request)).await
    }
}

impl IntoFuture for DeleteBuilder {
    type Output = Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
