//! Headers that are put on a request where it is sent, after it was signed.
//!
//! `object_store` sends what its own `ClientOptions` name as default headers to S3 only, and leaves
//! them to its own HTTP client elsewhere, which would send them along when it asks for credentials,
//! too. These travel with the request for a blob and go nowhere else.

#[cfg(feature = "_http1")]
use std::sync::Arc;

use http::HeaderMap;

/// The headers; each takes the place of all of its name.
#[cfg(feature = "_http1")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Added(pub(crate) Arc<HeaderMap>);

#[cfg(feature = "_http1")]
impl Added {
    pub(super) fn apply(&self, headers: &mut HeaderMap) {
        replace(headers, &self.0);
    }
}

/// Puts `new` in the place of the fields of the same names.
pub(crate) fn replace(headers: &mut HeaderMap, new: &HeaderMap) {
    for name in new.keys() {
        headers.remove(name);
        for value in new.get_all(name) {
            headers.append(name, value.clone());
        }
    }
}
