//! The parts of the upload that made an object of S3: `HEAD ?partNumber=N`.
//!
//! The response is a 206 whose `Content-Range` is the part's place in the object, and
//! `x-amz-mp-parts-count` is the number of parts. `object_store` has no such request, so this module
//! signs one: the signature is in the query, as in a presigned URL, and
//! covers the headers.
//!
//! Source: the API reference of `HeadObject`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use object_store::aws::AmazonS3;
use object_store::client::HttpRequestBody;
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer};

use super::key;
use super::object::{ObjectRemote, unanswered};
use super::response::{self, Dialect};
use super::{UploadedPart, Version};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::transport::{ResponseHead, Transport};

/// Validity of a signature. The request is sent at once; clocks may differ by some minutes.
const VALID_FOR: Duration = Duration::from_mins(15);

/// Sends `HEAD ?partNumber=N` for the objects of one bucket at one address.
pub(super) struct PartHeads {
    pub(super) store: AmazonS3,
    pub(super) is_signed: bool,
    /// The headers of every request, signed.
    pub(super) headers: HeaderMap,
    pub(super) transport: Transport,
}

impl fmt::Debug for PartHeads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The headers may be secret.
        f.debug_struct("PartHeads").field("store", &self.store).finish_non_exhaustive()
    }
}

impl PartHeads {
    async fn head(
        &self,
        path: &Path,
        number: u32,
        version: Option<&Version>,
        target: &str,
    ) -> Result<ResponseHead> {
        let request = self.request(path, number, version).await.map_err(|error| {
            let message = "the request for a part of the upload cannot be made";
            Error::new(ErrorKind::NoAccess, Operation::Stat, target, message).caused_by(error)
        })?;
        let answer = self.transport.send(request).await;
        let (head, _) = answer.map_err(|e| unanswered(target.to_owned(), Operation::Stat, e))?;
        Ok(head)
    }

    async fn request(
        &self,
        path: &Path,
        number: u32,
        version: Option<&Version>,
    ) -> Result<http::Request<HttpRequestBody>, Box<dyn std::error::Error + Send + Sync>> {
        let mut query = vec![("partNumber".to_owned(), number.to_string())];
        let mut headers = self.headers.clone();
        match version {
            Some(Version::VersionId(id)) => query.push(("versionId".to_owned(), id.clone())),
            Some(Version::ETag(tag)) => {
                headers.insert(header::IF_MATCH, HeaderValue::try_from(tag)?);
            }
            Some(Version::LastModified(date)) => {
                headers.insert(header::IF_UNMODIFIED_SINCE, HeaderValue::try_from(date)?);
            }
            _ => {}
        }
        let mut options = SignedUrlOptions::new().with_query(query.clone());
        options.signed_headers.clone_from(&headers);
        let signed = self.store.signed_url_opts(Method::HEAD, path, VALID_FOR, &options);
        let mut url = signed.await?;
        if !self.is_signed {
            url.set_query(None);
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = http::Request::builder()
            .method(Method::HEAD)
            .uri(url.as_str())
            .header(header::ACCEPT_ENCODING, "identity")
            .body(HttpRequestBody::empty())?;
        request.headers_mut().extend(headers);
        Ok(request)
    }
}

impl ObjectRemote {
    /// Part `number` of the upload that made `blob`; `None` if the service does not remember parts.
    pub(super) async fn part(
        &self,
        blob: &str,
        number: u32,
        version: Option<&Version>,
    ) -> Result<Option<UploadedPart>> {
        let target = self.target(blob);
        let path = key::path(blob).map_err(|flaw| {
            Error::new(ErrorKind::Unsupported, Operation::Locate, &*target, flaw)
        })?;
        let (mut stores, mut redirects) = (self.stores().clone(), 0);
        loop {
            let Some(parts) = stores.parts.clone() else { return Ok(None) };
            let head = parts.head(&path, number, version, &target).await?;
            match self.elsewhere(&head, blob, Operation::Stat, redirects)? {
                Some(there) => (stores, redirects) = (there, redirects + 1),
                None => return described(&head, version, &target).map(Some),
            }
        }
    }
}

/// The part that a response describes.
fn described(head: &ResponseHead, version: Option<&Version>, target: &str) -> Result<UploadedPart> {
    let unsupported = |message: &str| {
        Error::new(ErrorKind::Unsupported, Operation::Stat, target, message.to_owned())
    };
    match head.status {
        StatusCode::PARTIAL_CONTENT => {}
        StatusCode::OK => return Err(unsupported("the server ignores part numbers")),
        _ => return Err(response::refusal(head, Operation::Stat, target, version.is_some())),
    }
    let info = response::info(head, Dialect::S3, version);
    let info = response::same_version(version, info, target)?;
    let (Some(range), Some(len_bytes)) = (response::range_of(head), info.len_bytes) else {
        return Err(unsupported("the response for a part names no range"));
    };
    let parts = head.text("x-amz-mp-parts-count").and_then(|text| text.trim().parse().ok());
    Ok(UploadedPart { parts, ..UploadedPart::new(range, len_bytes) })
}

/// Credentials that sign nothing: for requests that are sent without their signature.
pub(super) fn no_credentials()
-> Arc<object_store::StaticCredentialProvider<object_store::aws::AwsCredential>> {
    Arc::new(object_store::StaticCredentialProvider::new(object_store::aws::AwsCredential {
        key_id: "none".to_owned(),
        secret_key: "none".to_owned(),
        token: None,
    }))
}
