//! The list of unfinished uploads, of any process.
//!
//! The service lists names that have only uncommitted blocks, as blobs of no bytes; the blocks say
//! which uploads they belong to. An upload that would replace a blob is not in the list, and neither
//! is an upload of another program.

use std::collections::BTreeSet;

use super::{AzureWriter, blocks};
use crate::error::Result;
use crate::remote::PageToken;
use crate::remote::write::{UnfinishedUpload, Upload, UploadPage, WriteOptions};

/// Names on one page: each empty one costs a request for its blocks.
const PAGE_ENTRIES_MAX: u32 = 1_000;

impl AzureWriter {
    pub(super) async fn list_uploads(
        &self,
        prefix: &str,
        from: Option<&PageToken>,
    ) -> Result<UploadPage> {
        let include = Some(("include", "uncommittedblobs"));
        let page = self.blobs(prefix, from, PAGE_ENTRIES_MAX, include).await?;
        let mut uploads = Vec::new();
        for listed in &page.blobs.blobs {
            if listed.is_folder() || listed.properties.content_length.is_some_and(|len| len > 0) {
                continue;
            }
            let blob = self.name(&listed.name, prefix)?;
            let Some(list) = self.uncommitted(&blob).await? else { continue };
            let names = list.uncommitted.blocks.iter();
            let prefixes: BTreeSet<String> = names
                .filter_map(|block| blocks::parse(&block.name))
                .map(|(prefix, _)| prefix)
                .collect();
            for prefix in prefixes {
                let id = blocks::upload_id(&prefix, None);
                let upload = Upload::new(&*blob, id, &WriteOptions::default());
                let began = listed.properties.last_modified.as_deref();
                let began = began.and_then(|text| httpdate::parse_http_date(text).ok());
                uploads.push(UnfinishedUpload::new(upload, began));
            }
        }
        Ok(UploadPage::new(uploads, page.next_marker.map(PageToken::new)))
    }
}
