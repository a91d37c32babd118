//! `POST /purge`: removes values by name, instance or invocation, or says which ones it would remove.
//!
//! ```json
//! {"instance": "main", "invocation": "5c1d...", "remove": false}
//! ```
//!
//! The response is a [`PurgeReport`](crate::store::PurgeReport). One purge runs at a time: each reads the
//! record of every value.

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::body::ResponseBody;
use super::http::reply;
use super::observe::{CallName, CallNotes, RequestBody};
use crate::store::{LocalStore, PurgeFilter};

/// The path.
pub(super) const PATH: &str = "/purge";

/// A filter is some names.
const BODY_BYTES_MAX: usize = 16 << 10;

/// What a client asks for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Flat", into = "Flat")]
pub struct PurgeRequest {
    /// Which values.
    pub filter: PurgeFilter,
    /// Whether they are removed. Otherwise they are only counted.
    pub remove: bool,
}

/// The JSON. It is one object whose names are all known: a name with a mistake is refused, because the
/// rest of the filter would match more. `serde(flatten)` would ignore it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flat {
    key: Option<String>,
    instance: Option<String>,
    tenant: Option<String>,
    invocation: Option<String>,
    #[serde(default)]
    remove: bool,
}

impl From<Flat> for PurgeRequest {
    fn from(flat: Flat) -> Self {
        let Flat { key, instance, tenant, invocation, remove } = flat;
        Self { filter: PurgeFilter { key, instance, tenant, invocation }, remove }
    }
}

impl From<PurgeRequest> for Flat {
    fn from(request: PurgeRequest) -> Self {
        let PurgeFilter { key, instance, tenant, invocation } = request.filter;
        Self { key, instance, tenant, invocation, remove: request.remove }
    }
}

/// Answers requests to purge.
#[derive(Debug)]
pub(super) struct PurgeRoute {
    store: LocalStore,
    slot: Semaphore,
}

impl PurgeRoute {
    pub(super) const fn new(store: LocalStore) -> Self {
        Self { store, slot: Semaphore::const_new(1) }
    }

    /// The response to one request of an admin.
    pub(super) async fn answer(&self, request: Request<RequestBody>) -> Response<ResponseBody> {
        let response = match self.purge(request).await {
            Ok(report) => reply::json(StatusCode::OK, report),
            Err((status, message)) => reply::text(status, message),
        };
        CallNotes::new(CallName::Operator).on(response)
    }

    async fn purge(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Vec<u8>, (StatusCode, &'static str)> {
        if request.method() != Method::POST {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "use POST"));
        }
        let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await;
        let body = body.ok().ok_or((StatusCode::BAD_REQUEST, "the body is cut or too long"))?;
        let request: PurgeRequest = serde_json::from_slice(&body.to_bytes()).ok().ok_or((
            StatusCode::BAD_REQUEST,
            "expected an object with key, instance, tenant or invocation, and remove",
        ))?;
        if request.filter.is_empty() {
            return Err((StatusCode::BAD_REQUEST, "this would purge every value; name some"));
        }
        let Ok(_slot) = self.slot.try_acquire() else {
            return Err((StatusCode::CONFLICT, "another purge is running; retry later"));
        };
        tracing::info!(?request, "a purge begins");
        let report = self.store.purge(request.filter, request.remove).await.map_err(|error| {
            tracing::warn!(error = &error as &dyn std::error::Error, "a purge failed");
            (StatusCode::INTERNAL_SERVER_ERROR, "the store failed; see the log of the server")
        })?;
        tracing::info!(matched = report.matched, removed = report.is_removed, "a purge ended");
        serde_json::to_vec(&report)
            .ok()
            .ok_or((StatusCode::INTERNAL_SERVER_ERROR, "the report has no JSON form"))
    }
}
