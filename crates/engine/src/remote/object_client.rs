//! [`ObjectClient`]: requests for an object store that `object_store` cannot make: an upload with
//! its checksums and conditions, the list of its parts, a copy of a part.
//!
//! `object_store` finds the credentials and signs ([`Authorize`]). The request itself is made here,
//! and the transport sends it. One call is one attempt. As for reads, it may take more than one
//! request: a rejected credential is looked up once more, and a redirect of S3 is followed.
//!
//! Invariants:
//! - Every header is set before the signature, and none that is signed is changed after it.
//! - Of a response at most [`TEXT_BYTES_MAX`] bytes are held, of a refusal [`REFUSAL_BYTES_MAX`].

mod request;
mod starting_line;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
#[cfg(any(feature = "gcs", feature = "s3"))]
use http::StatusCode;
use http::{HeaderMap, HeaderValue, Method, header};
use object_store::client::{HttpRequest, HttpRequestBody};
use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};
use tidegate_core::retry::RetryClass;

pub(super) use self::request::ObjectRequest;
pub(super) use self::request::encoded;
#[cfg(feature = "gcs")]
pub(super) use self::request::{OtherAddress, Secret};
#[cfg(any(feature = "gcs", feature = "s3"))]
pub(super) use self::starting_line::{Runner, StartingLine};
use super::archive::Archived;
use super::credentials::Renew;
use super::object::unanswered;
use super::refusal::{self, Asked, Refused};
use super::response::{self, Dialect};
use super::write::{Bucket, Payload, source_error};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::transport::{Added, RequestBody, ResponseBody, ResponseHead, Transport};

/// A page of 1,000 keys of 1,024 bytes, each byte percent-encoded, and what else a page says.
pub(super) const TEXT_BYTES_MAX: usize = 8 << 20;

/// A refusal is a short document.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// S3 redirects once, to the bucket's own address; one more redirect is allowed.
const REDIRECTS_MAX: u32 = 2;

/// The address of a bucket, and the credentials for it.
#[async_trait]
pub(super) trait Authorize: fmt::Debug + Send + Sync {
    /// The bucket's URL, without a slash at its end.
    fn base(&self) -> &str;

    /// Headers of every request, which the signature covers.
    fn headers(&self) -> HeaderMap;

    /// Whether the signature covers the SHA-256 of the payload.
    fn signs_payload(&self) -> bool {
        false
    }

    /// Whether the signature covers headers as ASCII text only.
    fn needs_ascii(&self) -> bool {
        false
    }

    /// Adds the credentials to a request. `payload` is the SHA-256 of the body that will be sent,
    /// if [`Self::signs_payload`]; the body of `request` is empty.
    async fn authorize(
        &self,
        request: &mut HttpRequest,
        payload: Option<&[u8]>,
    ) -> object_store::Result<()>;

    /// The bucket at the address that a response redirects to; `None` if it is no redirect.
    fn elsewhere(
        &self,
        head: &ResponseHead,
        key: &str,
    ) -> std::result::Result<Option<Arc<dyn Authorize>>, String> {
        let _ = (head, key);
        Ok(None)
    }
}

/// A successful response.
#[derive(Clone, Debug)]
pub(super) struct ObjectAnswer {
    pub(super) head: ResponseHead,
    pub(super) text: Bytes,
}

/// A request that was refused or had no response.
#[derive(Debug)]
pub(super) struct Refusal {
    /// `None` if there was no response.
    pub(super) head: Option<ResponseHead>,
    /// The service's code for the failure.
    pub(super) code: Option<String>,
    /// The response, as far as it was read. It may repeat headers of the request, so it is not
    /// shown.
    pub(super) text: String,
    pub(super) error: Error,
}

impl Refusal {
    pub(super) fn status(&self) -> Option<u16> {
        self.head.as_ref().map(|head| head.status.as_u16())
    }

    pub(super) fn code(&self) -> &str {
        self.code.as_deref().unwrap_or_default()
    }

    /// What the refusal says of an archive. The error names the blob of the request, and in a copy
    /// the source is the one in the archive.
    pub(super) fn archived(&self) -> Option<Archived> {
        Archived::of(self.code(), &self.text)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { head: None, code: None, text: String::new(), error }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        refusal.error
    }
}

/// See the module docs.
#[derive(Clone, Debug)]
pub(super) struct ObjectClient {
    transport: Transport,
    authorize: Arc<dyn Authorize>,
    // `None` if requests carry no credentials.
    renew: Option<Arc<dyn Renew>>,
    dialect: Dialect,
    // "s3://bucket": shown before a key.
    prefix: String,
    // Headers that no signature covers.
    unsigned: Added,
    keyed: bool,
}

