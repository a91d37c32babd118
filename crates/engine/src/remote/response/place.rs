//! Whether a response matches the request: its version, its range, the length of its body; and the
//! facts in the refusal of a range.

use std::ops::Range;

use http::StatusCode;
use tidegate_core::range::{ByteRange, ContentRange};
use tidegate_core::retry::RetryClass;

use super::facts::{content_range, is_decoded};
use super::opened;
use crate::error::{Error, ErrorKind, Operation, Result, Setting};
use crate::remote::{BlobInfo, OpenRequest, Opened, Version};
use crate::transport::ResponseHead;

/// The position of a response body in the blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::remote) struct Placement {
    pub(in crate::remote) start: u64,
    pub(in crate::remote) end: Option<u64>,
    pub(in crate::remote) whole: bool,
}

/// Checks the version of a metadata response.
pub(in crate::remote) fn same_version(
    wanted: Option<&Version>,
    info: BlobInfo,
    target: &str,
) -> Result<BlobInfo> {
    if let Some(wanted) = wanted {
        wanted.expect(info.version.as_ref(), Operation::Stat, target)?;
    }
    Ok(info)
}

/// Checks a successful response against the request, and returns the position of its bytes.
///
/// A partial response must name its version like a complete one: by RFC 9110 section 15.3.7 it
/// carries the same entity tag and date.
pub(in crate::remote) fn place(
    head: &ResponseHead,
    request: &OpenRequest,
    info: &BlobInfo,
    target: &str,
) -> Result<Placement> {
    if !matches!(head.status, StatusCode::OK | StatusCode::PARTIAL_CONTENT) {
        let message = format!("expected the blob's bytes, got {}", head.status);
        return Err(Error::new(ErrorKind::Integrity, Operation::Read, target, message));
    }
    if let Some(wanted) = &request.version {
        wanted.expect(info.version.as_ref(), Operation::Read, target)?;
    }
    if is_decoded(head) {
        let message = "the remote decompressed the blob on its way, so that nothing fits its bytes";
        return Err(Error::new(ErrorKind::Integrity, Operation::Read, target, message));
    }
    let contradiction = |message: String| {
        Error::new(ErrorKind::Integrity, Operation::Read, target, message)
            .retryable(RetryClass::Now)
            .with_hint(Setting::Window)
    };
    if head.status == StatusCode::OK {
        place_whole(head, info).map_err(contradiction)
    } else {
        place_part(head, request, info).map_err(contradiction)
    }
}

/// A status 200 with a `Content-Range` may still be a part: the header must not name less than the
/// whole.
fn place_whole(head: &ResponseHead, info: &BlobInfo) -> Result<Placement, String> {
    let whole = |end| Placement { start: 0, end, whole: true };
    let Some(ContentRange::Bytes { range, total }) = content_range(head) else {
        return Ok(whole(info.len_bytes));
    };
    let len = info.len_bytes.or(total).unwrap_or(range.end);
    if range != (0..len) || total.is_some_and(|total| total != len) {
        let header = head.text("content-range").unwrap_or_default();
        return Err(format!("expected the whole blob, got Content-Range {header:?}"));
    }
    Ok(whole(Some(len)))
}

fn place_part(
    head: &ResponseHead,
    request: &OpenRequest,
    info: &BlobInfo,
) -> Result<Placement, String> {
    let header = head.text("content-range").unwrap_or_default();
    let Some(ContentRange::Bytes { range, .. }) = content_range(head) else {
        return Err(format!("the Content-Range {header:?} names no bytes"));
    };
    let expected = match info.len_bytes {
        Some(len) => request.range.resolve(len).ok(),
        None => match &request.range {
            ByteRange::Bounded(wanted) => Some(wanted.start..wanted.end.min(range.end)),
            ByteRange::From(start) => Some(*start..range.end),
            _ => None,
        },
    };
    // Fewer bytes than requested are allowed, RFC 9110 section 15.3.7: the reader requests the
    // rest.
    let fits = expected.is_some_and(|e| e.start == range.start && range.end <= e.end);
    if !fits {
        let asked = request.range.header().unwrap_or_default();
        return Err(format!("asked for {asked}, got Content-Range {header:?}"));
    }
    let len = head.text("content-length").and_then(|text| text.trim().parse::<u64>().ok());
    if let Some(len) = len.filter(|len| *len != range.end - range.start) {
        return Err(format!("got Content-Range {header:?}, but a body of {len} bytes"));
    }
    Ok(Placement { start: range.start, end: Some(range.end), whole: false })
}

/// The blob's length in the refusal of a range, from its `Content-Range: bytes */n`.
pub(in crate::remote) fn unsatisfied_len(head: &ResponseHead) -> Option<u64> {
    match content_range(head)? {
        ContentRange::Unsatisfied { total } => total,
        ContentRange::Bytes { .. } => None,
    }
}

/// Whether a range was refused only because it begins at the very end, as every range of an empty
/// blob does. That is a valid response, not a failure. The blob's facts must not contradict it.
pub(in crate::remote) fn may_be_the_end(head: &ResponseHead, request: &OpenRequest) -> bool {
    head.status == StatusCode::RANGE_NOT_SATISFIABLE
        && unsatisfied_len(head).is_some_and(|len| ends(request, len).is_some())
}

/// The end of a blob of `len` bytes, if the range begins there.
fn ends(request: &OpenRequest, len: u64) -> Option<u64> {
    request.range.resolve(len).ok().filter(Range::is_empty).map(|range| range.end)
}

/// Whether a range was refused that every non-empty blob has, without evidence that this blob is
/// empty. Then the caller requests the blob without a range.
pub(in crate::remote) fn proves_nothing(head: &ResponseHead, request: &OpenRequest) -> bool {
    head.status == StatusCode::RANGE_NOT_SATISFIABLE
        && request.range != ByteRange::All
        && ends(request, 0).is_some()
        && unsatisfied_len(head).is_none_or(|len| len == 0)
}

/// The empty response for a refused range, if the blob of `info` ends where the range begins.
pub(in crate::remote) fn at_the_end(
    head: &ResponseHead,
    request: &OpenRequest,
    mut info: BlobInfo,
) -> Option<Opened> {
    info.len_bytes = info.len_bytes.or_else(|| unsatisfied_len(head));
    let end = ends(request, info.len_bytes?)?;
    let placement = Placement { start: end, end: Some(end), whole: false };
    Some(opened(head, info, &placement, Box::pin(futures_util::stream::empty())))
}
