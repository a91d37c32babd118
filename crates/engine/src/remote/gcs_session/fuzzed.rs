//! The headers of sessions, for fuzz targets.

use http::HeaderMap;
use url::Url;

use super::address::{self, JsonBucket};
use super::kept::kept;
use super::resource::Resource;
use crate::remote::write::UploadId;

const BASE: &str = "https://storage.googleapis.com";

/// Reads the `Range` of a session's response, and its body.
pub fn kept_by_session(text: &str) {
    if let Some(bytes) = kept(Some(text)) {
        assert!(bytes > 0, "without a byte there is no range");
    }
    if let Some(resource) = Resource::read(text.as_bytes()) {
        let _ = (resource.len_bytes(), resource.written());
    }
}

/// Reads the address of a session, from a response or from a journal. No text leads to another host.
pub fn session_address(text: &str) {
    let Ok(bucket) = JsonBucket::new(BASE, "bucket", &HeaderMap::new()) else { return };
    let own = [bucket.upload_id(text, true), Some(UploadId::new(format!("session:{text}")))];
    for id in own.into_iter().flatten() {
        let Some(place) = address::session(&id).and_then(|session| bucket.at(session)) else {
            continue;
        };
        let origin = Url::parse(&place.url.0).ok().map(|url| url.origin());
        assert_eq!(origin, Url::parse(BASE).ok().map(|url| url.origin()), "{text:?}");
        assert!(!place.is_signed, "a session needs no credentials");
    }
}
