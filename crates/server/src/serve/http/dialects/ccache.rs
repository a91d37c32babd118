//! ccache, layouts `flat` and `subdirs`.
//!
//! GET gives 200 or 404. PUT gives 200; ccache takes any 2xx. DELETE gives 204 also if there is
//! nothing, because ccache stops to use a server that answers anything but 2xx.

use http::{Method, StatusCode};

use crate::serve::http::upload::Upload;
use crate::serve::http::values::value_name;
use crate::serve::http::{Call, HttpCache, Reply, reply};

/// The dialect in keys.
const DIALECT: &str = "ccache";

impl HttpCache {
    pub(super) async fn ccache(&self, call: &Call<'_>, key: &str, upload: &mut Upload) -> Reply {
        let name = value_name(call.tenant(), DIALECT, &[key]);
        match call.parts.method {
            Method::PUT => {
                self.put_value(call, &name, upload).await?;
                Ok(reply::empty(StatusCode::OK))
            }
            Method::DELETE => {
                self.store.remove_value(&name).await?;
                Ok(reply::empty(StatusCode::NO_CONTENT))
            }
            _ => self.get_value(call, &name).await,
        }
    }
}
