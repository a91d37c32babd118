//! Plain HTTP(S) as a remote: blobs are URLs, queries (signed ones too) included.
//!
//! Requests ask for `identity`, so that ranges and checksums are of the bytes as stored. Google's
//! storage, behind whatever name, does the opposite of what is wanted then: it decompresses what is
//! stored compressed. Its answer tells, and it is asked again, and from then on, for `gzip`.
//!
//! Redirects are followed, each answer counting as one attempt's part. User info in the URL becomes
//! basic authentication; that and the caller's own headers are sent to the first host only.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use object_store::client::HttpRequestBody;
use tidegate_core::range::ByteRange;
use url::Url;

use super::locate::{invalid, is_plain, last_segment, parse};
use super::network::Named;
use super::response::{self, Dialect};
use super::{BlobInfo, OpenRequest, Opened, Remote, RemoteOptions, Selection, Version};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::transport::{self, Answer, ResponseHead, Transport, classify};

/// As many hops as browsers and curl allow by habit of the web: CDNs use two or three.
const REDIRECTS_MAX: u32 = 10;

const USER_AGENT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));

#[derive(Debug)]
pub(super) struct HttpRemote {
    transport: Transport,
    // For the first host only.
    headers: HeaderMap,
    // Origins that decompress for those who ask for the bytes as they are.
    decoding: Mutex<HashSet<String>>,
    // What selects a blob, but for its URL.
    selection: Selection,
}

struct Ask<'a> {
    method: Method,
    operation: Operation,
    range: Option<String>,
    version: Option<&'a Version>,
}

impl HttpRemote {
    pub(super) fn new(transport: Transport, options: &RemoteOptions) -> Self {
        let headers = options.headers.as_map().clone();
        let selection = Selection::of_caller("http", options);
        Self { transport, headers, decoding: Mutex::default(), selection }
    }

    fn decodes(&self, url: &Url) -> bool {
        self.decoding().contains(&url.origin().ascii_serialization())
    }

    fn decoding(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.decoding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, blob: &str, ask: &Ask<'_>) -> Result<(ResponseHead, Answer)> {
        let mut url = Url::parse(blob)
            .map_err(|error| invalid("URL", "it is not a valid URL").caused_by(error))?;
        let mut own = take_user_info(&mut url)?;
        transport::replace(&mut own, &self.headers);
        let mut waited = Duration::ZERO;
        for requests in 1..=REDIRECTS_MAX + 1 {
            let coding = if self.decodes(&url) { "gzip" } else { "identity" };
            let request = build(&url, ask, coding, &own)?;
            let answer = self.transport.send(request).await;
            let target = display(&url);
            let (mut head, body) = answer.map_err(|error| {
                let failure = classify(&error);
                let error =
                    Error::new(failure.kind, ask.operation, target.clone(), failure.message)
                        .caused_by(error)
                        .retryable(failure.retry);
                match failure.hint {
                    Some(hint) => error.with_hint(hint),
                    None => error,
                }
            })?;
            waited += head.waited;
            head.waited = waited;
            head.requests = requests;
            if response::is_decoded(&head) && coding == "identity" {
                self.decoding().insert(url.origin().ascii_serialization());
                continue;
            }
            if !head.status.is_redirection() || head.status == StatusCode::NOT_MODIFIED {
                return Ok((head, body));
            }
            let next = head
                .text("location")
                .and_then(|location| url.join(location).ok())
                .filter(|next| matches!(next.scheme(), "http" | "https"))
                .ok_or_else(|| response::refusal(&head, ask.operation, &target, false))?;
            if url.scheme() == "https" && next.scheme() == "http" {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    ask.operation,
                    target,
                    "it redirects from https to http",
                )
                .with_hint("give the http:// address itself if it is to be trusted"));
            }
            if next.origin() != url.origin() {
                own.clear();
            }
            url = next;
        }
        Err(Error::new(
            ErrorKind::Unsupported,
            ask.operation,
            display(&url),
            format!("more than {REDIRECTS_MAX} redirects"),
        ))
    }
}