impl ObjectClient {
    pub(super) fn new(
        transport: Transport,
        authorize: Arc<dyn Authorize>,
        renew: Option<Arc<dyn Renew>>,
        dialect: Dialect,
        prefix: &str,
    ) -> Self {
        let (prefix, unsigned) = (prefix.to_owned(), Added::default());
        Self { transport, authorize, renew, dialect, prefix, unsigned, keyed: false }
    }

    /// Adds these headers to requests, unsigned.
    #[cfg(feature = "s3")]
    pub(super) fn with_headers(mut self, headers: HeaderMap) -> Self {
        self.unsigned = Added(Arc::new(headers));
        self
    }

    /// Sets whether requests carry a customer's key.
    pub(super) fn keyed(mut self, keyed: bool) -> Self {
        self.keyed = keyed;
        self
    }

    /// The same client at another address.
    #[cfg(feature = "s3")]
    pub(super) fn at(mut self, authorize: Arc<dyn Authorize>) -> Self {
        self.authorize = authorize;
        self
    }

    pub(super) fn base(&self) -> &str {
        self.authorize.base()
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The bucket, for copies between buckets.
    pub(super) fn bucket(&self) -> Bucket {
        let (scheme, name) = self.prefix.split_once("://").unwrap_or_default();
        let service = format!("{scheme} {}", self.transport.id());
        Bucket { service, name: name.to_owned() }
    }

    /// Headers of every request, such as those of a customer's key.
    #[cfg(any(feature = "gcs", feature = "s3"))]
    pub(super) fn headers(&self) -> HeaderMap {
        self.authorize.headers()
    }

    /// The name of a key in messages.
    pub(super) fn target(&self, key: &str) -> String {
        format!("{}/{key}", self.prefix)
    }

    fn asked(&self) -> Asked {
        Asked { dialect: self.dialect, keyed: self.keyed, signed: self.renew.is_some() }
    }

    /// Sends a request, and reads the text of the response.
    pub(super) async fn send(
        &self,
        request: &ObjectRequest<'_>,
    ) -> std::result::Result<ObjectAnswer, Refusal> {
        let target = self.target(request.key.unwrap_or_default());
        let (mut authorize, mut renewed) = (Arc::clone(&self.authorize), false);
        let mut redirects = 0;
        loop {
            let generation = match &self.renew {
                Some(renew) => renew.generation().await,
                None => 0,
            };
            let url = request.url(authorize.base());
            let (mut head, body) = self.exchange(&*authorize, &url, request, &target).await?;
            head.requests += redirects + u32::from(renewed);
            if request.accepts(head.status.as_u16()) {
                let text = text(body, TEXT_BYTES_MAX, request.operation, &target).await?;
                return Ok(ObjectAnswer { head, text });
            }
            let refused = |message: String| {
                Error::new(ErrorKind::Unsupported, request.operation, &*target, message)
                    .with_hint("check the endpoint and the bucket's region")
            };
            let there = authorize.elsewhere(&head, request.key.unwrap_or_default());
            if let Some(there) = there.map_err(refused)? {
                redirects += 1;
                if redirects > REDIRECTS_MAX {
                    return Err(refused(format!("more than {REDIRECTS_MAX} redirects")).into());
                }
                authorize = there;
                continue;
            }
            // A refusal whose text does not arrive is still a refusal.
            let text = text(body, REFUSAL_BYTES_MAX, request.operation, &target).await;
            let text = String::from_utf8_lossy(&text.unwrap_or_default()).into_owned();
            let refusal = Refused::of(&head, &text, self.asked());
            if !renewed
                && request.is_signed()
                && self.renews(generation, &head, &refusal, &target).await?
            {
                renewed = true;
                continue;
            }
            return Err(Self::refusal(head, text, refusal, request.operation, &target));
        }
    }

    /// The refusal in the body of a successful response, as S3 sends it if the failure came after
    /// the head.
    #[cfg(any(feature = "gcs", feature = "s3"))]
    pub(super) fn refusal_in_body(
        &self,
        answer: &ObjectAnswer,
        operation: Operation,
        key: &str,
    ) -> Option<Refusal> {
        let text = String::from_utf8_lossy(&answer.text);
        if !text.contains("<Error>") {
            return None;
        }
        let mut head = answer.head.clone();
        head.status = StatusCode::INTERNAL_SERVER_ERROR;
        let refused = Refused::of(&head, &text, self.asked());
        head.status = match refused.code() {
            "SlowDown" | "ServiceUnavailable" => StatusCode::SERVICE_UNAVAILABLE,
            "InternalError" | "" => StatusCode::INTERNAL_SERVER_ERROR,
            "PreconditionFailed" => StatusCode::PRECONDITION_FAILED,
            "ConditionalRequestConflict" => StatusCode::CONFLICT,
            "NoSuchUpload" | "NoSuchKey" => StatusCode::NOT_FOUND,
            _ => StatusCode::BAD_REQUEST,
        };
        let target = self.target(key);
        Some(Self::refusal(head, text.into_owned(), refused, operation, &target))
    }

    fn refusal(
        head: ResponseHead,
        text: String,
        refused: Refused,
        operation: Operation,
        target: &str,
    ) -> Refusal {
        let code = Some(refused.code().to_owned()).filter(|code| !code.is_empty());
        let error = refused.explain(response::refusal(&head, operation, target, false));
        Refusal { head: Some(head), code, text, error }
    }

    async fn exchange(
        &self,
        authorize: &dyn Authorize,
        url: &str,
        request: &ObjectRequest<'_>,
        target: &str,
    ) -> Result<(ResponseHead, ResponseBody)> {
        let malformed = |error: http::Error| {
            let message = "it makes no valid request";
            Error::new(ErrorKind::Invalid, request.operation, target, message).caused_by(error)
        };
        let shell = http::Request::builder().method(request.method.clone()).uri(url);
        let mut shell = shell.body(HttpRequestBody::empty()).map_err(malformed)?;
        let len_bytes = request.payload.map_or(0, Payload::len_bytes);
        if request.is_signed() {
            *shell.headers_mut() = authorize.headers();
        }
        shell.headers_mut().extend(request.headers.clone());
        if request.payload.is_some() || matches!(request.method, Method::PUT | Method::POST) {
            shell.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(len_bytes));
        }
        let sha256 = match request.payload {
            Some(payload) if authorize.signs_payload() => Some(sha256(payload).await?),
            _ => None,
        };
        let fails = |value: &HeaderValue| authorize.needs_ascii() && value.to_str().is_err();
        if let Some((name, _)) = shell.headers().iter().find(|(_, value)| fails(value)) {
            let message = format!("the value of header {name} has characters other than ASCII");
            return Err(Error::new(ErrorKind::Invalid, request.operation, target, message));
        }
        if request.is_signed() {
            let signed = authorize.authorize(&mut shell, sha256.as_deref()).await;
            signed.map_err(|error| refusal::unsent(self.dialect, target, error))?;
            self.unsigned.apply(shell.headers_mut());
        }
        let answer = match request.payload {
            Some(payload) if len_bytes > 0 => {
                let frames = match request.runner {
                    Some(runner) => runner.hold(payload.open(), len_bytes),
                    None => payload.open(),
                };
                let body = RequestBody::stream(frames, len_bytes);
                self.transport.send(shell.map(|_| body)).await
            }
            _ => self.transport.send(shell).await,
        };
        answer.map_err(|error| {
            let of_source = source_error(&error);
            of_source.unwrap_or_else(|| unanswered(target.to_owned(), request.operation, error))
        })
    }

