//! [`GcsSigners`]: signed URLs of a bucket of Google Cloud Storage.
//!
//! Only service accounts sign. The key in an account's file signs on this machine. The account of a
//! machine in Google's cloud has no key there: it asks the service to sign, which needs the
//! permission `iam.serviceAccounts.signBlob`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use url::Url;

use super::object_presign::{CANNOT_SIGN, FindSigner, SignerChoice, WEEK};
use super::{gcs, gcs_account};
use crate::error::{Error, ErrorKind, Hint, Operation, Result};

/// The host that the library signs for.
const HOST: &str = "storage.googleapis.com";

/// A key that the service keeps signs no longer than this, says Google of its own tools.
const KEPT_KEY_MAX: Duration = Duration::from_hours(12);

const HINT: &str = "set GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account, or run \
                    as a service account that has the permission iam.serviceAccounts.signBlob";

/// See the module docs.
pub(super) struct GcsSigners {
    /// Without the credentials that requests carry: those sign no URLs.
    pub(super) builder: GoogleCloudStorageBuilder,
    /// The project that pays.
    pub(super) user_project: Option<String>,
}

#[async_trait]
impl FindSigner for GcsSigners {
    async fn find(&self, prefix: &str) -> Result<SignerChoice> {
        let base = self.builder.get_config_value(&GoogleConfigKey::BaseUrl);
        let base = base.and_then(|base| Url::parse(&base).ok());
        if base.is_some_and(|base| base.host_str() != Some(HOST)) {
            let message = format!("URLs are signed for {HOST}, and not for another endpoint");
            let operation = Operation::Locate;
            return Err(Error::new(ErrorKind::Unsupported, operation, prefix, message));
        }
        let cannot = || {
            Error::new(ErrorKind::NoAccess, Operation::Presign, prefix, CANNOT_SIGN).with_hint(HINT)
        };
        let lifetime_max = match gcs_account::kind(&self.builder)?.as_deref() {
            Some("service_account") => WEEK,
            Some(_) => return Err(cannot()),
            None => KEPT_KEY_MAX,
        };
        // The error may quote a key.
        let signer = gcs::build(self.builder.clone(), prefix).map_err(|_secret| cannot())?;
        let query = self.user_project.iter().map(|project| ("userProject".into(), project.clone()));
        let query = query.collect();
        Ok(SignerChoice { signer: Arc::new(signer), lifetime_max: Some(lifetime_max), query })
    }

    fn hint(&self) -> Hint {
        HINT.into()
    }
}
