//! What a response says to the observer of the server: whether the store had the blob.

use http::{Method, Response};

use super::fill::FETCHED;
use super::respond::CACHE_STATUS;
use crate::serve::body::ResponseBody;
use crate::serve::observe::{CallName, CallNotes, HttpAction, Lookups, MissReason, ValueKind};

/// The response with its notes. A question for the head of a blob is neither a hit nor a miss.
pub(in crate::serve) fn noted(
    method: &Method,
    response: Response<ResponseBody>,
) -> Response<ResponseBody> {
    let action = if *method == Method::GET { HttpAction::Read } else { HttpAction::Other };
    let mut notes = CallNotes::new(CallName::Http(ValueKind::Origin, action));
    if let (HttpAction::Read, Some(status)) = (action, response.headers().get(CACHE_STATUS)) {
        let is_fetched = status.as_bytes() == FETCHED.as_bytes();
        notes.lookups = if is_fetched { Lookups::miss(MissReason::Absent) } else { Lookups::HIT };
    }
    notes.on(response)
}
