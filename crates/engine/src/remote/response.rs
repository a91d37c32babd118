//! From the head of an HTTP response to facts about a blob, or to the error that it means. Pure:
//! no request is sent here.
//!
//! Sources: RFC 9110 (ranges, conditions, entity tags), RFC 9530 (`Repr-Digest`), and the
//! references of Google Cloud Storage (XML API), Amazon S3 and Azure Blob Storage for their
//! headers.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use http::StatusCode;
use http_body_util::BodyExt;
use tidegate_core::checksum::{ChecksumError, StoredChecksum, headers};
use tidegate_core::range::{ByteRange, ContentRange};
use tidegate_core::retry::RetryClass;

use super::{BlobInfo, Body, OpenRequest, Opened, Version};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::transport::{Answer, ResponseHead, classify};

/// Which headers carry a blob's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    #[cfg(feature = "http")]
    Http,
    #[cfg(feature = "gcs")]
    Gcs,
    #[cfg(feature = "s3")]
    S3,
    #[cfg(feature = "azure")]
    Azure,
}

impl Dialect {
    /// Refuses a version that this remote cannot be asked for.
    pub(super) fn check(self, version: &Version) -> Result<()> {
        let (place, own) = match self {
            #[cfg(feature = "http")]
            Self::Http => ("a web server", false),
            #[cfg(feature = "gcs")]
            Self::Gcs => ("Google Cloud Storage", matches!(version, Version::Generation(_))),
            #[cfg(feature = "s3")]
            Self::S3 => ("S3", matches!(version, Version::VersionId(_))),
            #[cfg(feature = "azure")]
            Self::Azure => ("Azure", matches!(version, Version::VersionId(_))),
        };
        let takes = own || matches!(version, Version::ETag(_) | Version::LastModified(_));
        match version.flaw(place, takes) {
            None => Ok(()),
            Some(flaw) => Err(super::locate::invalid(&version.to_string(), &flaw)),
        }
    }
}

/// Where the body of an answer belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) start: u64,
    pub(super) end: Option<u64>,
    pub(super) whole: bool,
}

/// The facts in a response's headers, with the blob's length as the response tells it. The version
/// is of the kind that was `asked` for, else of the kind that pins best.
pub(super) fn info(head: &ResponseHead, dialect: Dialect, asked: Option<&Version>) -> BlobInfo {
    BlobInfo {
        len_bytes: total_len(head, dialect),
        version: match asked {
            Some(asked) => version_like(head, asked).or_else(|| version(head, dialect)),
            None => version(head, dialect),
        },
        checksums: checksums(head),
        content_encoding: head
            .text("x-goog-stored-content-encoding")
            .or_else(|| head.text("content-encoding"))
            .filter(|encoding| !encoding.eq_ignore_ascii_case("identity"))
            .map(str::to_owned),
        content_type: head.text("content-type").map(str::to_owned),
        last_modified: head.text("last-modified").map(str::to_owned),
    }
}

fn total_len(head: &ResponseHead, dialect: Dialect) -> Option<u64> {
    if head.status == StatusCode::PARTIAL_CONTENT {
        return match ContentRange::parse(head.text("content-range")?) {
            Ok(ContentRange::Bytes { total, .. }) => total,
            _ => None,
        };
    }
    let len = head.text("content-length").and_then(|text| text.trim().parse().ok());
    #[cfg(feature = "gcs")]
    if dialect == Dialect::Gcs && len.is_none() {
        return head.text("x-goog-stored-content-length").and_then(|text| text.parse().ok());
    }
    let _ = dialect;
    len
}

/// The version that an answer names, in the kind of another.
fn version_like(head: &ResponseHead, asked: &Version) -> Option<Version> {
    let text = |name| head.text(name).map(str::to_owned);
    match asked {
        Version::Generation(_) => text("x-goog-generation").map(Version::Generation),
        Version::ETag(_) => head.text("etag").and_then(Version::from_etag),
        Version::VersionId(_) => {
            text("x-amz-version-id").or_else(|| text("x-ms-version-id")).map(Version::VersionId)
        }
        Version::LastModified(_) => text("last-modified").map(Version::LastModified),
        Version::FileStamp(_) | Version::Digest(_) => None,
    }
}

