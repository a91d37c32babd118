//! [`AzureAuthorize`]: the address of a container, and the credentials for it: an account's key, a
//! token, or a SAS token, which goes into the URL.

use std::fmt;

use async_trait::async_trait;
use http::HeaderMap;
use object_store::azure::{AzureAuthorizer, AzureCredential};
use object_store::client::HttpRequest;
use url::form_urlencoded;

use super::credentials::Provider;
use super::object_client::Authorize;

/// See the module docs.
#[derive(Clone)]
pub(super) struct AzureAuthorize {
    /// The container's URL, without a slash at its end.
    pub(super) base: String,
    pub(super) account: String,
    /// The headers of every request, signed.
    pub(super) headers: HeaderMap,
    /// `None` if requests are not signed.
    pub(super) credentials: Option<Provider<AzureCredential>>,
}

impl fmt::Debug for AzureAuthorize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The headers may be secret.
        f.debug_struct("AzureAuthorize").field("base", &self.base).finish_non_exhaustive()
    }
}

impl AzureAuthorize {
    /// The SAS token that a URL in a header needs, as a query; empty for other credentials.
    pub(super) async fn query_of_source(&self) -> object_store::Result<String> {
        let Some(credentials) = &self.credentials else { return Ok(String::new()) };
        Ok(match &*credentials.get_credential().await? {
            AzureCredential::SASToken(pairs) => {
                let mut query = form_urlencoded::Serializer::for_suffix(String::from("?"), 1);
                query.extend_pairs(pairs).finish()
            }
            _ => String::new(),
        })
    }
}

#[async_trait]
impl Authorize for AzureAuthorize {
    fn base(&self) -> &str {
        &self.base
    }

    fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    fn needs_ascii(&self) -> bool {
        true
    }

    async fn authorize(
        &self,
        request: &mut HttpRequest,
        _payload: Option<&[u8]>,
    ) -> object_store::Result<()> {
        let Some(credentials) = &self.credentials else { return Ok(()) };
        let credential = credentials.get_credential().await?;
        AzureAuthorizer::new(&credential, &self.account).try_authorize(request)
    }
}
