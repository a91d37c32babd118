//! Nx: `/v1/cache/HASH`, after the `OpenAPI` description in the Nx manual.
//!
//! PUT gives exactly 200: for any other 2xx, Nx reports a misconfigured endpoint and sends again. A
//! record that exists is not replaced: 409, without its body where the client waits for
//! `100 Continue`. GET gives 200 or 404.

use http::{Method, StatusCode};

use crate::serve::http::upload::Upload;
use crate::serve::http::values::value_name;
use crate::serve::http::{Call, HttpCache, Reply, reply};

/// The dialect in keys.
const DIALECT: &str = "nx";

impl HttpCache {
    pub(super) async fn nx(&self, call: &Call<'_>, hash: &str, upload: &mut Upload) -> Reply {
        let name = value_name(call.tenant(), DIALECT, &[hash]);
        if call.parts.method != Method::PUT {
            return self.get_value(call, &name).await;
        }
        if self.has_value(&name).await? {
            return Ok(reply::text(StatusCode::CONFLICT, "the record exists"));
        }
        self.put_value(call, &name, upload).await?;
        Ok(reply::empty(StatusCode::OK))
    }
}
