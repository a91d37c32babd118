//! Which handler answers a request: `application/grpc` is the Remote Execution API, a few paths are for
//! the operator of the server, everything else is HTTP.

use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode};

use super::access::{Door, Need, PeerCertificate, Refusal, Role};
use super::body::ResponseBody;
use super::clients::TooManyRequests;
use super::error::ServeError;
use super::grpc::{self, Api, Method};
use super::http::{HttpCache, reply};
use super::observe::{OperatorPath, OperatorRoutes, RequestBody};
use super::origin::{self, Origins};
use super::purge::{self, PurgeRoute};

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// A call of the Remote Execution API; `None` if the server does not have it.
    Call(Option<Method>),
    /// A question of the operator, or of a load balancer.
    Operator(OperatorPath),
    /// A path below `/origin/`.
    Origin,
    /// A purge.
    Purge,
    /// Everything else.
    Http,
}

impl Target {
    fn of<B>(request: &Request<B>, origins: &Origins) -> Self {
        if is_grpc(request) {
            return Self::Call(Method::of_path(request.uri().path()));
        }
        match request.uri().path() {
            purge::PATH => Self::Purge,
            path if origins.has(path) => Self::Origin,
            _ => OperatorPath::of(request).map_or(Self::Http, Self::Operator),
        }
    }

    /// What a request needs. There is no other place that decides this.
    fn need<B>(self, request: &Request<B>) -> Need {
        match self {
            // Even that a call is unknown is nothing for strangers.
            Self::Call(method) => Need::Role(method.map_or(Role::Read, Method::role)),
            Self::Operator(path) => path.need(),
            Self::Origin => Need::Role(Role::Read),
            Self::Purge => Need::Role(Role::Admin),
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
    operator: OperatorRoutes,
    origins: Origins,
    purge: PurgeRoute,
}

impl Routes {
    pub(super) const fn new(
        door: Arc<Door>,
        api: Api,
        http: HttpCache,
        operator: OperatorRoutes,
        origins: Origins,
        purge: PurgeRoute,
    ) -> Self {
        Self { door, api, http, operator, origins, purge }
    }

    /// The credentials, and TLS.
    pub(super) fn door(&self) -> &Door {
        &self.door
    }

    /// The response to one request. `certificate` is the client's, if it showed one.
    pub(super) async fn answer(
        &self,
        request: Request<RequestBody>,
        certificate: Option<&PeerCertificate>,
    ) -> Response<ResponseBody> {
        let target = Target::of(&request, &self.origins);
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
            Target::Operator(path) => {
                self.operator.answer(path, request.method(), caller.role()).await
            }
            // As other paths that name no instance.
            Target::Origin if !caller.may_use("") => reply::of_error(&ServeError::Forbidden),
            Target::Origin => {
                let method = request.method().clone();
                origin::noted(&method, self.origins.answer(request).await)
            }
            Target::Purge => self.purge.answer(request).await,
            Target::Http => self.http.handle(request, caller).await,
        }
    }
}

impl Routes {
    /// The response to a request beyond the limit of its client. Probes are answered anyway: they may
    /// come from a proxy that brings all requests.
    pub(super) async fn refuse(
        &self,
        request: Request<RequestBody>,
        certificate: Option<&PeerCertificate>,
        error: TooManyRequests,
    ) -> Response<ResponseBody> {
        let target = Target::of(&request, &self.origins);
        match target {
            Target::Call(method) => grpc::refuse_too_many(method, error),
            _ if target.need(&request) == Need::Nothing => self.answer(request, certificate).await,
            _ => self.http.refuse(request, &error.into()).await,
        }
    }
}

fn refuse(target: Target, refusal: Refusal) -> Response<ResponseBody> {
    if let Target::Call(method) = target {
        return grpc::refuse(method, refusal);
    }
    let message = refusal.message();
    match refusal {
        Refusal::Unknown => {
            let mut response = reply::text(StatusCode::UNAUTHORIZED, &message);
            // Tools that know nothing else ask for a name and a password.
            let asked = HeaderValue::from_static("Basic realm=\"tidegate\", Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, asked);
            response
        }
        Refusal::Role(_) => reply::text(StatusCode::FORBIDDEN, &message),
    }
}

fn is_grpc<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = kind.and_then(|kind| kind.strip_prefix(b"application/grpc"));
    // Not `application/grpc-web`, which is another protocol.
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}
