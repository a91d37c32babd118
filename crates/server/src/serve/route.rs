//! Which handler answers a request: `application/grpc` is the Remote Execution API, everything else
//! is HTTP.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use super::access::{Door, Need, PeerCertificate, Refusal, Role};
use super::body::{self, ResponseBody};
use super::grpc::{self, Api, Method};
use super::http::HttpCache;

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// A call of the Remote Execution API; `None` if the server does not have it.
    Call(Option<Method>),
    /// A question for the state of the server.
    Health(Health),
    /// Everything else.
    Http,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// Does the process run?
    Lives,
    /// Does it take requests?
    IsReady,
}

impl Target {
    fn of<B>(request: &Request<B>) -> Self {
        if is_grpc(request) {
            return Self::Call(Method::of_path(request.uri().path()));
        }
        match request.uri().path() {
            "/healthz" => Self::Health(Health::Lives),
            "/readyz" => Self::Health(Health::IsReady),
            _ => Self::Http,
        }
    }

    /// What a request needs. There is no other place that decides this.
    fn need<B>(self, request: &Request<B>) -> Need {
        match self {
            // Even that a call is unknown is nothing for strangers.
            Self::Call(method) => Need::Role(method.map_or(Role::Read, Method::role)),
            Self::Health(_) => Need::Nothing,
            Self::Http => Need::Role(HttpCache::role(request.method(), request.uri().path())),
        }
    }
}

/// The handlers of a server.
#[derive(Debug)]
pub(super) struct Routes {
    door: Arc<Door>,
    api: Api,
    http: HttpCache,
    stop: CancellationToken,
}

impl Routes {
    pub(super) const fn new(
        door: Arc<Door>,
        api: Api,
        http: HttpCache,
        stop: CancellationToken,
    ) -> Self {
        Self { door, api, http, stop }
    }

    /// The credentials, and TLS.
    pub(super) fn door(&self) -> &Door {
        &self.door
    }

    /// The response to one request. `certificate` is the client's, if it showed one.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        certificate: Option<&PeerCertificate>,
    ) -> Response<ResponseBody> {
        let target = Target::of(&request);
        let need = target.need(&request);
        let caller = match self.door.admit(need, request.headers(), certificate) {
            Ok(caller) => caller,
            Err(refusal) => {
                tracing::debug!(path = request.uri().path(), ?refusal, "a request was refused");
                return refuse(target, refusal);
            }
        };
        match target {
            Target::Call(method) => self.api.of(caller).answer(method, request).await,
            Target::Health(health) => self.health(health, request.method()),
            Target::Http => self.http.handle(request, caller).await,
        }
    }

    fn health(&self, health: Health, method: &http::Method) -> Response<ResponseBody> {
        if !matches!(*method, http::Method::GET | http::Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
        }
        match health {
            Health::Lives => text(StatusCode::OK, "ok\n"),
            Health::IsReady if self.stop.is_cancelled() => {
                text(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping\n")
            }
            Health::IsReady => text(StatusCode::OK, "ready\n"),
        }
    }
}

fn refuse(target: Target, refusal: Refusal) -> Response<ResponseBody> {
    if let Target::Call(_) = target {
        return grpc::refuse(refusal);
    }
    let message = format!("{}\n", refusal.message());
    match refusal {
        Refusal::Unknown => {
            let mut response = text(StatusCode::UNAUTHORIZED, message);
            // Tools that know nothing else ask for a name and a password.
            let asked = HeaderValue::from_static("Basic realm=\"tidegate\", Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, asked);
            response
        }
        Refusal::Role(_) => text(StatusCode::FORBIDDEN, message),
    }
}

fn is_grpc<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = kind.and_then(|kind| kind.strip_prefix(b"application/grpc"));
    // Not `application/grpc-web`, which is another protocol.
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(body::full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}
