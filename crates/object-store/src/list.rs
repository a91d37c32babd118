//! Listing, page by page. A page that fails is asked for again.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta};
use tidegate::remote::{ListEntry, ListPage, ListPages, ListRequest, PageToken, Unlisted};
use tidegate::{Error, ErrorKind, Location, Operation, Result};
use tokio::sync::Mutex;

use crate::attempts::Attempts;
use crate::place::Place;
use crate::{failure, get};

/// All blobs below `prefix`.
///
/// An entry that no path names, such as the key `a//b`, and a local entry that is not listed, such as
/// a symbolic link, is an error in its place; the entries after it follow. The empty objects that
/// some tools make for folders, whose keys end with a slash, are left out.
pub(crate) fn list(
    place: &Arc<Place>,
    prefix: Option<&Path>,
) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
    let prefix = prefix.cloned().unwrap_or_default();
    let listing = Listing::new(place, &prefix);
    let place = Arc::clone(place);
    let pages = stream::try_unfold(Some(listing), move |listing| {
        let prefix = prefix.clone();
        async move {
            let Some(mut listing) = listing else { return Ok(None) };
            let page = listing.page().await.map_err(|error| failure::of(&prefix, error))?;
            let more = listing.from.is_some().then_some(listing);
            Ok::<_, object_store::Error>(Some((page, more)))
        }
    });
    pages.map_ok(move |page| stream::iter(items(&place, page))).try_flatten().boxed()
}

/// The blobs and the folders directly below `prefix`.
pub(crate) async fn list_with_delimiter(
    place: &Arc<Place>,
    prefix: Option<&Path>,
) -> object_store::Result<ListResult> {
    let prefix = prefix.cloned().unwrap_or_default();
    let depth = prefix.parts().count();
    let (mut folders, mut objects) = (BTreeSet::new(), Vec::new());
    let mut listing = Listing::new(place, &prefix).by_folder();
    while listing.from.is_some() {
        let mut page = listing.page().await.map_err(|error| failure::of(&prefix, error))?;
        for folder in std::mem::take(&mut page.folders) {
            folders.insert(place.path(folder.strip_suffix('/').unwrap_or(&folder))?);
        }
        for found in items(place, page) {
            let found = found?;
            // The remote does not group names.
            if found.location.parts().count() > depth + 1 {
                folders.insert(found.location.parts().take(depth + 1).collect::<Path>());
            } else {
                objects.push(found);
            }
        }
    }
    Ok(ListResult {
        common_prefixes: folders.into_iter().collect(),
        objects,
        extensions: object_store::Extensions::default(),
    })
}

/// A listing between two pages.
struct Listing {
    attempts: Attempts,
    at: Location,
    request: ListRequest,
    is_local: bool,
    /// The stream of pages, while it has not failed.
    pages: Arc<Mutex<Option<ListPages>>>,
    /// Where the next page begins; `None` after the last one.
    from: Option<PageFrom>,
}

#[derive(Clone, Debug)]
enum PageFrom {
    Beginning,
    Token(PageToken),
}

impl Listing {
    fn new(place: &Place, prefix: &Path) -> Self {
        Self {
            attempts: place.attempts(place.budget()),
            at: place.locate(prefix),
            request: ListRequest::new(place.key_prefix(Some(prefix))),
            is_local: place.is_local(),
            pages: Arc::default(),
            from: Some(PageFrom::Beginning),
        }
    }

    fn by_folder(self) -> Self {
        Self { request: self.request.clone().by_folder(), ..self }
    }

    async fn page(&mut self) -> Result<ListPage> {
        let request = match &self.from {
            Some(PageFrom::Token(token)) => self.request.clone().from(token.clone()),
            _ => self.request.clone(),
        };
        let what = self.attempts.of(Operation::List, self.at.display(), 0);
        let (at, pages, budget) = (&self.at, &self.pages, self.attempts.budget());
        let outcome = self.attempts.make(what, || async {
            // An attempt that timed out has taken its stream with it.
            let stream = pages.lock().await.take();
            let mut stream = match stream {
                Some(stream) => stream,
                None => at.list()?.list(&request, budget),
            };
            let page = stream.next().await.unwrap_or_else(|| Ok(ListPage::default()))?;
            *pages.lock().await = Some(stream);
            Ok(page)
        });
        let page = match outcome.await {
            Ok(page) => page,
            // A folder that is missing is a prefix without blobs.
            Err(error) if self.is_local && error.kind() == ErrorKind::NotFound => {
                ListPage::default()
            }
            Err(error) => return Err(error),
        };
        self.from = page.next.clone().map(PageFrom::Token);
        Ok(page)
    }
}

fn items(place: &Place, page: ListPage) -> Vec<object_store::Result<ObjectMeta>> {
    let listed = page.entries.into_iter().filter(|entry| !is_marker(entry));
    let listed = listed.map(|entry| {
        let path = place.path(&entry.blob)?;
        get::described(&path, &entry.info)
    });
    let unlisted = page.unlisted.into_iter().map(|entry| Err(refused(&entry)));
    listed.chain(unlisted).collect()
}

/// Whether the object stands for a folder.
fn is_marker(entry: &ListEntry) -> bool {
    entry.blob.ends_with('/') && entry.info.len_bytes == Some(0)
}

fn refused(entry: &Unlisted) -> object_store::Error {
    let message = entry.reason;
    let error = Error::new(ErrorKind::Unsupported, Operation::List, entry.name.clone(), message);
    object_store::Error::NotSupported { source: Box::new(error) }
}
