//! Which handler answers a request: `application/grpc` is the Remote Execution API, everything else
//! is HTTP.

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use super::body::{self, ResponseBody};
use super::grpc::Api;
use super::http::HttpCache;
use super::origin::Origins;

/// The handlers of a server.
#[derive(Debug)]
pub(super) struct Routes {
    api: Api,
    http: HttpCache,
    origins: Origins,
    stop: CancellationToken,
}

impl Routes {
    pub(super) const fn new(
        api: Api,
        http: HttpCache,
        origins: Origins,
        stop: CancellationToken,
    ) -> Self {
        Self { api, http, origins, stop }
    }

    /// The response to one request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        if is_grpc(&request) {
            return self.api.answer(request).await;
        }
        match self.health(&request) {
            Some(response) => response,
            None if self.origins.has(request.uri().path()) => self.origins.answer(request).await,
            None => self.http.handle(request).await,
        }
    }

    /// The response to a question for the state of the server; `None` for any other request.
    fn health<B>(&self, request: &Request<B>) -> Option<Response<ResponseBody>> {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        Some(match request.uri().path() {
            "/healthz" | "/readyz" if !reads => text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n"),
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/readyz" if self.stop.is_cancelled() => {
                text(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping\n")
            }
            "/readyz" => text(StatusCode::OK, "ready\n"),
            _ => return None,
        })
    }
}

fn is_grpc<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = kind.and_then(|kind| kind.strip_prefix(b"application/grpc"));
    // Not `application/grpc-web`, which is another protocol.
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

fn text(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(body::full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}
