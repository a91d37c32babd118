//! [`Client::compare`]: whether two blobs have the same bytes, without a transfer.
//!
//! Remotes are asked for lengths and checksums; local files are read and hashed. Equal checksums are
//! proof of equal bytes. Composite checksums and entity tags are proof only where they are equal: if
//! they differ, the parts or the meaning of the tag may differ instead of the bytes.

mod asker;
mod facts;
mod local;

use std::future::IntoFuture;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_core::checksum::Checksum;
use tokio_util::sync::CancellationToken;

use self::asker::Asker;
use self::facts::RemoteCopy;
use self::local::LocalCopy;
use super::Client;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::offload::offload;
use crate::progress::Progress;
use crate::read::Lookup;
use crate::remote::{BlobInfo, Location};
use crate::verified::{Unverified, Verified};

/// The result of [`Client::compare`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Comparison {
    /// Both have the same bytes, by these checksums; never [`Verified::Not`].
    Same(Verified),
    /// They differ.
    Different(Difference),
    /// Not known: nothing that is known of both is proof.
    Unknown(Unverified),
}

/// How two blobs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// Their lengths in bytes.
    Length {
        /// Of the first blob.
        one: u64,
        /// Of the second blob.
        other: u64,
    },
    /// Their checksums by one algorithm.
    Checksum {
        /// Of the first blob.
        one: Checksum,
        /// Of the second blob, or the expected one.
        other: Checksum,
    },
}

/// A comparison of two blobs, or of a blob with checksums. Await it for a [`Comparison`].
/// Cancel-safe.
///
/// # Errors
///
/// As [`Client::stat`] of each remote. `NotFound`, `NoAccess` or `Storage` for a local file that
/// cannot be read, `Unsupported` for one without a length (a pipe), `Changed` if it changes
/// meanwhile.
#[derive(Clone, Debug)]
#[must_use = "nothing is compared before it is awaited"]
pub struct CompareBuilder {
    client: Client,
    one: Location,
    other: Other,
    progress: Arc<Progress>,
    cancel: CancellationToken,
}

/// What the first blob is compared with.
#[derive(Clone, Debug)]
enum Other {
    Blob(Box<Location>),
    Checksums(Vec<Checksum>),
}

impl Client {
    /// Compares two blobs without a transfer: by the lengths and checksums that remotes provide, and
    /// by those of local files, which are read. Await the result, or set options first.
    pub fn compare(&self, one: &Location, other: &Location) -> CompareBuilder {
        CompareBuilder::new(self, one, Other::Blob(Box::new(other.clone())))
    }

    /// Compares a blob with checksums of the whole blob, without a transfer. All that can be compared
    /// must be equal.
    pub fn compare_with(
        &self,
        blob: &Location,
        expected: impl IntoIterator<Item = Checksum>,
    ) -> CompareBuilder {
        CompareBuilder::new(self, blob, Other::Checksums(expected.into_iter().collect()))
    }

    /// Compares the file at `path` with a blob that `info` describes. Sends requests only for the
    /// sizes of the parts of an upload.
    pub(super) async fn compare_known(
        &self,
        blob: &Location,
        info: &BlobInfo,
        path: &str,
        cancel: &CancellationToken,
    ) -> Result<Comparison> {
        let (progress, stop) = (Arc::default(), cancel.child_token());
        // CANCEL: reading the file ends soon after the future is dropped.
        let _guard = stop.clone().drop_guard();
        let asker = Asker { client: self, progress: &progress, stop };
        let lookup = Lookup { version: info.version.clone(), ..asker.lookup(blob, true) };
        let compare = async {
            let (file, shown) = (PathBuf::from(path), path.to_owned());
            let find = move || LocalCopy::find(file, shown);
            let copy = offload(Operation::Stat, path, find).await?;
            let permit = self.0.budget.request().await;
            let (parts, unverified) = match lookup.parts_check(info).await {
                Ok(parts) => (parts, None),
                Err(why) => (None, Some(why)),
            };
            drop(permit);
            let remote = RemoteCopy { info: info.clone(), unverified, parts, lookup };
            asker.file_with(&copy, &remote, false).await
        };
        cancel.run_until_cancelled(compare).await.unwrap_or_else(|| {
            let (kind, message) = (ErrorKind::Cancelled, "it was cancelled");
            Err(Error::new(kind, Operation::Verify, blob.display(), message))
        })
    }
}

impl CompareBuilder {
    fn new(client: &Client, one: &Location, other: Other) -> Self {
        let (client, one) = (client.clone(), one.clone());
        let (progress, cancel) = (Arc::default(), CancellationToken::new());
        Self { client, one, other, progress, cancel }
    }

    /// Counts the bytes of local files that are read.
    pub fn progress(mut self, progress: Arc<Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Ends the comparison.
    pub fn cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    async fn run(self) -> Result<Comparison> {
        let Self { client, one, other, progress, cancel } = self;
        let _running = progress.begin_transfer();
        let target = one.display().to_owned();
        let stop = cancel.child_token();
        // CANCEL: reading a file ends soon after the future is dropped, and requests at once.
        let _guard = stop.clone().drop_guard();
        let asker = Asker { client: &client, progress: &progress, stop };
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                Err(Error::new(ErrorKind::Cancelled, Operation::Verify, target, "it was cancelled"))
            }
            compared = asker.compare(&one, &other) => compared,
        }
    }
}

impl IntoFuture for CompareBuilder {
    type Output = Result<Comparison>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
