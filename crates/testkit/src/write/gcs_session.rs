//! Resumable uploads of GCS's JSON API.
//!
//! Source: <https://cloud.google.com/storage/docs/performing-resumable-uploads>. The first request
//! gets the URL of a session. A PUT there sends a range; 308 says what is kept. A PUT of no bytes
//! with `bytes */N` asks for it, and finishes the upload if all N bytes are kept.

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::{
    algorithm::Wanted,
    call::{Call, Outcome, Stop, empty, received, refuse},
    gcs_resource::{json_answer, metadata_of, resource},
    precondition::{Condition, Moment},
    sessions::{Found, GRANULE_BYTES, Plan},
    verify,
    written::Assembled,
};
use crate::{
    flavour::{Flavour, Problem},
    respond::Answer,
};

/// What `Content-Range` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sent {
    /// First byte, and the byte after the last one; `None` asks for the state.
    range: Option<(u64, u64)>,
    total: Option<u64>,
}

fn sent(call: &Call<'_>) -> Option<Sent> {
    let Some(text) = call.field("content-range") else {
        // Without the field, the body is the whole object.
        let total = call.body.declared_bytes()?;
        return Some(Sent { range: Some((0, total)), total: Some(total) });
    };
    let (range, total) = text.strip_prefix("bytes ")?.trim().split_once('/')?;
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    if range == "*" {
        return Some(Sent { range: None, total });
    }
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let fits = first <= last && total.is_none_or(|total| last < total);
    fits.then(|| Sent { range: Some((first, last + 1)), total })
}

/// `POST /upload/storage/v1/b/B/o?uploadType=resumable`
pub(crate) async fn start(call: &mut Call<'_>, bucket: &str) -> Outcome {
    let document = call.text().await?;
    let body: Value = if document.trim().is_empty() {
        Value::Null
    } else {
        let parsed = serde_json::from_str(&document);
        parsed.map_err(|_not_json| refuse(400, "parseError", "Parse Error"))?
    };
    let named = call.parameter("name").or_else(|| body.get("name").and_then(Value::as_str));
    let name = named.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| refuse(400, "required", "Required parameter: name"))?;
    let path = format!("/{bucket}/{name}");
    let mut metadata = metadata_of(&body);
    if metadata.content_type.is_none() {
        metadata.content_type = call.field("x-upload-content-type").map(str::to_owned);
    }
    let condition = Condition::of(call)?.settle(call, &path, Moment::Put).await?;
    let there = call.origin.store.find(&path, &crate::store::Selector::Latest);
    condition.check(Flavour::Gcs, there.as_ref())?;
    let wanted = Wanted { md5: call.wanted().md5, ..Wanted::default() };
    let discards = call.options().discard;
    let plan = Plan { path, metadata, condition };
    let id = call.origin.sessions.start(plan, discards, wanted);
    let scheme = if call.origin.options.tls.is_some() { "https" } else { "http" };
    let host = call.field("host").unwrap_or("localhost");
    let location = format!(
        "{scheme}://{host}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={id}"
    );
    Ok(empty(200, vec![("Location", location), ("X-GUploader-UploadID", id)]))
}

/// `DELETE` of a session.
pub(crate) async fn cancel(call: &mut Call<'_>, id: &str) -> Outcome {
    call.body.drop_rest().await?;
    if call.origin.sessions.cancel(id) {
        return Ok(empty(499, Vec::new()));
    }
    match call.origin.sessions.find(id) {
        Found::Done(_) => Err(closed(&Found::Unknown)),
        found => Err(closed(&found)),
    }
}

/// The error of a session that takes no bytes.
fn closed(found: &Found) -> Stop {
    match found {
        Found::Forgotten => refuse(410, "gone", "The upload session has expired."),
        Found::Cancelled => refuse(499, "cancelled", "The upload session was cancelled."),
        // Another request wrote to the session, and may have finished it. The client has to ask.
        Found::Open(_) | Found::Done(_) => {
            refuse(503, "backendError", "Another request writes to the session.")
        }
        Found::Unknown => refuse(404, "notFound", "No such upload session."),
    }
}

