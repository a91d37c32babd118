//! What a response says to the observer of the server: which call it was, and whether it was a hit.

use http::request::Parts;
use http::{Method, Response, StatusCode};

use super::route::{Dialect, Route, route};
use crate::serve::body::ResponseBody;
use crate::serve::observe::{
    CallName, CallNotes, HttpAction, Lookups, MissReason, RefusalReason, ValueKind,
};

/// The response with its notes. The handler may have left a reason for a miss on it. `message` is that of
/// a failure.
pub(super) fn noted(
    request: &Parts,
    mut response: Response<ResponseBody>,
    message: Option<String>,
) -> Response<ResponseBody> {
    let name = name(request);
    let reason = response.extensions_mut().remove::<MissReason>().unwrap_or_default();
    let status = response.status();
    let lookups = if !name.reads_one() && request.method != Method::HEAD {
        Lookups::default()
    } else if status == StatusCode::NOT_FOUND {
        Lookups::miss(reason)
    } else if status.is_success() || status == StatusCode::NOT_MODIFIED {
        Lookups::HIT
    } else {
        Lookups::default()
    };
    let refusal = match status {
        StatusCode::INSUFFICIENT_STORAGE => Some(RefusalReason::Full),
        StatusCode::TOO_MANY_REQUESTS => Some(RefusalReason::Client),
        _ => None,
    };
    CallNotes { name, lookups, refusal, message }.on(response)
}

fn name(request: &Parts) -> CallName {
    let Some(route) = route(request.uri.path()) else { return CallName::Unknown };
    // Whether the path is that of a value.
    let mut is_value = true;
    let kind = match route {
        Route::Blob { .. } | Route::BadHash => ValueKind::Cas,
        Route::Action { .. } => ValueKind::Ac,
        Route::Dialect(dialect) => {
            is_value = is_of_value(&dialect);
            match dialect {
                Dialect::MoonStatus => return CallName::Operator,
                Dialect::TurborepoStatus
                | Dialect::TurborepoEvents
                | Dialect::TurborepoQuery
                | Dialect::Turborepo(_) => ValueKind::Turborepo,
                Dialect::Nx(_) => ValueKind::Nx,
                Dialect::Gradle(_) => ValueKind::Gradle,
                Dialect::Ccache(_) => ValueKind::Ccache,
                Dialect::WebDavFile(_) | Dialect::WebDavFolder => ValueKind::WebDav,
            }
        }
    };
    let action = match request.method {
        Method::GET if is_value => HttpAction::Read,
        Method::PUT if is_value => HttpAction::Write,
        _ => HttpAction::Other,
    };
    CallName::Http(kind, action)
}

const fn is_of_value(dialect: &Dialect<'_>) -> bool {
    matches!(
        dialect,
        Dialect::Turborepo(_)
            | Dialect::Nx(_)
            | Dialect::Gradle(_)
            | Dialect::Ccache(_)
            | Dialect::WebDavFile(_)
    )
}
