//! moon asks `GET /status` before anything else, and takes any 2xx or 404 for a server that is there.

use http::{Response, StatusCode};

use crate::serve::body::ResponseBody;
use crate::serve::http::reply;

pub(super) fn status() -> Response<ResponseBody> {
    reply::json(StatusCode::OK, "{\"status\":\"ok\"}")
}
