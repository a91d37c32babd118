//! Plain HTTP(S) as a remote: blobs are URLs, queries (signed ones too) included.
//!
//! Requests ask for `identity`, so that ranges and checksums are of the bytes as stored. Google's
//! storage, behind whatever name, does the opposite of what is wanted then: it decompresses what is
//! stored compressed. Its answer tells, and it is asked again, and from then on, for `gzip`.
//!
//! Redirects are followed, each answer counting as one attempt's part. User info in the URL becomes
//! basic authentication; that and the caller's own headers are sent to the first host only.
//!
//! A redirector may send each request to another mirror, and mirrors count versions by themselves.
//! So requests for a version go where the answer came from that named it ([`Settled`]), and the
//! first URL is resolved again only where that refuses: a signature expires.

mod client;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use http::{Method, StatusCode};
use tidegate_core::range::ByteRange;
use url::Url;

pub(super) use self::client::Client;
use self::client::{Ask, Reached, Stop};
use super::locate::{invalid, is_plain, last_segment, parse};
use super::network::Named;
use super::response::{self, Dialect};
use super::{BlobInfo, OpenRequest, Opened, Read, Remote, RemoteOptions, Selection, Version};
use crate::budget::Budget;
use crate::error::{Operation, Result};

/// Versions of one blob whose final URL is kept: one for each mirror that reads of it at the same
/// time were sent to. A read whose entry is gone asks the first URL again.
const SETTLED_MAX: usize = 16;

/// One blob.
#[derive(Debug)]
pub(super) struct HttpRemote {
    client: Arc<Client>,
    settled: Mutex<Vec<Settled>>,
    // What selects the blob, but for its URL.
    selection: Selection,
}

/// Where a version of the blob was found, behind redirects.
#[derive(Debug)]
struct Settled {
    version: Version,
    stop: Stop,
}

impl HttpRemote {
    pub(super) fn new(client: Arc<Client>, options: &RemoteOptions) -> Self {
        let selection = Selection::of_caller("http", options);
        Self { client, settled: Mutex::default(), selection }
    }

    fn settled(&self) -> std::sync::MutexGuard<'_, Vec<Settled>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks where the version was found that is asked for, else by the first URL.
    async fn send(&self, blob: &str, ask: &Ask<'_>) -> Result<Reached> {
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

    /// Keeps where a version was found.
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
        let ask = Ask {
            method: Method::GET,
            operation: Operation::Read,
            range: request.range.header(),
            version: request.version.as_ref(),
        };
        let reached = self.send(blob, &ask).await?;
        let (head, target) = (&reached.head, shown(blob));
        if response::may_be_the_end(head, request) {
            // The refusal of a range carries no version; one more request tells it.
            let facts = self.facts(blob, request.version.as_ref()).await?;
            // Where the question for facts brought a byte, the blob is not empty.
            let is_refuted = facts.brought_a_byte && response::unsatisfied_len(head) == Some(0);
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
        let info = response::info(head, Dialect::Http, request.version.as_ref());
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
}

/// What was asked for by itself.
struct Facts {
    info: BlobInfo,
    /// They came with the first byte of the blob, where `HEAD` was refused.
    brought_a_byte: bool,
}

impl HttpRemote {
    async fn facts(&self, blob: &str, version: Option<&Version>) -> Result<Facts> {
        let (target, pinned) = (shown(blob), version.is_some());
        let ask = Ask { method: Method::HEAD, operation: Operation::Stat, range: None, version };
        let reached = self.send(blob, &ask).await?;
        let head = &reached.head;
        if head.status.is_success() {
            let info = response::info(head, Dialect::Http, version);
            self.settle(info.version.as_ref(), &reached);
            let info = response::same_version(version, info, &target)?;
            return Ok(Facts { info, brought_a_byte: false });
        }
        if !matches!(head.status.as_u16(), 403 | 405 | 501) {
            return Err(response::refusal(head, Operation::Stat, &target, pinned));
        }
        // Signed URLs and some servers allow GET only; one byte tells the same.
        let ask = Ask { method: Method::GET, range: ByteRange::first(1).header(), ..ask };
        let mut reached = self.send(blob, &ask).await?;
        if reached.head.status == StatusCode::RANGE_NOT_SATISFIABLE
            && response::unsatisfied_len(&reached.head).is_none()
        {
            reached = self.send(blob, &Ask { range: None, ..ask }).await?;
        }
        let head = &reached.head;
        let mut info = response::info(head, Dialect::Http, version);
        match head.status.as_u16() {
            200..=299 => self.settle(info.version.as_ref(), &reached),
            416 if response::unsatisfied_len(head) == Some(0) => info.len_bytes = Some(0),
            _ => return Err(response::refusal(head, Operation::Stat, &target, pinned)),
        }
        let brought_a_byte = head.status == StatusCode::PARTIAL_CONTENT;
        let info = response::same_version(version, info, &target)?;
        Ok(Facts { info, brought_a_byte })
    }
}

fn shown(blob: &str) -> String {
    Url::parse(blob).map_or_else(|_| String::from("URL"), |url| display(&url))
}
