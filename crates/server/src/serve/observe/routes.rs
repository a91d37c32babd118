//! [`OperatorRoutes`]: the paths of the operator, in one table: `/metrics`, `/status`, `/`, and the
//! health of the server.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use tidegate::Budget;
use tokio_util::sync::CancellationToken;

use super::page::Page;
use super::snapshot::Snapshot;
use super::survey::Surveys;
use super::{CallName, CallNotes, Observer, metrics, status};
use crate::serve::access::{Need, Role};
use crate::serve::body::{self, ResponseBody};
use crate::store::LocalStore;

/// A path of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum OperatorPath {
    /// Whether the process runs.
    Health,
    /// Whether the server takes requests.
    Ready,
    Metrics,
    Status,
    Page,
}

impl OperatorPath {
    /// The path of a request; `None` if it is not for the operator. `/` is also a folder of `WebDAV`, which
    /// other methods ask for.
    pub(in crate::serve) fn of<B>(request: &Request<B>) -> Option<Self> {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        Some(match request.uri().path() {
            "/healthz" => Self::Health,
            "/readyz" => Self::Ready,
            "/metrics" => Self::Metrics,
            "/status" => Self::Status,
            "/" if reads => Self::Page,
            _ => return None,
        })
    }

    /// What a request needs. moon asks for `/status` before it caches, so any caller may.
    pub(in crate::serve) const fn need(self) -> Need {
        match self {
            Self::Health | Self::Ready => Need::Nothing,
            Self::Status => Need::Role(Role::Read),
            Self::Metrics | Self::Page => Need::Role(Role::Admin),
        }
    }
}

/// Answers the requests of the operator.
#[derive(Debug)]
pub(in crate::serve) struct OperatorRoutes {
    observer: std::sync::Arc<Observer>,
    store: LocalStore,
    budgets: Vec<Budget>,
    stop: CancellationToken,
    page: Page,
    surveys: Surveys,
}

impl OperatorRoutes {
    pub(in crate::serve) fn new(
        observer: std::sync::Arc<Observer>,
        store: LocalStore,
        budgets: Vec<Budget>,
        stop: CancellationToken,
    ) -> Self {
        Self { observer, store, budgets, stop, page: Page::new(), surveys: Surveys::default() }
    }

    /// The response. The connection leaves the body of a response to HEAD away.
    pub(in crate::serve) async fn answer(
        &self,
        path: OperatorPath,
        method: &Method,
        role: Role,
    ) -> Response<ResponseBody> {
        let response = if matches!(*method, Method::GET | Method::HEAD) {
            self.get(path, role).await
        } else {
            text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n")
        };
        CallNotes::new(CallName::Operator).on(response)
    }

    async fn get(&self, path: OperatorPath, role: Role) -> Response<ResponseBody> {
        match path {
            OperatorPath::Health => text(StatusCode::OK, "ok\n"),
            OperatorPath::Ready if self.stop.is_cancelled() => {
                text(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping\n")
            }
            OperatorPath::Ready => text(StatusCode::OK, "ready\n"),
            OperatorPath::Metrics => {
                let metrics = metrics::encode(self.snapshot());
                response(StatusCode::OK, metrics::CONTENT_TYPE, metrics)
            }
            OperatorPath::Status if role < Role::Admin => {
                response(StatusCode::OK, "application/json", "{}")
            }
            OperatorPath::Status => {
                let survey = self.surveys.survey(&self.store).await;
                let status = status::encode(&Snapshot { survey, ..self.snapshot() });
                let mut response = response(StatusCode::OK, "application/json", status);
                response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                response
            }
            OperatorPath::Page => self.page.response(),
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.observer, &self.store, &self.budgets)
    }
}

fn text(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    response(status, "text/plain", text)
}

pub(super) fn response(
    status: StatusCode,
    kind: &'static str,
    text: impl Into<bytes::Bytes>,
) -> Response<ResponseBody> {
    let mut response = Response::new(body::full(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    let options = HeaderName::from_static("x-content-type-options");
    headers.insert(options, HeaderValue::from_static("nosniff"));
    response
}
