//! Plain HTTP(S) as a remote: blobs are URLs, including queries (also signed ones).
//!
//! Requests ask for `identity`, so that ranges and checksums cover the bytes as stored. Google's
//! storage, under any host name, then decompresses blobs that are stored compressed. Its response
//! shows this. The client then repeats the request with `gzip`, and asks that origin for `gzip`
//! from then on.
//!
//! Redirects are followed; each response counts as part of one attempt. User info in the URL
//! becomes basic authentication. That and the caller's own headers are sent to the first host only.
//!
//! A redirector may send each request to another mirror, and each mirror has its own versions. So
//! requests for a version go to the URL whose response named that version ([`Settled`]). The first
//! URL is resolved again only if that URL refuses, because a signature can expire.

mod client;
mod dav;
mod write;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use http::{Method, StatusCode};
use tidegate_core::range::ByteRange;
use url::Url;

pub(super) use self::client::HttpClient;
use self::client::{HttpRequest, Reached, Stop};
use super::locate::{invalid, is_plain, last_segment, parse};
use super::network::Named;
use super::response::{self, Dialect};
use super::{
    BlobInfo, Delete, OpenRequest, Opened, Read, Remote, RemoteOptions, Selection, Version, Write,
};
use crate::budget::Budget;
use crate::error::{Operation, Result};

/// Maximum number of versions of one blob whose final URL is kept: one for each mirror that
/// concurrent reads were redirected to. A read whose entry was evicted asks the first URL again.
const SETTLED_MAX: usize = 16;

/// One blob.
#[derive(Debug)]
pub(super) struct HttpRemote {
    client: Arc<HttpClient>,
    settled: Mutex<Vec<Settled>>,
    // Everything that selects the blob, except its URL.
    selection: Selection,
}

/// The URL, after redirects, where a version of the blob was found.
#[derive(Debug)]
struct Settled {
    version: Version,
    stop: Stop,
}

impl HttpRemote {
    pub(super) fn new(client: Arc<HttpClient>, options: &RemoteOptions) -> Self {
        let selection = Selection::of_caller("http", options);
        Self { client, settled: Mutex::default(), selection }
    }

    fn settled(&self) -> std::sync::MutexGuard<'_, Vec<Settled>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the request to the URL where its version was found, or to the first URL if there is
    /// none.
    async fn send(&self, blob: &str, ask: &HttpRequest<'_>) -> Result<Reached> {
        let first = self.client.first(blob)?;
        let found = ask.version.and_then(|version| {
            let settled = self.settled();
            let mut found = settled.iter().filter(|settled| settled.version.agrees(version));
            found.next().map(|settled| settled.stop.clone())
        });
        let Some(found) = found else { return self.client.send(first, ask).await };
        let reached = self.client.send(found, ask).await?;
        // It may have been a signed URL that has expired, or a mirror that is gone.
        if !matches!(reached.head.status.as_u16(), 401 | 403 | 404 | 410) {
            return Ok(Reached { is_redirected: true, ..reached });
        }
        let mut again = self.client.send(first, ask).await?;
        again.head.requests += reached.head.requests;
        again.head.waited += reached.head.waited;
        Ok(again)
    }

    /// Records the URL where a version was found.
    fn settle(&self, version: Option<&Version>, reached: &Reached) {
        let Some(version) = version else { return };
        let mut settled = self.settled();
        settled.retain(|settled| settled.version != *version);
        if reached.is_redirected {
            let full = settled.len() >= SETTLED_MAX;
            settled.drain(..usize::from(full));
            settled.push(Settled { version: version.clone(), stop: reached.stop.clone() });
        }
    }
}

/// Splits an `http://` or `https://` URL into its remote, blob and names.
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
    // Both fail only for URLs that cannot have user info.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.set_query(None);
    shown.set_fragment(None);
    shown.to_string()
}

#[async_trait]
impl Read for HttpRemote {
    async fn stat(&self, blob: &str) -> Result<BlobInfo> {
        Ok(self.facts(blob, None).await?.info)
    }

    async fn stat_version(&self, blob: &str, version: &Version) -> Result<BlobInfo> {
        self.check_version(version)?;
        Ok(self.facts(blob, Some(version)).await?.info)
    }

    fn check_version(&self, version: &Version) -> Result<()> {
        Dialect::Http.check(version)
    }

