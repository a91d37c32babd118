//! Unfinished uploads: listing them, and ending one.

use tokio_util::sync::CancellationToken;

use super::Client;
use super::calls::calls;
use crate::error::{Operation, Result};
use crate::remote::{Location, PageToken, Upload, UploadPage};

impl Client {
    /// One page of the unfinished uploads of blobs whose names begin as `prefix` does
    /// ([`Self::locate_prefix`]), beginning at `from`. They include those that another process is
    /// still writing, and only this process can tell which of its own are.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the remote takes no uploads in parts; the remote's error; `Exhausted`.
    pub async fn unfinished_uploads(
        &self,
        prefix: &Location,
        from: Option<&PageToken>,
        cancel: CancellationToken,
    ) -> Result<UploadPage> {
        let write = prefix.write()?;
        let calls = calls(self, Operation::List, prefix, cancel);
        let page = |_| write.uploads(&prefix.blob, from, &self.0.budget);
        calls.attempt(calls.patience(0), page).await
    }

    /// Ends an unfinished upload, and removes its parts. One that is missing counts as ended.
    ///
    /// # Errors
    ///
    /// As [`Self::unfinished_uploads`].
    pub async fn abort_upload(
        &self,
        prefix: &Location,
        upload: &Upload,
        cancel: CancellationToken,
    ) -> Result<()> {
        let write = prefix.write()?;
        let calls = calls(self, Operation::Delete, prefix, cancel);
        calls.attempt(calls.patience(0), |_| write.abort(upload)).await
    }
}
