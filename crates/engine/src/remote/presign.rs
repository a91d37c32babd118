//! [`Presign`]: URLs that allow one request to everyone who has them.

use std::fmt;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::error::Result;

/// The request that a signed URL allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PresignMethod {
    /// Reading the blob, or a range of it.
    Get,
    /// Storing the blob in one request.
    Put,
    /// Deleting the blob.
    Delete,
    /// Asking for the blob's facts.
    Head,
}

impl PresignMethod {
    /// The method of HTTP.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Head => "HEAD",
        }
    }
}

/// What a URL is signed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresignRequest {
    /// The blob's name.
    pub blob: String,
    /// The request that the URL allows.
    pub method: PresignMethod,
    /// How long it allows the request. At least a second; fractions of a second are cut off.
    pub lifetime: Duration,
}

/// A signed URL. It is a secret: everyone who has it can make the request. So `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct PresignedUrl {
    url: String,
    expires: SystemTime,
}

impl PresignedUrl {
    /// A URL that is valid until `expires`.
    pub fn new(url: impl Into<String>, expires: SystemTime) -> Self {
        Self { url: url.into(), expires }
    }

    /// The URL with its signature.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// When it ends to be valid, by this machine's clock. It ends earlier if the credential that
    /// signed it ends earlier.
    pub const fn expires(&self) -> SystemTime {
        self.expires
    }
}

impl fmt::Debug for PresignedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PresignedUrl").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// A remote that signs URLs.
#[async_trait]
pub trait Presign: fmt::Debug + Send + Sync {
    /// Signs a URL. Most credentials sign on this machine; for others a service is asked, so the
    /// call can fail as a request does. Whether the blob is there is not asked.
    ///
    /// Fails with `Invalid` for a lifetime that the service does not allow, with `NoAccess` if no
    /// credential was found, and with `Unsupported` if the credential cannot sign.
    ///
    /// Dropping the future ends the requests for credentials.
    async fn presign(&self, request: &PresignRequest) -> Result<PresignedUrl>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_url_is_not_shown() {
        let signed = PresignedUrl::new("https://h/k?sig=secret", SystemTime::UNIX_EPOCH);
        assert!(!format!("{signed:?}").contains("secret"), "{signed:?}");
        assert_eq!(signed.url(), "https://h/k?sig=secret");
    }
}
