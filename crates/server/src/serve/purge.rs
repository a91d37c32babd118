//! `POST /purge`: removes values by name, instance or invocation, or says which ones it would remove.
//!
//! ```json
//! {"instance": "main", "invocation": "5c1d...", "remove": false}
//! ```
//!
//! The response is a [`PurgeReport`](crate::store::PurgeReport). One purge runs at a time: each reads the
//! record of every value.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::body::{self, ResponseBody};
use super::observe::{CallName, CallNotes, RequestBody};
use crate::store::{LocalStore, PurgeFilter};

/// The path.
pub(super) const PATH: &str = "/purge";

/// A filter is some names.
const BODY_BYTES_MAX: usize = 16 << 10;

/// What a client asks for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PurgeRequest {
    /// Which values.
    #[serde(flatten)]
    pub filter: PurgeFilter,
    /// Whether they are removed. Otherwise they are only counted.
    #[serde(default)]
    pub remove: bool,
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
            Ok(report) => response(StatusCode::OK, "application/json", report),
            Err((status, message)) => response(status, "text/plain", format!("{message}\n")),
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

fn response(
    status: StatusCode,
    kind: &'static str,
    text: impl Into<Bytes>,
) -> Response<ResponseBody> {
    let mut response = Response::new(body::full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
