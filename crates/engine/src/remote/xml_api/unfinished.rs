//! The list of unfinished uploads, of any process.

use http::Method;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};

use super::document::{self, UploadsPage};
use super::{XmlWriter, multipart};
use crate::error::{Operation, Result};
use crate::remote::PageToken;
use crate::remote::object_client::ObjectRequest;
use crate::remote::write::{UnfinishedUpload, Upload, UploadPage, WriteOptions};

/// Where a page begins: after this upload.
#[derive(Debug, Serialize, Deserialize)]
struct After {
    key: String,
    id: String,
}

impl XmlWriter {
    pub(super) async fn list_uploads(
        &self,
        prefix: &str,
        from: Option<&PageToken>,
    ) -> Result<UploadPage> {
        let target = self.client.target(prefix);
        let after: Option<After> = match from {
            Some(token) => Some(serde_json::from_str(token.as_str()).map_err(|error| {
                self.invalid(prefix, "the page token is none of this remote").caused_by(error)
            })?),
            None => None,
        };
        let mut request = ObjectRequest::new(Method::GET, Operation::List, "")
            .query("uploads", "")
            .query("encoding-type", "url")
            .query("prefix", prefix);
        request.key = None;
        if let Some(After { key, id }) = &after {
            request =
                request.query("key-marker", key.as_str()).query("upload-id-marker", id.as_str());
        }
        let answer = self.client.send(&request).await?;
        let page: UploadsPage = document::read(&answer.text, Operation::List, &target)?;
        let is_encoded = page.encoding_type.as_deref() == Some("url");
        let decoded = |key: &str| {
            if !is_encoded {
                return key.to_owned();
            }
            percent_decode_str(&key.replace('+', " ")).decode_utf8_lossy().into_owned()
        };
        let uploads = page.uploads.iter().filter_map(|listed| {
            let key = decoded(&listed.key);
            let id = multipart::with_algorithm(&listed.upload_id, None);
            // Some servers ignore the prefix.
            key.starts_with(prefix).then(|| {
                let upload = Upload::new(key, id, &WriteOptions::default());
                let began = listed.initiated.as_deref().and_then(super::listing::moment);
                UnfinishedUpload::new(upload, began)
            })
        });
        let uploads = uploads.collect();
        let next = page.next_key_marker.filter(|_| page.is_truncated).map(|key| After {
            key: decoded(&key),
            id: page.next_upload_id_marker.unwrap_or_default(),
        });
        let is_progress = |next: &After| {
            after.as_ref().is_none_or(|after| (&next.key, &next.id) != (&after.key, &after.id))
        };
        let next = next.filter(is_progress).and_then(|next| serde_json::to_string(&next).ok());
        Ok(UploadPage::new(uploads, next.map(PageToken::new)))
    }
}