    /// Looks the credentials up once more, if they were refused. Returns whether the lookup found
    /// different ones.
    async fn renews(
        &self,
        generation: u64,
        head: &ResponseHead,
        refused: &Refused,
        target: &str,
    ) -> Result<bool> {
        let Some(renew) = &self.renew else { return Ok(false) };
        if !refused.is_of_credentials(head, self.asked()) {
            return Ok(false);
        }
        tracing::debug!(blob = target, status = %head.status, "credentials rejected");
        renew.renew(generation).await.map_err(|error| {
            let message = "the credentials were rejected, and no others were found";
            Error::new(ErrorKind::NoAccess, Operation::Connect, target, message)
                .caused_by(error)
                .with_hint(refusal::REJECTED_HINT)
        })
    }
}

async fn sha256(payload: &Payload) -> Result<Vec<u8>> {
    let message = "SHA-256 cannot be computed";
    let mut hasher = Checksummer::new(ChecksumAlgorithm::Sha256).map_err(|error| {
        Error::new(ErrorKind::Unsupported, Operation::Write, "the payload", message)
            .caused_by(error)
    })?;
    let mut frames = payload.open();
    while let Some(frame) = frames.next().await {
        hasher.update(&frame?);
    }
    Ok(hasher.finish().as_bytes().to_vec())
}

/// The text of a response, of at most `bytes_max` bytes.
async fn text(
    body: ResponseBody,
    bytes_max: usize,
    operation: Operation,
    target: &str,
) -> Result<Bytes> {
    let mut frames = response::frames(body, target.to_owned());
    let mut text = BytesMut::new();
    while let Some(frame) = frames.next().await {
        let frame = frame?;
        if text.len() + frame.len() > bytes_max {
            let message = format!("the response is longer than {bytes_max} bytes");
            return Err(Error::new(ErrorKind::Remote, operation, target, message)
                .retryable(RetryClass::Never));
        }
        text.extend_from_slice(&frame);
    }
    Ok(text.freeze())
}
