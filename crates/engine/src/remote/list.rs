//! [`List`]: the blobs under a prefix, page by page.
//!
//! A stream of pages, and not of entries: a page is what one request brings, and each page says where
//! the next begins ([`ListPage::next`]). So a caller whose listing fails goes on where it failed, also
//! at a remote that takes no key to start after.
//!
//! Invariant: what the remote has but cannot list is never left out silently. It is an error, or it is
//! in [`ListPage::unlisted`]. A caller that deletes what a listing lacks would otherwise delete too
//! much.

use std::fmt;
use std::pin::Pin;

use futures_core::Stream;
use serde::{Deserialize, Serialize};

use super::BlobInfo;
use crate::budget::Budget;
use crate::error::Result;

/// Entries of one page, by default: what S3 and Google Cloud Storage give at most.
const PAGE_ENTRIES_MAX: u32 = 1000;

/// Pages as they arrive. It ends after the page whose `next` is `None`, or after an error.
pub type ListPages = Pin<Box<dyn Stream<Item = Result<ListPage>> + Send>>;

/// Where a page begins, as the remote wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageToken(String);

impl PageToken {
    /// A token, as the remote wrote it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The token, as the remote wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What [`List::list`] is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListRequest {
    /// What the names begin with: plain text, not the name of a folder. `a/b` has `a/b`, `a/b/c` and
    /// `a/bc` under it, `a/b/` only `a/b/c`.
    pub prefix: String,
    /// Where to begin; `None` for the beginning.
    pub from: Option<PageToken>,
    /// At most this many entries a page; a remote may give fewer.
    pub page_entries_max: u32,
}

impl ListRequest {
    /// All blobs whose names begin with this, 1,000 a page.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), from: None, page_entries_max: PAGE_ENTRIES_MAX }
    }

    /// The same, from this page on.
    #[must_use]
    pub fn from(mut self, token: PageToken) -> Self {
        self.from = Some(token);
        self
    }

    /// The same, with at most this many entries a page.
    #[must_use]
    pub fn page_entries_max(mut self, count: u32) -> Self {
        self.page_entries_max = count.max(1);
        self
    }
}

/// One blob of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListEntry {
    /// Its name, which all other calls take.
    pub blob: String,
    /// What the listing says of it; fewer facts than [`Read::stat`](super::Read::stat) gives at most
    /// remotes.
    pub info: BlobInfo,
}

impl ListEntry {
    /// A blob.
    pub fn new(blob: impl Into<String>, info: BlobInfo) -> Self {
        Self { blob: blob.into(), info }
    }
}

/// Something under the prefix that is no blob of this remote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unlisted {
    /// Its name, as far as it can be shown.
    pub name: String,
    /// Why it is not listed, such as "it is a symbolic link".
    pub reason: &'static str,
}

impl Unlisted {
    /// Something that is not listed for this reason.
    pub fn new(name: impl Into<String>, reason: &'static str) -> Self {
        Self { name: name.into(), reason }
    }
}

/// What one request brings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListPage {
    /// Blobs.
    pub entries: Vec<ListEntry>,
    /// What is there and cannot be listed.
    pub unlisted: Vec<Unlisted>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<PageToken>,
}

impl ListPage {
    /// A page where everything could be listed.
    pub fn new(entries: Vec<ListEntry>, next: Option<PageToken>) -> Self {
        Self { entries, unlisted: Vec::new(), next }
    }
}

/// How a remote lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListProfile {
    /// Names come in the order of their bytes, each once.
    pub is_sorted: bool,
}

impl ListProfile {
    /// A remote that lists in this order.
    pub const fn new(is_sorted: bool) -> Self {
        Self { is_sorted }
    }
}

/// A place whose blobs can be listed.
pub trait List: fmt::Debug + Send + Sync {
    /// How this remote lists. No request is sent.
    fn list_profile(&self) -> ListProfile;

    /// The blobs whose names begin with the request's prefix, at most one page in memory. Where
    /// nothing begins with it, one empty page. A page is asked for when the stream is polled for it;
    /// dropping the stream ends the request.
    ///
    /// Memory that a remote needs beyond the page, such as for the names of one folder, is taken from
    /// `budget` without waiting; `Exhausted` where it is not there.
    ///
    /// A page fails with `NotFound` where the bucket or the folder is missing, with `NoAccess`, and so
    /// on. An error ends the stream. [`crate::Error::retry`] says whether listing again from the last
    /// page's token can help.
    fn list(&self, request: &ListRequest, budget: &Budget) -> ListPages;
}
