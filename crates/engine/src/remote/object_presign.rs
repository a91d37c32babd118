//! [`ObjectPresigner`]: signed URLs of the object stores. `object_store` makes the signatures.
//!
//! What it cannot do is refused here, before anything is signed, in words that name the credential
//! that is needed: its own errors are about its settings.
//!
//! Sources: "Sharing objects with presigned URLs" of Amazon S3, "Signed URLs" of Google Cloud
//! Storage, "Create a service SAS" and "Create a user delegation SAS" of Azure Blob Storage.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use http::Method;
use object_store::signer::{SignedUrlOptions, Signer};

use super::key;
use super::presign::{Presign, PresignMethod, PresignRequest, PresignedUrl};
use super::response::Dialect;
use crate::error::{Error, ErrorKind, Hint, Operation, Result};

/// The longest time that S3, Google and a delegation key of Azure allow.
pub(super) const WEEK: Duration = Duration::from_hours(7 * 24);

/// The message for a credential that signs nothing.
pub(super) const CANNOT_SIGN: &str = "the credentials found cannot sign a URL";

/// How a bucket's URLs are signed.
pub(super) struct SignerChoice {
    /// The library's client.
    pub(super) signer: Arc<dyn Signer>,
    /// The longest time that the service allows for this credential; `None` for no limit.
    pub(super) lifetime_max: Option<Duration>,
    /// Parameters of the URL that the signature covers.
    pub(super) query: Vec<(String, String)>,
}

/// What the credentials of a bucket can sign, looked up for each URL.
#[async_trait]
pub(super) trait FindSigner: Send + Sync {
    /// The signer. The error names the bucket by `prefix`, and says which credential is needed.
    async fn find(&self, prefix: &str) -> Result<SignerChoice>;

    /// What to do if the library cannot sign with the credential that it found.
    fn hint(&self) -> Hint;
}

/// Signs the URLs of one bucket.
pub(super) struct ObjectPresigner {
    pub(super) dialect: Dialect,
    /// `s3://bucket`: shown before a key.
    pub(super) prefix: String,
    /// Whether requests carry a customer's key.
    pub(super) keyed: bool,
    /// `None` if requests are not signed.
    pub(super) signers: Option<Box<dyn FindSigner>>,
}

impl fmt::Debug for ObjectPresigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The signers may be secret.
        f.debug_struct("ObjectPresigner").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[async_trait]
impl Presign for ObjectPresigner {
    async fn presign(&self, request: &PresignRequest) -> Result<PresignedUrl> {
        let target = format!("{}/{}", self.prefix, request.blob);
        let error = |kind, message: &str| Error::new(kind, Operation::Presign, &*target, message);
        let path = key::path(&request.blob).map_err(|flaw| error(ErrorKind::Unsupported, flaw))?;
        let lifetime = Duration::from_secs(request.lifetime.as_secs());
        if lifetime.is_zero() {
            let message = "a signed URL is valid for at least a second";
            return Err(error(ErrorKind::Invalid, message));
        }
        let signers = self.signers()?;
        let SignerChoice { signer, lifetime_max, query } = signers.find(&self.prefix).await?;
        if let Some(most) = lifetime_max.filter(|most| lifetime > *most) {
            let (asked, most) = (lifetime.as_secs(), most.as_secs());
            let message =
                format!("a signed URL is valid for at most {most} seconds here, not {asked}");
            return Err(error(ErrorKind::Invalid, &message));
        }
        let expires = SystemTime::now() + lifetime;
        let method = self.method(request.method);
        let signed = if query.is_empty() {
            signer.signed_url(method, &path, lifetime).await
        } else {
            let options = SignedUrlOptions::default().with_query(query);
            signer.signed_url_opts(method, &path, lifetime, &options).await
        };
        let signed = signed.map_err(|cause| {
            error(ErrorKind::NoAccess, CANNOT_SIGN).caused_by(cause).with_hint(signers.hint())
        })?;
        // Azure's signature covers the path decoded. The library signs it encoded, so the two must be
        // the same.
        if self.is_azure() && !signed.path().ends_with(&format!("/{}", request.blob)) {
            let message =
                "URLs here are signed only for names without characters that a URL encodes";
            return Err(error(ErrorKind::Unsupported, message));
        }
        Ok(PresignedUrl::new(signed, expires))
    }
}

impl ObjectPresigner {
    fn signers(&self) -> Result<&dyn FindSigner> {
        let Some(signers) = &self.signers else {
            let message = "requests here are anonymous, and a signature needs credentials";
            return Err(Error::new(
                ErrorKind::NoAccess,
                Operation::Presign,
                &*self.prefix,
                message,
            )
            .with_hint("leave out what makes requests anonymous, and give credentials"));
        };
        if self.keyed {
            let message = "a signed URL cannot carry a customer's key";
            let (kind, operation) = (ErrorKind::Unsupported, Operation::Locate);
            return Err(Error::new(kind, operation, &*self.prefix, message));
        }
        Ok(&**signers)
    }

    fn is_azure(&self) -> bool {
        match self.dialect {
            #[cfg(feature = "azure")]
            Dialect::Azure => true,
            #[cfg(any(feature = "http", feature = "gcs", feature = "s3"))]
            _ => false,
        }
    }

    /// A token of Azure allows reads, and so `HEAD`, too. The library knows only the permissions of
    /// the other methods.
    fn method(&self, method: PresignMethod) -> Method {
        match method {
            PresignMethod::Head if self.is_azure() => Method::GET,
            PresignMethod::Get => Method::GET,
            PresignMethod::Put => Method::PUT,
            PresignMethod::Delete => Method::DELETE,
            PresignMethod::Head => Method::HEAD,
        }
    }
}
