//! The requests of plain HTTP: builds them, sends them, and follows redirects to the final
//! response.
//!
//! A chain of redirects ends at a [`Stop`]: a URL, and the headers that go there. The first
//! redirect to another host drops the caller's own headers and user info, for the rest of the
//! chain.

mod sending;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use object_store::client::HttpRequestBody;
use tidegate_core::checksum::StoredChecksum;
use tidegate_core::checksum::headers::parse_linked_etag;
use url::Url;

pub(super) use self::sending::{Change, Changed};
use super::{dav, display};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::locate::invalid;
use crate::remote::response::{self, Dialect};
use crate::remote::{BlobInfo, ExtraHeaders, Netrc, Version};
use crate::transport::{self, ResponseBody, ResponseHead, Transport, classify};

/// Enough in practice: CDNs use two or three redirects.
const REDIRECTS_MAX: u32 = 10;

const USER_AGENT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));

/// The state that all blobs over HTTP share.
#[derive(Debug)]
pub(in crate::remote) struct HttpClient {
    transport: Transport,
    // For the first host only.
    headers: HeaderMap,
    netrc: Option<Netrc>,
    // Origins that decompress when a request asks for `identity`.
    decoding: Mutex<HashSet<String>>,
}

pub(super) struct HttpRequest<'a> {
    pub(super) method: Method,
    pub(super) operation: Operation,
    pub(super) range: Option<String>,
    pub(super) version: Option<&'a Version>,
}

/// The target URL of a request, and the caller's headers that go there.
#[derive(Clone)]
pub(super) struct Stop {
    url: Url,
    own: HeaderMap,
}

/// Hides the query and the headers: the query may be a signature, and headers may be credentials.
impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&display(&self.url)).finish()
    }
}

/// A response that is not a redirect.
pub(super) struct Reached {
    pub(super) head: ResponseHead,
    pub(super) body: ResponseBody,
    /// The URL that it came from.
    pub(super) stop: Stop,
    pub(super) is_redirected: bool,
    /// Whether the request asked for `identity`.
    pub(super) asked_identity: bool,
    /// The checksum of the file that a redirect on the way named.
    pub(super) linked: Option<StoredChecksum>,
}

impl HttpClient {
    pub(in crate::remote) fn new(
        transport: Transport,
        headers: &ExtraHeaders,
        netrc: Option<Netrc>,
    ) -> Self {
        let headers = headers.as_map().clone();
        Self { transport, headers, netrc, decoding: Mutex::default() }
    }

    /// The target of the first request for a blob.
    pub(super) fn first(&self, blob: &str) -> Result<Stop> {
        let mut url = Url::parse(blob)
            .map_err(|error| invalid("URL", "it is not a valid URL").caused_by(error))?;
        let mut own = take_user_info(&mut url)?;
        transport::replace(&mut own, &self.headers);
        self.authorize(&url, true, &mut own);
        Ok(Stop { url, own })
    }

    fn authorize(&self, url: &Url, is_first: bool, own: &mut HeaderMap) {
        if let Some(netrc) = &self.netrc {
            netrc.authorize(url.host_str(), is_first, own);
        }
    }

    fn decodes(&self, url: &Url) -> bool {
        self.decoding().contains(&url.origin().ascii_serialization())
    }

    fn decoding(&self) -> MutexGuard<'_, HashSet<String>> {
        self.decoding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request, and follows redirects.
    pub(super) async fn send(&self, mut stop: Stop, ask: &HttpRequest<'_>) -> Result<Reached> {
        let mut waited = Duration::ZERO;
        let (mut is_redirected, mut linked) = (false, None);
        for requests in 1..=REDIRECTS_MAX + 1 {
            let coding = if self.decodes(&stop.url) { "gzip" } else { "identity" };
            let request = build(&stop, ask, coding)?;
            let answer = self.transport.send(request).await;
            let target = display(&stop.url);
            let (mut head, body) =
                answer.map_err(|error| unanswered(error, ask.operation, &target))?;
            waited += head.waited;
            head.waited = waited;
            head.requests = requests;
            if response::is_decoded(&head) && coding == "identity" {
                self.decoding().insert(stop.url.origin().ascii_serialization());
                continue;
            }
            if !head.status.is_redirection() || head.status == StatusCode::NOT_MODIFIED {
                let asked_identity = coding == "identity";
                return Ok(Reached { head, body, stop, is_redirected, asked_identity, linked });
            }
            linked = linked.or_else(|| parse_linked_etag(head.text("x-linked-etag")?));
            stop = stop.next(&head, ask.operation)?;
            self.authorize(&stop.url, false, &mut stop.own);
            is_redirected = true;
        }
        Err(Error::new(
            ErrorKind::Unsupported,
            ask.operation,
            display(&stop.url),
            format!("more than {REDIRECTS_MAX} redirects"),
        ))
    }
}

