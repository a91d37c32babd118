//! [`HttpCache`]: the store over HTTP, as build tools expect it.
//!
//! | file | idea |
//! |---|---|
//! | `route` | the one table that says which dialect a path belongs to |
//! | `cas` | `/cas/HASH`: blobs, with ranges and conditional requests |
//! | `action_cache` | `/ac/KEY`: action results, checked; opaque values |
//! | `dialects` | ccache, sccache (`WebDAV`), Gradle, Turborepo, Nx, moon |
//! | `values` | reads and writes of opaque values, which the dialects share |
//! | `upload` | the body of a request: bounded, gathered, drained |
//! | `range` | `Range` and `If-None-Match` |
//! | `reply` | responses |
//! | `notes` | what a response says to the observer of the server |
//!
//! Invariants:
//! - A blob has a name only after its bytes had the hash. A body that ends early names nothing.
//! - A response never has a content encoding, and `Content-Length` is that of the whole body.
//! - A body goes to the store in pieces. What is buffered is charged to the budget.
//! - Keys are (tenant, dialect, key), so no dialect reads what another one wrote.

mod action_cache;
mod cas;
mod dialects;
mod notes;
pub(super) mod range;
pub(super) mod reply;
mod route;
mod upload;
mod values;

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Body;
use http_body_util::BodyExt as _;
use tidegate::Budget;

use self::route::{Route, route};
use self::upload::Upload;
use super::access::{Caller, Quotas, Role, Tenant};
use super::body::ResponseBody;
use super::error::ServeError;
use super::observe::{Observer, RequestBody};
use super::upstream::Upstream;
use crate::store::LocalStore;

/// Bounds of the HTTP side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Maximum length of a blob in bytes.
    pub blob_bytes_max: u64,
    /// Maximum length of an opaque value in bytes.
    pub value_bytes_max: u64,
}

impl Default for HttpLimits {
    /// Blobs of 64 GiB: images of virtual machines. Values of 4 GiB: Turborepo and Nx pack all
    /// outputs of a task into one.
    fn default() -> Self {
        Self { blob_bytes_max: 64 << 30, value_bytes_max: 4 << 30 }
    }
}

/// The store over HTTP. Clones are the same cache.
#[derive(Clone, Debug)]
pub struct HttpCache {
    store: LocalStore,
    budget: Budget,
    quotas: Arc<Quotas>,
    limits: HttpLimits,
    observer: Option<Arc<Observer>>,
    upstream: Option<Upstream>,
}

/// A request without its body, and where it goes.
struct Call<'a> {
    parts: &'a Parts,
    caller: Caller,
    /// The instance of the path; empty for a path without one.
    instance: String,
}

impl Call<'_> {
    fn tenant(&self) -> &Tenant {
        self.caller.tenant()
    }

    fn is_head(&self) -> bool {
        self.parts.method == Method::HEAD
    }
}

/// What a handler answers. An error becomes a response, too.
type Reply = Result<Response<ResponseBody>, ServeError>;

impl HttpCache {
    /// A cache over a store. All that requests and responses buffer is taken from `budget`.
    pub fn new(store: LocalStore, budget: Budget, limits: HttpLimits) -> Self {
        let quotas = Arc::new(Quotas::new(&[]));
        Self { store, budget, quotas, limits, observer: None, upstream: None }
    }

    /// The same, with blobs that the store lacks filled from another cache.
    pub(super) fn with_upstream(self, upstream: Upstream) -> Self {
        Self { upstream: Some(upstream), ..self }
    }

    /// The same cache; the observer learns which blobs are read.
    pub(super) fn observed_by(mut self, observer: Arc<Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The role that a request needs. A path that the server does not have needs the least one.
    pub(super) fn role(method: &Method, path: &str) -> Role {
        route(path).map_or(Role::Read, |route| route.role(method))
    }

    /// The same cache with quotas.
    pub(super) fn with_quotas(self, quotas: Arc<Quotas>) -> Self {
        Self { quotas, ..self }
    }

    /// Answers one request of a caller, whose role was checked.
    ///
    /// CANCEL: dropping the future names nothing, unless the body was complete.
    pub async fn handle<B>(&self, request: Request<B>, caller: Caller) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let cache = Self { store: caller.store(&self.store).clone(), ..self.clone() };
        let (parts, body) = request.into_parts();
        let body = body.map_err(|error| ServeError::of_body(error.into())).boxed_unsync();
        let mut upload = Upload::new(&parts, body, &self.budget);
        let mut call = Call { parts: &parts, caller, instance: String::new() };
        let mut message = None;
        let response = match cache.answer(&mut call, &mut upload).await {
            Ok(response) => response,
            Err(error) => {
                if error.status().is_server_error() {
                    tracing::warn!(method = %parts.method, error = &error as &dyn std::error::Error, "a request failed");
                }
                message = Some(error.message());
                reply::of_error(&error)
            }
        };
        let response = notes::noted(call.parts, response, message);
        // A client that is still sending would not read the response before a reset.
        upload.discard().await;
        response
    }

    /// Refuses a request before anything is known of it.
    pub(super) async fn refuse(
        &self,
        request: Request<RequestBody>,
        error: &ServeError,
    ) -> Response<ResponseBody> {
        let (parts, body) = request.into_parts();
        let body = body.map_err(|error| ServeError::of_body(error.into())).boxed_unsync();
        let upload = Upload::new(&parts, body, &self.budget);
        let response = notes::noted(&parts, reply::of_error(error), Some(error.message()));
        // As in `handle`.
        upload.discard().await;
        response
    }

    async fn answer(&self, call: &mut Call<'_>, upload: &mut Upload) -> Reply {
        let Some(route) = route(call.parts.uri.path()) else { return Ok(reply::not_found()) };
        call.instance = route.instance().to_owned();
        if !call.caller.may_use(&call.instance) {
            return Err(ServeError::Forbidden);
        }
        let allowed = route.methods();
        if !allowed.contains(&call.parts.method.as_str()) {
            return Ok(reply::method_not_allowed(allowed));
        }
        if upload.is_encoded() {
            return Err(ServeError::BodyEncoded);
        }
        match route {
            Route::Blob { name, .. } => self.blob(call, name, upload).await,
            Route::BadHash => Err(ServeError::Invalid("expected a hash of 64 hexadecimal digits")),
            Route::Action { function, key, .. } => self.action(call, function, key, upload).await,
            Route::Dialect(dialect) => self.dialect(call, dialect, upload).await,
        }
    }
}
