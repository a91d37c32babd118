//! Listing blobs.

use std::sync::Arc;

use futures_util::stream;
use http::Method;
use percent_encoding::percent_decode_str;

use super::AzureWriter;
use super::document::{self, BlobsPage, ListedName};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::object_client::ObjectRequest;
use crate::remote::{
    BlobInfo, List, ListEntry, ListPage, ListPages, ListProfile, ListRequest, PageToken, Version,
};

/// The maximum of the service.
const PAGE_ENTRIES_MAX: u32 = 5_000;

impl List for AzureWriter {
    /// In an account with a hierarchy the order is the one of folders: `a/b` before `a-b`.
    fn list_profile(&self) -> ListProfile {
        ListProfile::new(false)
    }

    fn list(&self, request: &ListRequest, _budget: &Budget) -> ListPages {
        let (writer, request) = (Arc::new(self.clone()), request.clone());
        let pages = stream::try_unfold(Some(request.from.clone()), move |from| {
            let (writer, request) = (Arc::clone(&writer), request.clone());
            async move {
                let Some(from) = from else { return Ok(None) };
                let page = writer.page(&request, from.as_ref()).await?;
                let next = page.next.clone();
                Ok::<_, Error>(Some((page, next.map(Some))))
            }
        });
        Box::pin(pages)
    }
}

impl AzureWriter {
    async fn page(&self, request: &ListRequest, from: Option<&PageToken>) -> Result<ListPage> {
        let max = request.page_entries_max.min(PAGE_ENTRIES_MAX);
        let delimiter = request.by_folder.then_some(("delimiter", "/"));
        let page = self.blobs(&request.prefix, from, max, delimiter).await?;
        let folders =
            page.blobs.folders.iter().map(|found| self.name(&found.name, &request.prefix));
        let folders = folders.collect::<Result<Vec<_>>>()?;
        let mut entries = Vec::with_capacity(page.blobs.blobs.len());
        for listed in page.blobs.blobs {
            if listed.is_folder() {
                continue;
            }
            let blob = self.name(&listed.name, &request.prefix)?;
            let info = BlobInfo {
                len_bytes: listed.properties.content_length,
                version: listed.properties.etag.as_deref().and_then(version),
                last_modified: listed.properties.last_modified,
                ..BlobInfo::default()
            };
            entries.push(ListEntry::new(blob, info));
        }
        let next = page.next_marker.map(PageToken::new);
        Ok(ListPage { folders, ..ListPage::new(entries, next) })
    }

    /// A page of blobs; its marker is `None` at the end. `parameter` is a further one of the query.
    pub(super) async fn blobs(
        &self,
        prefix: &str,
        from: Option<&PageToken>,
        entries_max: u32,
        parameter: Option<(&'static str, &'static str)>,
    ) -> Result<BlobsPage> {
        let target = self.client.target(prefix);
        let mut sent = ObjectRequest::new(Method::GET, Operation::List, "")
            .query("restype", "container")
            .query("comp", "list")
            .query("maxresults", entries_max.to_string());
        sent.key = None;
        if !prefix.is_empty() {
            sent = sent.query("prefix", prefix);
        }
        if let Some((name, value)) = parameter {
            sent = sent.query(name, value);
        }
        if let Some(token) = from {
            sent = sent.query("marker", token.as_str());
        }
        let answer = self.client.send(&sent).await?;
        let mut page: BlobsPage = document::read(&answer.text, Operation::List, &target)?;
        page.next_marker = page.next_marker.filter(|marker| !marker.is_empty());
        if let (Some(from), Some(next)) = (from, &page.next_marker)
            && from.as_str() == next
        {
            return Err(self.contradicts(prefix, "the list repeats itself"));
        }
        Ok(page)
    }

    /// The name of a listed blob.
    pub(super) fn name(&self, listed: &ListedName, prefix: &str) -> Result<String> {
        let name = match listed.encoded.as_deref() {
            Some("true") => {
                let decoded = percent_decode_str(&listed.text).decode_utf8();
                let no_text = |_| self.contradicts(prefix, "a name in the list is no text");
                decoded.map_err(no_text)?.into_owned()
            }
            _ => listed.text.clone(),
        };
        if !name.starts_with(prefix) {
            return Err(self.contradicts(prefix, "the list has a name without the prefix"));
        }
        Ok(name)
    }

    fn contradicts(&self, prefix: &str, message: &str) -> Error {
        Error::new(ErrorKind::Remote, Operation::List, self.client.target(prefix), message)
    }
}

/// The version in a list's entity tag, which has no quotes.
fn version(etag: &str) -> Option<Version> {
    let is_quoted = etag.starts_with(['"', 'W']);
    Version::from_etag(&if is_quoted { etag.to_owned() } else { format!("\"{etag}\"") })
}
