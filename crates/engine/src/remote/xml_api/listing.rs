//! Listing objects, by version 2 of the request.

use std::sync::Arc;
use std::time::SystemTime;

use futures_util::stream;
use http::Method;
use percent_encoding::percent_decode_str;

use super::document::{self, ObjectsPage};
use super::{XmlDialect, XmlWriter};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::object_client::ObjectRequest;
use crate::remote::{
    BlobInfo, List, ListEntry, ListPage, ListPages, ListProfile, ListRequest, PageToken, Version,
};

/// A time as the services write it: `2026-11-23T12:00:00.000Z`.
pub(super) fn moment(text: &str) -> Option<SystemTime> {
    chrono::DateTime::parse_from_rfc3339(text).ok().map(SystemTime::from)
}

impl List for XmlWriter {
    fn list_profile(&self) -> ListProfile {
        ListProfile::new(true)
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

impl XmlWriter {
    async fn page(&self, request: &ListRequest, from: Option<&PageToken>) -> Result<ListPage> {
        let target = self.client.target(&request.prefix);
        let mut sent = ObjectRequest::new(Method::GET, Operation::List, "")
            .query("list-type", "2")
            .query("encoding-type", "url")
            .query("max-keys", request.page_entries_max.to_string())
            .query("prefix", request.prefix.as_str());
        sent.key = None;
        if request.by_folder {
            sent = sent.query("delimiter", "/");
        }
        if let Some(token) = from {
            sent = sent.query("continuation-token", token.as_str());
        }
        let answer = self.client.send(&sent).await?;
        let page: ObjectsPage = document::read(&answer.text, Operation::List, &target)?;
        let contradicts =
            |message: &str| Error::new(ErrorKind::Remote, Operation::List, &*target, message);
        let is_encoded = page.encoding_type.as_deref() == Some("url");
        let name = |key: String| -> Result<String> {
            let key = if is_encoded {
                let key = key.replace('+', " ");
                let key = percent_decode_str(&key).decode_utf8();
                let no_text = |error| contradicts("a key in the list is no text").caused_by(error);
                key.map_err(no_text)?.into_owned()
            } else {
                key
            };
            if !key.starts_with(&request.prefix) {
                return Err(contradicts("the list has a key without the prefix"));
            }
            Ok(key)
        };
        let folders = page.common_prefixes.into_iter().map(|common| name(common.prefix));
        let folders = folders.collect::<Result<Vec<_>>>()?;
        let mut entries = Vec::with_capacity(page.contents.len());
        for object in page.contents {
            let blob = name(object.key)?;
            let version = match (self.dialect, object.generation) {
                (XmlDialect::Gcs, Some(generation)) => Some(Version::Generation(generation)),
                _ => object.etag.as_deref().and_then(Version::from_etag),
            };
            let info = BlobInfo {
                len_bytes: Some(object.size),
                version,
                last_modified: object.last_modified,
                ..BlobInfo::default()
            };
            entries.push(ListEntry::new(blob, info));
        }
        let next = match page.next_continuation_token.filter(|_| page.is_truncated) {
            Some(next) if from.is_some_and(|from| from.as_str() == next) => {
                return Err(contradicts("the list repeats itself"));
            }
            None if page.is_truncated => {
                return Err(contradicts("the list is cut, and does not say where it goes on"));
            }
            next => next.map(PageToken::new),
        };
        Ok(ListPage { folders, ..ListPage::new(entries, next) })
    }
}