fn version(head: &ResponseHead, dialect: Dialect) -> Option<Version> {
    #[cfg(feature = "gcs")]
    if dialect == Dialect::Gcs
        && let Some(generation) = head.text("x-goog-generation")
    {
        return Some(Version::Generation(generation.to_owned()));
    }
    if let Some(version) = head.text("etag").and_then(Version::from_etag) {
        return Some(version);
    }
    #[cfg(feature = "s3")]
    if dialect == Dialect::S3 {
        let id = head.text("x-amz-version-id").filter(|id| *id != "null");
        return id.map(|id| Version::VersionId(id.to_owned()));
    }
    // A weak entity tag next to a date says that equal dates need not mean equal bytes.
    if head.headers.contains_key("etag") {
        return None;
    }
    let _ = dialect;
    head.text("last-modified").map(|date| Version::LastModified(date.to_owned()))
}

/// Checksums that cover the stored bytes. A malformed header is passed over here, with a trace:
/// it can only cost the verification, which then says that there was none.
fn checksums(head: &ResponseHead) -> Vec<StoredChecksum> {
    let mut found = Vec::new();
    let mut note = |header: &str, parsed: Result<Vec<StoredChecksum>, _>| match parsed {
        Ok(checksums) => found.extend(checksums),
        Err(error) => {
            let error: &ChecksumError = &error;
            tracing::warn!(header, %error, "checksum header passed over");
        }
    };
    for value in head.headers.get_all("x-goog-hash").iter().filter_map(|v| v.to_str().ok()) {
        note("x-goog-hash", headers::parse_goog_hash(value));
    }
    let amz_type = head.text("x-amz-checksum-type");
    for (name, value) in &head.headers {
        if let (Some(algorithm), Ok(value)) =
            (name.as_str().strip_prefix("x-amz-checksum-"), value.to_str())
            && algorithm != "type"
            && algorithm != "mode"
            && head.status != StatusCode::PARTIAL_CONTENT
        {
            let parsed = headers::parse_amz_checksum(algorithm, value, amz_type);
            note(name.as_str(), parsed.map(|checksum| vec![checksum]));
        }
    }
    if let Some(value) = head.text("repr-digest") {
        note("repr-digest", headers::parse_repr_digest(value));
    }
    if let Some(value) = head.text("x-ms-blob-content-md5") {
        note("x-ms-blob-content-md5", headers::parse_content_md5(value).map(|c| vec![c]));
    } else if head.status != StatusCode::PARTIAL_CONTENT
        && let Some(value) = head.text("content-md5")
    {
        // Of a partial answer, Content-MD5 covers the part.
        note("content-md5", headers::parse_content_md5(value).map(|c| vec![c]));
    }
    found
}

/// Whether the bytes are not those that are stored: Google's storage decompresses for those who do
/// not accept `gzip`, and then neither length, range nor checksum fit them.
///
/// Source: <https://cloud.google.com/storage/docs/transcoding>.
pub(super) fn is_decoded(head: &ResponseHead) -> bool {
    let coded = |name| {
        let coding = head.text(name).unwrap_or_default();
        !coding.is_empty() && !coding.eq_ignore_ascii_case("identity")
    };
    head.status.is_success()
        && coded("x-goog-stored-content-encoding")
        && !coded("content-encoding")
}

/// Checks that an answer is of the version that was asked for, as far as it names one.
fn compare(
    wanted: Option<&Version>,
    info: &BlobInfo,
    operation: Operation,
    target: &str,
) -> Result<()> {
    match (wanted, &info.version) {
        (Some(wanted), Some(given)) if !wanted.agrees(given) => {
            let message = format!("expected {wanted}, got {given}");
            Err(Error::new(ErrorKind::Changed, operation, target, message))
        }
        _ => Ok(()),
    }
}

