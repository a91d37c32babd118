//! [`AzureSigners`]: signed URLs of a container of Azure: shared access signatures.
//!
//! An account's key signs on this machine. For a token of Entra ID, the service gives a delegation
//! key, which signs. A SAS token signs nothing.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use object_store::azure::{AzureCredential, MicrosoftAzureBuilder};

use super::credentials::Provider;
use super::object_presign::{self, FindSigner, SignerChoice, WEEK};
use super::response::Dialect;
use super::{azure, refusal};
use crate::error::{Error, ErrorKind, Hint, Operation, Result};

const HINT: &str = "give the account's key in AZURE_STORAGE_ACCOUNT_KEY, or an identity of Entra ID \
                    that may ask for a user delegation key";

/// See the module docs.
pub(super) struct AzureSigners {
    pub(super) builder: MicrosoftAzureBuilder,
    /// `az://container`.
    pub(super) prefix: String,
    /// `None` if requests are not signed.
    pub(super) credentials: Option<Provider<AzureCredential>>,
    pub(super) keyed: bool,
}

impl fmt::Debug for AzureSigners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The other fields may be secret.
        f.debug_struct("AzureSigners").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[async_trait]
impl FindSigner for AzureSigners {
    async fn find(&self) -> Result<SignerChoice> {
        let Some(credentials) = &self.credentials else {
            return Err(object_presign::anonymous(&self.prefix));
        };
        if self.keyed {
            return Err(object_presign::keyed(&self.prefix));
        }
        let found = credentials.get_credential().await;
        let found = found.map_err(|error| refusal::unsent(Dialect::Azure, &self.prefix, error))?;
        let lifetime_max = match &*found {
            AzureCredential::AccessKey(_) => None,
            AzureCredential::BearerToken(_) => Some(WEEK),
            AzureCredential::SASToken(_) => {
                let (kind, operation) = (ErrorKind::NoAccess, Operation::Presign);
                return Err(Error::new(
                    kind,
                    operation,
                    &*self.prefix,
                    "a SAS token signs no URLs",
                )
                .with_hint(HINT));
            }
        };
        let signer = Arc::new(azure::build(self.builder.clone(), &self.prefix)?);
        Ok(SignerChoice { signer, lifetime_max, query: Vec::new() })
    }

    fn hint(&self) -> Hint {
        HINT.into()
    }
}
