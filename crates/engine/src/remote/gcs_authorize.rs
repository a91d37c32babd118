//! [`GcsAuthorize`]: the address of a bucket of Google Cloud Storage, and its bearer token.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, header};
use object_store::CredentialProvider;
use object_store::client::HttpRequest;
use object_store::gcp::GcpCredential;

use super::object_client::Authorize;

/// See the module docs.
#[derive(Clone)]
pub(super) struct GcsAuthorize {
    /// The bucket's URL, without a slash at its end.
    pub(super) base: String,
    pub(super) headers: HeaderMap,
    /// `None` if requests carry no token.
    pub(super) credentials: Option<Arc<dyn CredentialProvider<Credential = GcpCredential>>>,
}

impl fmt::Debug for GcsAuthorize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The headers may be secret.
        f.debug_struct("GcsAuthorize").field("base", &self.base).finish_non_exhaustive()
    }
}

#[async_trait]
impl Authorize for GcsAuthorize {
    fn base(&self) -> &str {
        &self.base
    }

    fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    async fn authorize(
        &self,
        request: &mut HttpRequest,
        _payload: Option<&[u8]>,
    ) -> object_store::Result<()> {
        let Some(credentials) = &self.credentials else { return Ok(()) };
        let credential = credentials.get_credential().await?;
        let value = HeaderValue::try_from(format!("Bearer {}", credential.bearer));
        let mut value = value
            .map_err(|error| object_store::Error::Generic { store: "GCS", source: error.into() })?;
        value.set_sensitive(true);
        request.headers_mut().insert(header::AUTHORIZATION, value);
        Ok(())
    }
}
