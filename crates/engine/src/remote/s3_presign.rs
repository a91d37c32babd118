//! [`S3Signers`]: signed URLs of a bucket of S3.
//!
//! A URL that temporary credentials sign ends with them, and S3 says so only when it is used.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use object_store::aws::{AmazonS3Builder, AwsCredential};

use super::credentials::Provider;
use super::object_presign::{self, FindSigner, SignerChoice, WEEK};
use super::refusal;
use super::response::Dialect;
use super::s3;
use crate::error::{Hint, Result, Setting};

/// See the module docs.
pub(super) struct S3Signers {
    pub(super) builder: AmazonS3Builder,
    /// `s3://bucket`.
    pub(super) prefix: String,
    /// `None` if requests are not signed.
    pub(super) credentials: Option<Provider<AwsCredential>>,
    pub(super) keyed: bool,
    pub(super) request_payer: bool,
}

impl fmt::Debug for S3Signers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The other fields may be secret.
        f.debug_struct("S3Signers").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[async_trait]
impl FindSigner for S3Signers {
    async fn find(&self) -> Result<SignerChoice> {
        let Some(credentials) = &self.credentials else {
            return Err(object_presign::anonymous(&self.prefix));
        };
        if self.keyed {
            return Err(object_presign::keyed(&self.prefix));
        }
        // The library's error for missing credentials would name no source of them.
        let found = credentials.get_credential().await;
        found.map_err(|error| refusal::unsent(Dialect::S3, &self.prefix, error))?;
        let builder = self.builder.clone().with_request_payer(self.request_payer);
        let signer = Arc::new(s3::build(builder, &self.prefix)?);
        Ok(SignerChoice { signer, lifetime_max: Some(WEEK), query: Vec::new() })
    }

    fn hint(&self) -> Hint {
        Setting::AwsCredentials.into()
    }
}
