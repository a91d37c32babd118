//! Listing local files: [`List`] for [`FileRemote`].

use futures_util::stream;

use super::walk::{FoundEntry, Walk};
use super::{FileRemote, stamp_of};
use crate::budget::Budget;
use crate::error::{Operation, Result};
use crate::offload::offload;
use crate::remote::list::{
    List, ListEntry, ListPage, ListPages, ListProfile, ListRequest, PageToken,
};
use crate::remote::read::BlobInfo;

impl List for FileRemote {
    fn list_profile(&self) -> ListProfile {
        ListProfile::new(true)
    }

    fn list(&self, request: &ListRequest, budget: &Budget) -> ListPages {
        let first = Listing::Asked(request.clone(), budget.clone());
        Box::pin(stream::try_unfold(Some(first), |listing| async move {
            let Some(listing) = listing else { return Ok(None) };
            let shown = listing.request().prefix.clone();
            let page = offload(Operation::List, &shown, move || listing.page()).await?;
            Ok(Some(page))
        }))
    }
}

/// A listing between two pages.
enum Listing {
    /// The walk has not started.
    Asked(ListRequest, Budget),
    /// The walk has started; the last field is the name that was listed last.
    Begun(ListRequest, Box<Walk>, String),
}

impl Listing {
    fn request(&self) -> &ListRequest {
        match self {
            Self::Asked(request, _) | Self::Begun(request, ..) => request,
        }
    }

    /// The next page, and the listing after it. Blocks.
    fn page(self) -> Result<(ListPage, Option<Self>)> {
        let (request, mut walk, mut last) = match self {
            Self::Asked(request, budget) => {
                let walk = Walk::open(&request.prefix, request.from.as_ref(), &budget)?;
                let last = request.from.as_ref().map(|from| from.as_str().to_owned());
                (request, Box::new(walk), last.unwrap_or_default())
            }
            Self::Begun(request, walk, last) => (request, walk, last),
        };
        let entries_max = usize::try_from(request.page_entries_max).unwrap_or(usize::MAX);
        let mut page = ListPage::default();
        while page.entries.len() + page.unlisted.len() < entries_max {
            match walk.next()? {
                None => return Ok((page, None)),
                Some(FoundEntry::Unlisted(unlisted)) => page.unlisted.push(unlisted),
                Some(FoundEntry::Upload { .. }) => {}
                Some(FoundEntry::File { key, stat }) => {
                    last.clone_from(&key);
                    let info = BlobInfo {
                        len_bytes: u64::try_from(stat.st_size).ok(),
                        version: Some(stamp_of(&stat)),
                        ..BlobInfo::default()
                    };
                    page.entries.push(ListEntry::new(key, info));
                }
            }
        }
        page.next = Some(PageToken::new(last.as_str()));
        Ok((page, Some(Self::Begun(request, walk, last))))
    }
}
