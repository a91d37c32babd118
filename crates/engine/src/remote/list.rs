//! [`List`]: the blobs under a prefix, page by page.
//!
//! The listing is a stream of pages, not of entries. One request returns one page, and each page
//! says where the next begins ([`ListPage::next`]). So a caller whose listing fails can continue
//! where it failed, also at a remote that cannot start after a key.
//!
//! Invariant: a blob that cannot be listed is never left out silently. It is an error, or it is in
//! [`ListPage::unlisted`]. Otherwise a caller that deletes blobs missing from a listing would
//! delete too much.

use std::fmt;
use std::pin::Pin;

use futures_core::Stream;
use serde::{Deserialize, Serialize};

use super::BlobInfo;
use crate::budget::Budget;
use crate::error::Result;

/// Default number of entries of one page: the maximum of S3 and Google Cloud Storage.
const PAGE_ENTRIES_MAX: u32 = 1000;

/// Pages as they arrive. The stream ends after the page whose `next` is `None`, or after an error.
pub type ListPages = Pin<Box<dyn Stream<Item = Result<ListPage>> + Send>>;

/// Where a page begins, in the remote's own format.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageToken(String);

impl PageToken {
    /// A token, in the remote's own format.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The token, in the remote's own format.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The request of [`List::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListRequest {
    /// The start of the names: plain text, not the name of a folder. `a/b` matches `a/b`, `a/b/c`
    /// and `a/bc`; `a/b/` matches only `a/b/c`.
    pub prefix: String,
    /// Whether the blobs of a folder below the prefix are put together: in place of all names with
    /// `PREFIX` and a further slash, the page has that beginning once, in [`ListPage::folders`]. A
    /// remote that does not group names lists all blobs.
    pub by_folder: bool,
    /// Where to begin; `None` for the beginning.
    pub from: Option<PageToken>,
    /// Maximum number of entries in a page; a remote may give fewer.
    pub page_entries_max: u32,
}

impl ListRequest {
    /// All blobs whose names begin with this prefix, 1,000 per page.
    pub fn new(prefix: impl Into<String>) -> Self {
        let (prefix, by_folder) = (prefix.into(), false);
        Self { prefix, by_folder, from: None, page_entries_max: PAGE_ENTRIES_MAX }
    }

    /// The same, with the blobs of each folder put together.
    #[must_use]
    pub fn by_folder(mut self) -> Self {
        self.by_folder = true;
        self
    }

    /// The same, starting at this page.
    #[must_use]
    pub fn from(mut self, token: PageToken) -> Self {
        self.from = Some(token);
        self
    }

    /// The same, with at most this many entries per page.
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
    /// Its name, as all other calls take it.
    pub blob: String,
    /// The facts in the listing; at most remotes fewer than [`Read::stat`](super::Read::stat)
    /// gives.
    pub info: BlobInfo,
}

impl ListEntry {
    /// A blob.
    pub fn new(blob: impl Into<String>, info: BlobInfo) -> Self {
        Self { blob: blob.into(), info }
    }
}

/// An entry under the prefix that is not a blob of this remote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unlisted {
    /// Its name, as far as it can be displayed.
    pub name: String,
    /// Why it is not listed, such as "it is a symbolic link".
    pub reason: &'static str,
}

impl Unlisted {
    /// An entry that is not listed for this reason.
    pub fn new(name: impl Into<String>, reason: &'static str) -> Self {
        Self { name: name.into(), reason }
    }
}

/// The result of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListPage {
    /// Blobs.
    pub entries: Vec<ListEntry>,
    /// What the names of blobs in a folder begin with, with the slash at its end, if the request
    /// asks for folders.
    pub folders: Vec<String>,
    /// Entries that exist and cannot be listed.
    pub unlisted: Vec<Unlisted>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<PageToken>,
}

impl ListPage {
    /// A page without unlisted entries.
    pub fn new(entries: Vec<ListEntry>, next: Option<PageToken>) -> Self {
        Self { entries, next, ..Self::default() }
    }
}

/// How a remote lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListProfile {
    /// Names come in the order of their bytes, each name once.
    pub is_sorted: bool,
}

impl ListProfile {
    /// A remote that lists sorted or not.
    pub const fn new(is_sorted: bool) -> Self {
        Self { is_sorted }
    }
}

/// A remote whose blobs can be listed.
pub trait List: fmt::Debug + Send + Sync {
    /// How this remote lists. Sends no request.
    fn list_profile(&self) -> ListProfile;

    /// Lists the blobs whose names begin with the request's prefix, with at most one page in
    /// memory. If no name matches, it gives one empty page. Polling the stream requests the next
    /// page; dropping the stream ends the request.
    ///
    /// A remote may need memory in addition to the page, such as for the names of one folder. It
    /// takes that memory from `budget` without waiting, and fails with `Exhausted` if the budget
    /// has too little.
    ///
    /// A page fails with `NotFound` if the bucket or the folder is missing, with `NoAccess`, and so
    /// on. An error ends the stream. [`crate::Error::retry`] says whether listing again from the
    /// last page's token can help.
    fn list(&self, request: &ListRequest, budget: &Budget) -> ListPages;
}