impl Reached {
    /// The facts in the response, and the checksum that a redirect named.
    pub(super) fn info(&self, version: Option<&Version>) -> BlobInfo {
        let mut info = response::info(&self.head, Dialect::Http, version);
        // In another coding the bytes are not those of the file.
        let linked = self.linked.as_ref().filter(|_| !response::is_encoded(&self.head));
        info.checksums.extend(linked.filter(|sum| !info.checksums.contains(sum)).cloned());
        info
    }
}

fn unanswered(
    error: impl std::error::Error + Send + Sync + 'static,
    operation: Operation,
    target: &str,
) -> Error {
    let failure = classify(&error);
    let error = Error::new(failure.kind, operation, target, failure.message)
        .caused_by(error)
        .retryable(failure.retry);
    match failure.hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

impl Stop {
    /// The URL with another last segment; `None` if its last segment is not `from`.
    pub(super) fn sibling(&self, from: &str, to: &str) -> Option<Url> {
        let mut url = self.url.clone();
        dav::replace_name(&mut url, from, to)?;
        Some(url)
    }

    /// The target that this response redirects to.
    fn next(self, head: &ResponseHead, operation: Operation) -> Result<Self> {
        let Self { url, mut own } = self;
        let target = display(&url);
        let next = head
            .text("location")
            .and_then(|location| url.join(location).ok())
            .filter(|next| matches!(next.scheme(), "http" | "https"))
            .ok_or_else(|| response::refusal(head, operation, &target, false))?;
        if url.scheme() == "https" && next.scheme() == "http" {
            let message = "it redirects from https to http";
            return Err(Error::new(ErrorKind::Unsupported, operation, target, message)
                .with_hint("give the http:// address itself if it is to be trusted"));
        }
        if next.origin() != url.origin() {
            own.clear();
        }
        Ok(Self { url: next, own })
    }
}

fn build(
    Stop { url, own }: &Stop,
    ask: &HttpRequest<'_>,
    coding: &'static str,
) -> Result<http::Request<HttpRequestBody>> {
    let mut request = http::Request::builder()
        .method(ask.method.clone())
        .uri(url.as_str())
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::ACCEPT, "*/*")
        .header(header::ACCEPT_ENCODING, coding);
    if let Some(range) = &ask.range {
        request = request.header(header::RANGE, range);
    }
    request = match ask.version {
        Some(Version::ETag(tag)) => request.header(header::IF_MATCH, tag),
        Some(Version::LastModified(date)) => request.header(header::IF_UNMODIFIED_SINCE, date),
        _ => request,
    };
    let mut request = request.body(HttpRequestBody::empty()).map_err(|error| {
        Error::new(ErrorKind::Invalid, ask.operation, display(url), "it makes no valid request")
            .caused_by(error)
    })?;
    transport::replace(request.headers_mut(), own);
    Ok(request)
}

/// Moves user info from the URL into a header for basic authentication.
fn take_user_info(url: &mut Url) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    if url.username().is_empty() && url.password().is_none() {
        return Ok(headers);
    }
    let decode = |text: &str| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
    let mut pair = decode(url.username());
    pair.push(b':');
    pair.extend(decode(url.password().unwrap_or_default()));
    // Both fail only for URLs that cannot have user info.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
    let mut basic = HeaderValue::try_from(basic).map_err(|error| {
        invalid(&display(url), "the user info makes no header").caused_by(error)
    })?;
    basic.set_sensitive(true);
    headers.insert(header::AUTHORIZATION, basic);
    Ok(headers)
}