fn unnamed(operation: Operation, target: &str) -> Error {
    let message = "the answer does not name the version that was asked for";
    Error::new(ErrorKind::Changed, operation, target, message)
}

/// Checks facts that were asked for by version.
pub(super) fn same_version(
    wanted: Option<&Version>,
    info: BlobInfo,
    target: &str,
) -> Result<BlobInfo> {
    if wanted.is_some() && info.version.is_none() {
        return Err(unnamed(Operation::Stat, target));
    }
    compare(wanted, &info, Operation::Stat, target)?;
    Ok(info)
}

/// Checks a successful answer against what was asked, and says where its bytes belong.
pub(super) fn place(
    head: &ResponseHead,
    request: &OpenRequest,
    info: &BlobInfo,
    target: &str,
) -> Result<Placement> {
    compare(request.version.as_ref(), info, Operation::Read, target)?;
    if is_decoded(head) {
        let message = "the remote decompressed the blob on its way, so that nothing fits its bytes";
        return Err(Error::new(ErrorKind::Integrity, Operation::Read, target, message));
    }
    if !matches!(head.status, StatusCode::OK | StatusCode::PARTIAL_CONTENT) {
        let message = format!("expected the blob's bytes, got {}", head.status);
        return Err(Error::new(ErrorKind::Integrity, Operation::Read, target, message));
    }
    if head.status != StatusCode::PARTIAL_CONTENT {
        if request.version.is_some() && info.version.is_none() {
            return Err(unnamed(Operation::Read, target));
        }
        return Ok(Placement { start: 0, end: info.len_bytes, whole: true });
    }
    let header = head.text("content-range").unwrap_or_default();
    let contradiction = |message: String| {
        Error::new(ErrorKind::Integrity, Operation::Read, target, message)
            .retryable(RetryClass::Now)
            .with_hint("the server, or a proxy before it, mishandles ranges; try --window 1")
    };
    let Ok(ContentRange::Bytes { range, .. }) = ContentRange::parse(header) else {
        return Err(contradiction(format!("the Content-Range {header:?} names no bytes")));
    };
    let expected = match info.len_bytes {
        Some(len) => request.range.resolve(len).ok(),
        None => match &request.range {
            ByteRange::Bounded(wanted) => Some(wanted.start..wanted.end.min(range.end)),
            ByteRange::From(start) => Some(*start..range.end),
            _ => None,
        },
    };
    // Fewer bytes than asked for are allowed, RFC 9110 section 15.3.7: the rest is asked again.
    let fits = expected.is_some_and(|e| e.start == range.start && range.end <= e.end);
    if !fits {
        let asked = request.range.header().unwrap_or_default();
        return Err(contradiction(format!("asked for {asked}, got Content-Range {header:?}")));
    }
    Ok(Placement { start: range.start, end: Some(range.end), whole: false })
}

/// An answer whose bytes belong to `placement`.
pub(super) fn opened(
    head: &ResponseHead,
    info: BlobInfo,
    placement: &Placement,
    body: Body,
) -> Opened {
    Opened {
        info,
        start: placement.start,
        end: placement.end,
        whole: placement.whole,
        unhurried: false,
        waited: head.waited,
        requests: head.requests,
        body,
    }
}

/// A body as it arrives.
pub(super) fn frames(body: Answer, target: String) -> Body {
    Box::pin(body.into_data_stream().map(move |frame| {
        frame.map_err(|error| {
            let failure = classify(&error);
            Error::new(failure.kind, Operation::Read, target.clone(), failure.message)
                .caused_by(error)
                .retryable(failure.retry)
        })
    }))
}

