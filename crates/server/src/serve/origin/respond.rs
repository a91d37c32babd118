//! The responses: ranges, entity tags, a body that arrives.

use futures_util::{StreamExt as _, TryStreamExt as _};
use http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, IF_RANGE, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tidegate::store::BlobStore as _;
use tidegate_core::digest::Digest;

use super::Origins;
use super::fill::Found;
use super::path::PathFlaw;
use crate::serve::body::ResponseBody;
use crate::serve::error::ServeError;
use crate::serve::fill::{Description, FollowState, HELD_BACK_BYTES, follow};
use crate::serve::http::range::{Selection, lists_tag, select};
use crate::serve::http::reply;

/// Memory of one response: a piece of the store, and as much in the connection.
const RESPONSE_MEMORY_BYTES: u64 = 512 << 10;

/// How the request was answered (RFC 9211).
pub(super) const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// A response or a failure, which becomes a response, too.
type Reply = Result<Response<ResponseBody>, ServeError>;

impl Origins {
    /// Answers a request for a path under `/origin/`.
    pub(in crate::serve) async fn answer<B>(&self, request: Request<B>) -> Response<ResponseBody> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = reply::text(StatusCode::METHOD_NOT_ALLOWED, "use GET or HEAD");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let (parts, _) = request.into_parts();
        let path = match self.path(parts.uri.path(), parts.uri.query()) {
            Ok(path) => path,
            Err(flaw) => {
                let status = match flaw {
                    PathFlaw::UnknownOrigin | PathFlaw::NoName => StatusCode::NOT_FOUND,
                    _ => StatusCode::BAD_REQUEST,
                };
                return reply::text(status, flaw.message());
            }
        };
        let wanted = Wanted::of(&parts.headers, parts.method == Method::HEAD);
        let outcome = if wanted.is_head {
            let facts = self.facts(&path).await.map_err(ServeError::from);
            facts.map(|facts| wanted.head(&facts))
        } else {
            self.get(&path, &wanted).await
        };
        outcome.unwrap_or_else(|error| reply::of_error(&error))
    }

    async fn get(&self, path: &super::BlobPath, wanted: &Wanted<'_>) -> Reply {
        // A client that may have the blob is answered without a fill.
        if wanted.if_none_match.is_some() {
            let facts = self.facts(path).await?;
            if wanted.has(&facts) {
                return Ok(wanted.head(&facts));
            }
        }
        let flight = match self.find(path, 0).await? {
            Found::Stored(digest, description) => {
                return self.send_stored(wanted, &digest, &description).await;
            }
            Found::Arriving(flight) => flight,
        };
        let mut description = flight.described().await?;
        if wanted.has(&description) {
            return Ok(wanted.head(&description));
        }
        let early = match (description.len, wanted.selection(&description)) {
            // All of it waits for verification, so a failure can be a status.
            (Some(..=HELD_BACK_BYTES), _) => None,
            (_, Selection::All) => Some(None),
            (Some(_), Selection::Part(range)) if self.0.options.serves_unverified => {
                // A failure before the last byte is a status, not a response that breaks.
                flight.written(range.end).await?;
                Some(Some(range))
            }
            _ => None,
        };
        let Some(range) = early else {
            // Only verified bytes are a part of the blob. The length may be known only now.
            let digest = flight.ended().await?;
            description = flight.described().await?;
            return self.send_stored(wanted, &digest, &description).await;
        };
        let takes_unverified = range.is_some();
        let len = description.len;
        let (status, range) = match range {
            Some(range) => (StatusCode::PARTIAL_CONTENT, range),
            None => (StatusCode::OK, 0..len.unwrap_or(u64::MAX)),
        };
        let permit = self.0.budget.bytes(len.unwrap_or(u64::MAX).min(RESPONSE_MEMORY_BYTES)).await;
        let place = takes_unverified.then(|| range.clone());
        let pieces = follow(FollowState {
            flight,
            store: self.0.store.clone(),
            budget: self.0.budget.clone(),
            range: range.clone(),
            takes_unverified,
        });
        let frames = pieces.map_ok(Frame::data).map(move |frame| {
            // The closure owns the permit until the body is dropped.
            let _ = &permit;
            frame
        });
        let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
        *response.status_mut() = status;
        let body_len = len.map(|_| range.end - range.start);
        headers(response.headers_mut(), &description, body_len);
        if let (Some(place), Some(len)) = (place, len) {
            content_range(&mut response, &format!("bytes {}-{}/{len}", place.start, place.end - 1));
        }
        Ok(response)
    }

    /// A blob of the store.
    async fn send_stored(
        &self,
        wanted: &Wanted<'_>,
        digest: &Digest,
        description: &Description,
    ) -> Reply {
        if wanted.has(description) {
            return Ok(wanted.head(description));
        }
        let description = &Description { len: Some(digest.len), ..description.clone() };
        let (status, range) = match wanted.selection(description) {
            Selection::All => (StatusCode::OK, 0..digest.len),
            Selection::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
            Selection::Unsatisfiable => {
                let mut response = reply::text(StatusCode::RANGE_NOT_SATISFIABLE, "no such bytes");
                content_range(&mut response, &format!("bytes */{}", digest.len));
                return Ok(response);
            }
        };
        let len = range.end - range.start;
        let permit = self.0.budget.bytes(len.min(RESPONSE_MEMORY_BYTES)).await;
        let body = self.0.store.get(digest, range.start, &self.0.budget).await?;
        let pieces = reply::first_bytes(body, len);
        let mut response = reply::stream(status, len, Some((pieces, permit)));
        headers(response.headers_mut(), description, Some(len));
        if status == StatusCode::PARTIAL_CONTENT {
            let place = format!("bytes {}-{}/{}", range.start, range.end - 1, digest.len);
            content_range(&mut response, &place);
        }
        Ok(response)
    }
}

