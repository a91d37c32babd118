//! [`S3Authorize`]: the address of a bucket of S3, and the signatures for it.
//!
//! Which payloads are signed: TLS protects the bytes, and loopback cannot be overheard, so such
//! requests say `UNSIGNED-PAYLOAD`, and the checksum header verifies the bytes. Over any other plain
//! connection the signature covers the SHA-256 of the body, as in Amazon's own clients.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use object_store::CredentialProvider;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::HttpRequest;
use url::{Host, Url};

use super::object_client::Authorize;
use super::s3_redirect::{self, Address};
use crate::transport::ResponseHead;

/// See the module docs.
#[derive(Clone)]
pub(super) struct S3Authorize {
    /// The bucket's URL, without a slash at its end.
    pub(super) base: String,
    pub(super) bucket: String,
    pub(super) region: String,
    /// The headers of every request, signed.
    pub(super) headers: HeaderMap,
    /// `None` if requests are not signed.
    pub(super) credentials: Option<Arc<dyn CredentialProvider<Credential = AwsCredential>>>,
    /// Whether requests carry a customer's key, which must not go over a plain connection.
    pub(super) keyed: bool,
    /// The configured address, without the bucket: redirects are compared with it.
    pub(super) home: Option<Url>,
}

impl fmt::Debug for S3Authorize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The headers may be secret.
        f.debug_struct("S3Authorize").field("base", &self.base).finish_non_exhaustive()
    }
}

#[async_trait]
impl Authorize for S3Authorize {
    fn base(&self) -> &str {
        &self.base
    }

    fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    fn signs_payload(&self) -> bool {
        self.credentials.is_some() && !is_private(&self.base)
    }

    async fn authorize(
        &self,
        request: &mut HttpRequest,
        payload: Option<&[u8]>,
    ) -> object_store::Result<()> {
        let Some(credentials) = &self.credentials else { return Ok(()) };
        let credential = credentials.get_credential().await?;
        AwsAuthorizer::new(&credential, "s3", &self.region)
            .with_sign_payload(self.signs_payload())
            .try_authorize(request, payload)
    }

    fn elsewhere(
        &self,
        head: &ResponseHead,
        key: &str,
    ) -> Result<Option<Arc<dyn Authorize>>, String> {
        if head.status != http::StatusCode::TEMPORARY_REDIRECT {
            return Ok(None);
        }
        let home = self.home.as_ref().ok_or("it redirects, and the endpoint is no address")?;
        let Address { endpoint, bucket_in_host, region } =
            s3_redirect::address(head, home, &self.bucket, key)?;
        if self.keyed && !is_private(&endpoint) {
            return Err("it redirects a customer's key to a plain connection".to_owned());
        }
        let base = if bucket_in_host { endpoint } else { format!("{endpoint}/{}", self.bucket) };
        let region = region.unwrap_or_else(|| self.region.clone());
        Ok(Some(Arc::new(Self { base, region, ..self.clone() })))
    }
}

/// Whether nothing on the way can read or change what is sent to `url`.
fn is_private(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    url.scheme() == "https"
        || match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_signed_where_it_could_be_changed_on_the_way() {
        for (url, expected) in [
            ("https://s3.eu-west-1.amazonaws.com/bucket", true),
            ("http://127.0.0.1:9000/bucket", true),
            ("http://[::1]:9000/bucket", true),
            ("http://localhost:9000/bucket", true),
            ("http://minio.example.com/bucket", false),
            ("http://10.0.0.1:9000/bucket", false),
            ("not a url", false),
        ] {
            assert_eq!(is_private(url), expected, "{url}");
        }
    }
}