/// The length that a refused range tells, from its `Content-Range: bytes */n`.
pub(super) fn unsatisfied_len(head: &ResponseHead) -> Option<u64> {
    match ContentRange::parse(head.text("content-range")?) {
        Ok(ContentRange::Unsatisfied { total }) => total,
        _ => None,
    }
}

/// Whether a range may have been refused only because it begins at the very end, as every range of
/// an empty blob does: that is an answer, not a failure. The blob's length is still to be looked
/// at, since a refusal need not tell it.
pub(super) fn may_be_the_end(head: &ResponseHead, request: &OpenRequest) -> bool {
    let len = unsatisfied_len(head).unwrap_or(0);
    head.status == StatusCode::RANGE_NOT_SATISFIABLE && ends(request, len).is_some()
}

/// The end of a blob of `len` bytes, if that is where the range begins.
fn ends(request: &OpenRequest, len: u64) -> Option<u64> {
    request.range.resolve(len).ok().filter(Range::is_empty).map(|range| range.end)
}

/// The answer that a refused range comes to, if the blob that `info` describes ends where the range
/// begins: no bytes.
pub(super) fn at_the_end(
    head: &ResponseHead,
    request: &OpenRequest,
    mut info: BlobInfo,
) -> Option<Opened> {
    info.len_bytes = info.len_bytes.or_else(|| unsatisfied_len(head));
    let end = ends(request, info.len_bytes?)?;
    let placement = Placement { start: end, end: Some(end), whole: false };
    Some(opened(head, info, &placement, Box::pin(futures_util::stream::empty())))
}

/// The error that a status other than success means. `pinned` says that the request named a
/// version.
pub(super) fn refusal(
    head: &ResponseHead,
    operation: Operation,
    target: &str,
    pinned: bool,
) -> Error {
    let status = head.status;
    let (kind, message) = match status.as_u16() {
        404 | 410 => (ErrorKind::NotFound, "the remote has no such blob".to_owned()),
        401 => (ErrorKind::NoAccess, "the remote asks for credentials (401)".to_owned()),
        403 => (ErrorKind::NoAccess, "the remote refuses access (403)".to_owned()),
        407 => (ErrorKind::NoAccess, "the proxy asks for credentials (407)".to_owned()),
        412 if pinned => (ErrorKind::Changed, "it is not the version that was asked for".into()),
        416 => (ErrorKind::OutOfRange, range_refused(head)),
        429 => (ErrorKind::Throttled, "the remote asks for fewer requests (429)".to_owned()),
        408 | 425 => (ErrorKind::Timeout, format!("the remote gave up waiting ({status})")),
        500..=599 => (ErrorKind::Remote, format!("the remote failed ({status})")),
        300..=399 => (ErrorKind::Unsupported, format!("the remote redirects elsewhere ({status})")),
        _ => (ErrorKind::Remote, format!("the remote refuses the request ({status})")),
    };
    let error = Error::new(kind, operation, target, message).retryable(retry_class(head));
    match kind {
        ErrorKind::Unsupported => error.with_hint("check the endpoint and the bucket's region"),
        _ => error,
    }
}

fn range_refused(head: &ResponseHead) -> String {
    match unsatisfied_len(head) {
        Some(len) => format!("the range begins beyond the end of the blob ({len} bytes)"),
        None => "the range begins beyond the end of the blob".to_owned(),
    }
}

fn retry_class(head: &ResponseHead) -> RetryClass {
    match head.status.as_u16() {
        408 | 425 | 429 | 500 | 502..=504 | 507..=509 | 520..=530 | 598 | 599 => head
            .text("retry-after")
            .and_then(|text| retry_after(text, SystemTime::now()))
            .map_or(RetryClass::Now, RetryClass::After),
        _ => RetryClass::Never,
    }
}

/// `Retry-After`, as seconds or as a date (RFC 9110 section 10.2.3); `None` for anything else.
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text.trim()).ok()?;
    Some(date.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
#[cfg(feature = "http")]
mod tests;