/// What a client wants.
struct Wanted<'a> {
    is_head: bool,
    range: Option<&'a str>,
    if_range: Option<&'a str>,
    if_none_match: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    fn of(headers: &'a HeaderMap, is_head: bool) -> Self {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        Self {
            is_head,
            range: text(RANGE),
            if_range: text(IF_RANGE),
            if_none_match: text(IF_NONE_MATCH),
        }
    }

    /// Whether the client has the blob.
    fn has(&self, description: &Description) -> bool {
        match (self.if_none_match, &description.tag) {
            (Some(tags), Some(tag)) => lists_tag(tags, tag),
            _ => false,
        }
    }

    /// The bytes that the client wants. `All` if the length is not known, except that a range then
    /// waits for it.
    fn selection(&self, description: &Description) -> Selection {
        let is_same = match (self.if_range, &description.tag) {
            (Some(wanted), Some(tag)) => wanted.trim() == tag,
            (wanted, _) => wanted.is_none(),
        };
        match (self.range, description.len) {
            (Some(range), Some(len)) if is_same => select(range, len),
            // Its length decides what it selects.
            (Some(range), None) if is_same && select(range, u64::MAX) != Selection::All => {
                Selection::Unsatisfiable
            }
            _ => Selection::All,
        }
    }

    /// A response without a body: to HEAD, or to a client that has the blob.
    fn head(&self, description: &Description) -> Response<ResponseBody> {
        if self.has(description) {
            let mut response = reply::empty(StatusCode::NOT_MODIFIED);
            headers(response.headers_mut(), description, None);
            return response;
        }
        let mut response = reply::empty(StatusCode::OK);
        headers(response.headers_mut(), description, description.len);
        response
    }
}

fn headers(headers: &mut HeaderMap, description: &Description, body_len: Option<u64>) {
    let kind = description.content_type.as_deref().unwrap_or("application/octet-stream");
    let texts = [
        (ETAG, description.tag.as_deref()),
        (CONTENT_TYPE, Some(kind)),
        (CONTENT_ENCODING, description.content_encoding.as_deref()),
        (CACHE_STATUS, Some(description.cache_status)),
        (ACCEPT_RANGES, Some("bytes")),
    ];
    for (name, text) in texts {
        if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
            headers.insert(name, value);
        }
    }
    if let Some(len) = body_len {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
    }
}

fn content_range(response: &mut Response<ResponseBody>, place: &str) {
    if let Ok(place) = HeaderValue::from_str(place) {
        response.headers_mut().insert(CONTENT_RANGE, place);
    }
}
