//! Which handler answers a request: `application/grpc` is the Remote Execution API, a few paths are for
//! the operator of the server, everything else is HTTP.

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};

use super::body::ResponseBody;
use super::grpc::Api;
use super::http::HttpCache;
use super::observe::{OperatorPath, OperatorRoutes, RequestBody};

/// The handlers of a server.
#[derive(Debug)]
pub(super) struct Routes {
    api: Api,
    http: HttpCache,
    operator: OperatorRoutes,
}

impl Routes {
    pub(super) const fn new(api: Api, http: HttpCache, operator: OperatorRoutes) -> Self {
        Self { api, http, operator }
    }

    /// The response to one request.
    pub(super) async fn answer(&self, request: Request<RequestBody>) -> Response<ResponseBody> {
        if is_grpc(&request) {
            return self.api.answer(request).await;
        }
        match OperatorPath::of(&request) {
            Some(path) => self.operator.answer(path, request.method()).await,
            None => self.http.handle(request).await,
        }
    }
}

fn is_grpc<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = kind.and_then(|kind| kind.strip_prefix(b"application/grpc"));
    // Not `application/grpc-web`, which is another protocol.
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}
