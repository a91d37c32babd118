//! Making and removing buckets.

use tokio_util::sync::CancellationToken;

use super::Client;
use super::calls::calls;
use crate::error::{ErrorKind, Operation, Result};
use crate::remote::{BucketOptions, Location, MadeBucket};

impl Client {
    /// Makes the bucket that `bucket` names (see [`Self::locate_prefix`]): `s3://bucket`,
    /// `gs://bucket` or `az://container`.
    ///
    /// ```no_run
    /// use tidegate::remote::BucketOptions;
    /// use tidegate::{CancellationToken, Client};
    ///
    /// # async fn example() -> tidegate::Result<()> {
    /// let client = Client::default();
    /// let bucket = client.locate_prefix("s3://models")?;
    /// client.make_bucket(&bucket, &BucketOptions::default(), CancellationToken::new()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if another account has a bucket of the name; `Invalid` for a name, a region
    /// or a project that is not valid; `Unsupported` if the remote has no buckets; the remote's
    /// error; `Exhausted`.
    pub async fn make_bucket(
        &self,
        bucket: &Location,
        options: &BucketOptions,
        cancel: CancellationToken,
    ) -> Result<MadeBucket> {
        let buckets = bucket.buckets()?;
        let calls = calls(self, Operation::MakeBucket, bucket, cancel);
        calls.attempt(calls.patience(0), |_| buckets.make(options)).await
    }

    /// Removes an empty bucket.
    ///
    /// # Errors
    ///
    /// `NotEmpty` if there is anything in it, also an old version of a blob; `NotFound` if there is
    /// no such bucket; `Unsupported` if the remote has no buckets; the remote's error; `Exhausted`.
    pub async fn remove_bucket(&self, bucket: &Location, cancel: CancellationToken) -> Result<()> {
        let buckets = bucket.buckets()?;
        let calls = calls(self, Operation::RemoveBucket, bucket, cancel);
        let remove = |attempt| async move {
            match buckets.remove().await {
                // The response of an earlier attempt was lost.
                Err(error) if attempt > 0 && error.kind() == ErrorKind::NotFound => Ok(()),
                outcome => outcome,
            }
        };
        calls.attempt(calls.patience(0), remove).await
    }
}
