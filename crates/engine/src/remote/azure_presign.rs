//! [`AzureSigners`]: signed URLs of a container of Azure: shared access signatures.
//!
//! An account's key signs on this machine. For a token of Entra ID, the service gives a delegation
//! key, which signs. A SAS token signs nothing.

use std::sync::Arc;

use async_trait::async_trait;
use object_store::azure::{AzureCredential, MicrosoftAzureBuilder};

use super::credentials::Provider;
use super::object_presign::{FindSigner, SignerChoice, WEEK};
use super::response::Dialect;
use super::{azure, refusal};
use crate::error::{Error, ErrorKind, Hint, Operation, Result};

const HINT: &str = "give the account's key in AZURE_STORAGE_ACCOUNT_KEY, or an identity of Entra ID \
                    that may ask for a user delegation key";

/// See the module docs.
pub(super) struct AzureSigners {
    pub(super) builder: MicrosoftAzureBuilder,
    pub(super) credentials: Provider<AzureCredential>,
}

#[async_trait]
impl FindSigner for AzureSigners {
    async fn find(&self, prefix: &str) -> Result<SignerChoice> {
        let found = self.credentials.get_credential().await;
        let found = found.map_err(|error| refusal::unsent(Dialect::Azure, prefix, error))?;
        let lifetime_max = match &*found {
            AzureCredential::AccessKey(_) => None,
            AzureCredential::BearerToken(_) => Some(WEEK),
            AzureCredential::SASToken(_) => {
                let message = "a SAS token signs no URLs";
                return Err(Error::new(ErrorKind::NoAccess, Operation::Presign, prefix, message)
                    .with_hint(HINT));
            }
        };
        let signer = Arc::new(azure::build(self.builder.clone(), prefix)?);
        Ok(SignerChoice { signer, lifetime_max, query: Vec::new() })
    }

    fn hint(&self) -> Hint {
        HINT.into()
    }
}
