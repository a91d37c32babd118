//! [`S3Signers`]: signed URLs of a bucket of S3.
//!
//! A URL that temporary credentials sign ends with them, and S3 says so only when it is used.

use std::sync::Arc;

use async_trait::async_trait;
use object_store::aws::{AmazonS3Builder, AwsCredential};

use super::credentials::Provider;
use super::object_presign::{FindSigner, SignerChoice, WEEK};
use super::refusal;
use super::response::Dialect;
use super::s3;
use crate::error::{Hint, Result, Setting};

/// See the module docs.
pub(super) struct S3Signers {
    pub(super) builder: AmazonS3Builder,
    pub(super) credentials: Provider<AwsCredential>,
    pub(super) request_payer: bool,
}

#[async_trait]
impl FindSigner for S3Signers {
    async fn find(&self, prefix: &str) -> Result<SignerChoice> {
        // The library's error for missing credentials would name no source of them.
        let found = self.credentials.get_credential().await;
        found.map_err(|error| refusal::unsent(Dialect::S3, prefix, error))?;
        let builder = self.builder.clone().with_request_payer(self.request_payer);
        let signer = Arc::new(s3::build(builder, prefix)?);
        Ok(SignerChoice { signer, lifetime_max: Some(WEEK), query: Vec::new() })
    }

    fn hint(&self) -> Hint {
        Setting::AwsCredentials.into()
    }
}
