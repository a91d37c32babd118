//! [`PresignBuilder`]: signing a URL.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Client;
use super::calls::calls;
use crate::error::{Operation, Result};
use crate::remote::{Location, PresignMethod, PresignRequest, PresignedUrl};

/// A URL that is not signed yet. Awaiting it gives a [`PresignedUrl`].
///
/// # Errors
///
/// `Unsupported` if the remote signs no URLs, `Invalid` for a lifetime that the service does not
/// allow, `NoAccess` if no credential was found or the one found cannot sign.
#[derive(Debug)]
#[must_use = "nothing is signed before it is awaited"]
pub struct PresignBuilder {
    client: Client,
    blob: Location,
    request: PresignRequest,
    cancel: CancellationToken,
}

impl PresignBuilder {
    pub(super) fn new(
        client: &Client,
        blob: &Location,
        method: PresignMethod,
        lifetime: Duration,
    ) -> Self {
        let request = PresignRequest { blob: blob.blob.clone(), method, lifetime };
        let cancel = CancellationToken::new();
        Self { client: client.clone(), blob: blob.clone(), request, cancel }
    }

    /// Ends the requests for credentials.
    pub fn cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    async fn run(self) -> Result<PresignedUrl> {
        let Self { client, blob, request, cancel } = self;
        let presign = blob.presign()?;
        let calls = calls(&client, Operation::Presign, &blob, cancel);
        calls.attempt(calls.patience(0), |_| presign.presign(&request)).await
    }
}

impl IntoFuture for PresignBuilder {
    type Output = Result<PresignedUrl>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