/// `PUT` to a session.
pub(crate) async fn put(call: &mut Call<'_>, id: &str) -> Outcome {
    let Some(sent) = sent(call) else {
        return Err(refuse(400, "invalid", "Failed to parse Content-Range header."));
    };
    verify::refuse_fields(call)?;
    let kept = match call.origin.sessions.find(id) {
        Found::Open(kept) => kept,
        Found::Done(resource) => {
            call.body.drop_rest().await?;
            return Ok(json_answer(200, &resource));
        }
        found => return Err(closed(&found)),
    };
    let Some((first, end)) = sent.range else {
        call.body.drop_rest().await?;
        return if sent.total == Some(kept) {
            finish(call, id, kept)
        } else {
            Ok(incomplete(kept))
        };
    };
    if first > kept {
        return Err(refuse(400, "invalid", "The range begins after the bytes that are kept."));
    }
    if call.body.declared_bytes().is_some_and(|bytes| bytes != end - first) {
        return Err(refuse(400, "invalid", "Content-Length and Content-Range differ."));
    }
    let is_last = sent.total == Some(end);
    let (kept, tail) = take(call, id, first, kept, is_last).await?;
    let tail_bytes = u64::try_from(tail.len()).unwrap_or(u64::MAX);
    if is_last && kept + tail_bytes == end {
        if !call.origin.sessions.append(id, kept, &tail) {
            return Err(closed(&call.origin.sessions.find(id)));
        }
        return finish(call, id, end);
    }
    Ok(incomplete(kept))
}

/// Reads the body and keeps whole granules of it. Returns how many bytes are kept, and the bytes
/// after the last granule.
async fn take(
    call: &mut Call<'_>,
    id: &str,
    first: u64,
    kept: u64,
    is_last: bool,
) -> Result<(u64, Bytes), Stop> {
    let limit = call.options().session_kept_bytes_max.filter(|_| !is_last);
    let granule = u64::try_from(GRANULE_BYTES).unwrap_or(u64::MAX);
    let most = limit.map_or(u64::MAX, |limit| kept + limit / granule * granule);
    // Bytes that are kept already are sent again by some clients. The kept ones count.
    let mut skip = kept - first;
    let mut at = kept;
    let mut pending = BytesMut::new();
    while let Some(mut piece) = call.body.next().await? {
        let here = usize::try_from(skip).map_or(piece.len(), |skip| skip.min(piece.len()));
        skip -= u64::try_from(here).unwrap_or(0);
        let _ = piece.split_to(here);
        pending.extend_from_slice(&piece);
        while pending.len() >= GRANULE_BYTES {
            let whole = pending.split_to(GRANULE_BYTES);
            if at + granule <= most {
                if !call.origin.sessions.append(id, at, &whole) {
                    return Err(closed(&call.origin.sessions.find(id)));
                }
                at += granule;
            }
        }
    }
    Ok((at, pending.freeze()))
}

/// 308, and which bytes are kept.
fn incomplete(kept: u64) -> Answer {
    let range = kept.checked_sub(1).map(|last| ("Range", format!("bytes=0-{last}")));
    empty(308, range.into_iter().collect())
}

/// Makes the object. A wrong checksum or a precondition that does not hold ends the session.
fn finish(call: &Call<'_>, id: &str, len_bytes: u64) -> Outcome {
    let Some((plan, kept)) = call.origin.sessions.take(id, len_bytes) else {
        return Err(closed(&call.origin.sessions.find(id)));
    };
    let digests = kept.hasher.finish();
    let ignored = call.options().checksums == super::options::WriteChecksums::Ignored;
    if !ignored && let Some(name) = verify::goog_hash(call, &digests) {
        let message = if name == "md5" {
            "Provided MD5 hash doesn't match calculated MD5 hash."
        } else {
            "Provided CRC32C doesn't match calculated CRC32C."
        };
        return Err(refuse(400, "invalid", message));
    }
    let bytes = kept.bytes.map(BytesMut::freeze);
    let body = received(bytes, kept.len_bytes, digests, call.options());
    let blob = Assembled::from(body).into_blob(call, plan.metadata, None);
    let kept_at_end = call.options().preconditions == super::options::Preconditions::Kept;
    let check = |there: Option<&crate::Blob>| {
        if kept_at_end { plan.condition.check(Flavour::Gcs, there) } else { Ok::<(), Problem>(()) }
    };
    let written = call.origin.store.put_if(&plan.path, blob, check)?;
    let resource = resource(call, &plan.path, &written);
    call.origin.sessions.finish(id, resource.clone());
    Ok(json_answer(200, &resource))
}