    fn selection(&self, blob: &str) -> Option<Selection> {
        let url = Url::parse(blob).ok()?;
        Some(self.selection.clone().with_url(&url))
    }

    async fn open(&self, blob: &str, request: &OpenRequest, budget: &Budget) -> Result<Opened> {
        if let Some(version) = &request.version {
            self.check_version(version)?;
        }
        let ask = HttpRequest {
            method: Method::GET,
            operation: Operation::Read,
            range: request.range.header(),
            version: request.version.as_ref(),
        };
        let reached = self.send(blob, &ask).await?;
        let (head, target) = (&reached.head, shown(blob));
        if response::may_be_the_end(head, request) {
            // The refusal of a range carries no version, so one more request asks for it.
            let facts = self.facts(blob, request.version.as_ref()).await?;
            // If the metadata request returned a byte, the blob is not empty.
            let is_refuted = facts.has_first_byte && response::unsatisfied_len(head) == Some(0);
            if !is_refuted && let Some(opened) = response::at_the_end(head, request, facts.info) {
                return Ok(opened.after_one_more());
            }
        }
        if response::proves_nothing(head, request) {
            let whole = OpenRequest { range: ByteRange::All, version: request.version.clone() };
            return self.open(blob, &whole, budget).await.map(Opened::after_one_more);
        }
        if !head.status.is_success() {
            let pinned = request.version.is_some();
            return Err(response::refusal(head, Operation::Read, &target, pinned));
        }
        let info = reached.info(request.version.as_ref());
        let placement = response::place(head, request, &info, &target)?;
        self.settle(info.version.as_ref(), &reached);
        let encoded_unasked = reached.asked_identity && response::is_encoded(head);
        let body = response::frames(reached.body, target);
        let opened = response::opened(&reached.head, info, &placement, body);
        Ok(Opened { encoded_unasked, ..opened })
    }
}

impl Remote for HttpRemote {
    fn scheme(&self) -> &'static str {
        "http"
    }

    fn as_write(&self) -> Option<&dyn Write> {
        Some(self)
    }

    fn as_delete(&self) -> Option<&dyn Delete> {
        Some(self)
    }
}

/// The result of a metadata request.
struct Facts {
    info: BlobInfo,
    /// The facts came with the first byte of the blob, because `HEAD` was refused.
    has_first_byte: bool,
}

impl HttpRemote {
    async fn facts(&self, blob: &str, version: Option<&Version>) -> Result<Facts> {
        let (target, pinned) = (shown(blob), version.is_some());
        let ask =
            HttpRequest { method: Method::HEAD, operation: Operation::Stat, range: None, version };
        let reached = self.send(blob, &ask).await?;
        let head = &reached.head;
        if head.status.is_success() {
            let info = reached.info(version);
            self.settle(info.version.as_ref(), &reached);
            let info = response::same_version(version, info, &target)?;
            return Ok(Facts { info, has_first_byte: false });
        }
        if !matches!(head.status.as_u16(), 403 | 405 | 501) {
            return Err(response::refusal(head, Operation::Stat, &target, pinned));
        }
        // Signed URLs and some servers allow GET only; a request for one byte gives the same facts.
        let ask = HttpRequest { method: Method::GET, range: ByteRange::first(1).header(), ..ask };
        let mut reached = self.send(blob, &ask).await?;
        if reached.head.status == StatusCode::RANGE_NOT_SATISFIABLE
            && response::unsatisfied_len(&reached.head).is_none()
        {
            reached = self.send(blob, &HttpRequest { range: None, ..ask }).await?;
        }
        let head = &reached.head;
        let mut info = reached.info(version);
        match head.status.as_u16() {
            200..=299 => self.settle(info.version.as_ref(), &reached),
            416 if response::unsatisfied_len(head) == Some(0) => info.len_bytes = Some(0),
            _ => return Err(response::refusal(head, Operation::Stat, &target, pinned)),
        }
        let has_first_byte = head.status == StatusCode::PARTIAL_CONTENT;
        let info = response::same_version(version, info, &target)?;
        Ok(Facts { info, has_first_byte })
    }
}

fn shown(blob: &str) -> String {
    Url::parse(blob).map_or_else(|_| String::from("URL"), |url| display(&url))
}
