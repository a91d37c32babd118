//! [`GcsSigners`]: signed URLs of a bucket of Google Cloud Storage.
//!
//! Only service accounts sign. The key in an account's file signs on this machine. The account of a
//! machine in Google's cloud has no key there: it asks the service to sign, which needs the
//! permission `iam.serviceAccounts.signBlob`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use url::Url;

use super::object_presign::{self, CANNOT_SIGN, FindSigner, SignerChoice, WEEK};
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
    /// `gs://bucket`.
    pub(super) prefix: String,
    /// Whether requests carry credentials.
    pub(super) is_signed: bool,
    pub(super) keyed: bool,
    /// The project that pays.
    pub(super) user_project: Option<String>,
}

impl fmt::Debug for GcsSigners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The other fields may be secret.
        f.debug_struct("GcsSigners").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[async_trait]
impl FindSigner for GcsSigners {
    async fn find(&self) -> Result<SignerChoice> {
        if !self.is_signed {
            return Err(object_presign::anonymous(&self.prefix));
        }
        if self.keyed {
            return Err(object_presign::keyed(&self.prefix));
        }
        let base = self.builder.get_config_value(&GoogleConfigKey::BaseUrl);
        let base = base.and_then(|base| Url::parse(&base).ok());
        if base.is_some_and(|base| base.host_str() != Some(HOST)) {
            let message = format!("URLs are signed for {HOST}, and not for another endpoint");
            let operation = Operation::Locate;
            return Err(Error::new(ErrorKind::Unsupported, operation, &*self.prefix, message));
        }
        let cannot = || {
            Error::new(ErrorKind::NoAccess, Operation::Presign, &*self.prefix, CANNOT_SIGN)
                .with_hint(HINT)
        };
        let lifetime_max = match gcs_account::kind(&self.builder)?.as_deref() {
            Some("service_account") => WEEK,
            Some(_) => return Err(cannot()),
            None => KEPT_KEY_MAX,
        };
        // The error may quote a key.
        let signer = gcs::build(self.builder.clone(), &self.prefix).map_err(|_secret| cannot())?;
        let query = self.user_project.iter().map(|project| ("userProject".into(), project.clone()));
        let query = query.collect();
        Ok(SignerChoice { signer: Arc::new(signer), lifetime_max: Some(lifetime_max), query })
    }

    fn hint(&self) -> Hint {
        HINT.into()
    }
}
