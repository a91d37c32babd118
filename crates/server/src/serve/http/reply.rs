//! Responses.

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream as streams};
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use tidegate::budget::BytesPermit;

use crate::serve::body::ResponseBody;
use crate::serve::error::ServeError;
use crate::serve::observe::MissReason;

/// Seconds after which a client asks again. Eviction needs less than one, and requests end soon.
const RETRY_SECONDS: &str = "1";

/// A response without a body.
pub(in crate::serve) fn empty(status: StatusCode) -> Response<ResponseBody> {
    with_body(status, Empty::new().map_err(|never| match never {}).boxed_unsync())
}

/// A response with all its bytes.
pub(in crate::serve) fn full(
    status: StatusCode,
    kind: &'static str,
    bytes: Bytes,
) -> Response<ResponseBody> {
    let body = Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
    let mut response = with_body(status, body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A response of JSON.
pub(in crate::serve) fn json(status: StatusCode, text: impl Into<Bytes>) -> Response<ResponseBody> {
    full(status, "application/json", text.into())
}

/// A response with a message for a person.
pub(in crate::serve) fn text(status: StatusCode, message: &str) -> Response<ResponseBody> {
    full(status, "text/plain; charset=utf-8", format!("{message}\n").into())
}

/// 404.
pub(in crate::serve) fn not_found() -> Response<ResponseBody> {
    text(StatusCode::NOT_FOUND, "not found")
}

/// 404 with its reason for the observer of the server.
pub(super) fn not_found_because(reason: MissReason) -> Response<ResponseBody> {
    let mut response = not_found();
    response.extensions_mut().insert(reason);
    response
}

/// 405 with the methods of the path.
pub(in crate::serve) fn method_not_allowed(allowed: &[&str]) -> Response<ResponseBody> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "the path has other methods");
    if let Ok(allowed) = HeaderValue::from_str(&allowed.join(", ")) {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}

/// The response of a request that failed.
pub(in crate::serve) fn of_error(error: &ServeError) -> Response<ResponseBody> {
    let status = error.status();
    let mut response = text(status, &error.message());
    if let ServeError::Quota(used) = error {
        let seconds = HeaderValue::from(used.retry_after.as_secs());
        response.headers_mut().insert(RETRY_AFTER, seconds);
    } else if matches!(status, StatusCode::INSUFFICIENT_STORAGE | StatusCode::TOO_MANY_REQUESTS) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS));
    }
    response
}

/// A response of `len` bytes of binary data that are read while they are sent. `None` for a response
/// to HEAD, which has the headers only. The permit is for what is in memory meanwhile.
pub(in crate::serve) fn stream<S>(
    status: StatusCode,
    len: u64,
    pieces: Option<(S, BytesPermit)>,
) -> Response<ResponseBody>
where
    S: Stream<Item = tidegate::Result<Bytes>> + Send + 'static,
{
    let mut response = match pieces {
        None => empty(status),
        Some((pieces, permit)) => {
            let frames = pieces.map_ok(Frame::data).map_err(ServeError::from).map(move |frame| {
                // The closure owns the permit until the body is dropped.
                let _ = &permit;
                frame
            });
            with_body(status, StreamBody::new(frames).boxed_unsync())
        }
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response
}

fn with_body(status: StatusCode, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// The first `len` bytes of a stream of more.
pub(in crate::serve) fn first_bytes(
    body: tidegate::remote::Body,
    len: u64,
) -> impl Stream<Item = tidegate::Result<Bytes>> + Send {
    streams::try_unfold((body, len), |(mut body, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let Some(mut piece) = body.try_next().await? else { return Ok(None) };
        piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        let left = left - piece.len() as u64;
        Ok(Some((piece, (body, left))))
    })
    .boxed()
}
