//! [`StatBuilder`]: a request for the description of one blob.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_core::retry::RetryPolicy;
use tokio_util::sync::CancellationToken;

use super::Client;
use crate::blocking::Waiting;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::{ReadStats, stat};
use crate::remote::{BlobInfo, Location};

/// A request for the description of one blob: one request to the remote if there is no retry.
/// Awaiting it gives a [`BlobInfo`]. Cancel-safe.
///
/// # Errors
///
/// The remote's error (`NotFound`, `NoAccess` and so on), or `Exhausted` with the last failure as
/// its source.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct StatBuilder {
    client: Client,
    blob: Location,
    retry: RetryPolicy,
    stats: Arc<ReadStats>,
    cancel: CancellationToken,
}

impl StatBuilder {
    pub(super) fn new(client: &Client, blob: &Location) -> Self {
        Self {
            client: client.clone(),
            blob: blob.clone(),
            retry: client.0.retry.clone(),
            stats: Arc::default(),
            cancel: CancellationToken::new(),
        }
    }

    /// How to retry after a failure; the client's policy by default.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Counters that several requests and reads may share.
    pub fn stats(mut self, stats: Arc<ReadStats>) -> Self {
        self.stats = stats;
        self
    }

    /// Ends the request.
    pub fn cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Waits for the result on this thread.
    ///
    /// # Errors
    ///
    /// As awaiting it; `Unsupported` on a thread that runs asynchronous tasks.
    pub fn wait(self) -> Result<BlobInfo> {
        let waiting = Waiting::begin(None, Operation::Stat, self.blob.display())?;
        waiting.wait(self.run())
    }

    async fn run(self) -> Result<BlobInfo> {
        let Self { client, blob, retry, stats, cancel } = self;
        blob.check_is_blob()?;
        let budget = &client.0.budget;
        // CANCEL: dropping it ends the request in flight.
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                let message = "it was cancelled";
                Err(Error::new(ErrorKind::Cancelled, Operation::Stat, blob.display(), message))
            }
            info = stat::stat(&blob, &retry, budget, &stats) => info,
        }
    }
}

impl IntoFuture for StatBuilder {
    type Output = Result<BlobInfo>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
