//! Headers that are added to a request when it is sent, after it was signed.
//!
//! `object_store` sends the default headers of its `ClientOptions` to S3 only. For other stores it
//! leaves them to its own HTTP client, which would also send them with requests for credentials.
//! The headers of this module go out with requests for a blob only.

#[cfg(feature = "_http1")]
use std::sync::Arc;

use http::HeaderMap;

/// The headers; each replaces all fields of its name.
#[cfg(feature = "_http1")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Added(pub(crate) Arc<HeaderMap>);

#[cfg(feature = "_http1")]
impl Added {
    pub(crate) fn apply(&self, headers: &mut HeaderMap) {
        replace(headers, &self.0);
    }
}

/// Replaces the fields of the same names by `new`.
pub(crate) fn replace(headers: &mut HeaderMap, new: &HeaderMap) {
    for name in new.keys() {
        headers.remove(name);
        for value in new.get_all(name) {
            headers.append(name, value.clone());
        }
    }
}
