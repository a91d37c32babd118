//! Gradle: `/cache/KEY`.
//!
//! GET gives 200 or 404, PUT 200, and 413 if the entry is too large, which Gradle ignores. Any other
//! status makes Gradle disable the cache for the rest of the build.

use http::{Method, StatusCode};

use crate::serve::http::upload::Upload;
use crate::serve::http::values::value_name;
use crate::serve::http::{Call, HttpCache, Reply, reply};

/// The dialect in keys.
const DIALECT: &str = "gradle";

impl HttpCache {
    pub(super) async fn gradle(&self, call: &Call<'_>, key: &str, upload: &mut Upload) -> Reply {
        let name = value_name(call.tenant(), DIALECT, &[key]);
        if call.parts.method != Method::PUT {
            return self.get_value(call, &name).await;
        }
        self.put_value(call, &name, upload).await?;
        Ok(reply::empty(StatusCode::OK))
    }
}