fn build(
    url: &Url,
    ask: &Ask<'_>,
    coding: &'static str,
    own: &HeaderMap,
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

/// What an `http://` or `https://` URL names.
pub(super) fn name(text: &str) -> Result<Named> {
    let url = parse(text)?;
    let display = display(&url);
    if url.host_str().is_none_or(str::is_empty) {
        return Err(invalid(&display, "the URL has no host"));
    }
    let file_name = last_segment(url.path())
        .map(|name| percent_encoding::percent_decode_str(&name).decode_utf8_lossy().into_owned())
        .filter(|name| is_plain(name));
    Ok(Named { remote: "http".to_owned(), blob: url.to_string(), display, file_name })
}

/// The URL without user info, query and fragment.
fn display(url: &Url) -> String {
    let mut shown = url.clone();
    // Both fail only for URLs that cannot have user info, which then have none to hide.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.set_query(None);
    shown.set_fragment(None);
    shown.to_string()
}

/// Takes user info out of the URL; it becomes basic authentication.
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

#[async_trait]
impl Remote for HttpRemote {
    async fn stat(&self, blob: &str) -> Result<BlobInfo> {
        self.facts(blob, None).await
    }

    async fn stat_version(&self, blob: &str, version: &Version) -> Result<BlobInfo> {
        self.check_version(version)?;
        self.facts(blob, Some(version)).await
    }

    fn check_version(&self, version: &Version) -> Result<()> {
        Dialect::Http.check(version)
    }

    fn selection(&self, blob: &str) -> Option<Selection> {
        let url = Url::parse(blob).ok()?;
        Some(self.selection.clone().with_url(&url))
    }

    async fn open(&self, blob: &str, request: &OpenRequest) -> Result<Opened> {
        if let Some(version) = &request.version {
            self.check_version(version)?;
        }
        let ask = Ask {
            method: Method::GET,
            operation: Operation::Read,
            range: request.range.header(),
            version: request.version.as_ref(),
        };
        let (head, body) = self.send(blob, &ask).await?;
        let target = shown(blob);
        if response::may_be_the_end(&head, request) {
            // The refusal of a range carries no version; one more request tells it.
            let info = self.facts(blob, request.version.as_ref()).await?;
            if let Some(opened) = response::at_the_end(&head, request, info) {
                return Ok(opened.after_one_more());
            }
        }
        if !head.status.is_success() {
            let pinned = request.version.is_some();
            return Err(response::refusal(&head, Operation::Read, &target, pinned));
        }
        let info = response::info(&head, Dialect::Http, request.version.as_ref());
        let placement = response::place(&head, request, &info, &target)?;
        Ok(response::opened(&head, info, &placement, response::frames(body, target)))
    }
}

impl HttpRemote {
    async fn facts(&self, blob: &str, version: Option<&Version>) -> Result<BlobInfo> {
        let (target, pinned) = (shown(blob), version.is_some());
        let ask = Ask { method: Method::HEAD, operation: Operation::Stat, range: None, version };
        let (head, _) = self.send(blob, &ask).await?;
        if head.status.is_success() {
            let info = response::info(&head, Dialect::Http, version);
            return response::same_version(version, info, &target);
        }
        if !matches!(head.status.as_u16(), 403 | 405 | 501) {
            return Err(response::refusal(&head, Operation::Stat, &target, pinned));
        }
        // Signed URLs and some servers allow GET only; one byte tells the same.
        let ask = Ask { method: Method::GET, range: ByteRange::first(1).header(), ..ask };
        let (head, _) = self.send(blob, &ask).await?;
        let info = response::info(&head, Dialect::Http, version);
        match head.status.as_u16() {
            200..=299 => response::same_version(version, info, &target),
            416 if response::unsatisfied_len(&head) == Some(0) => {
                Ok(BlobInfo { len_bytes: Some(0), ..info })
            }
            _ => Err(response::refusal(&head, Operation::Stat, &target, pinned)),
        }
    }
}

fn shown(blob: &str) -> String {
    Url::parse(blob).map_or_else(|_| String::from("URL"), |url| display(&url))
}
