//! Converts the head of an HTTP response to facts about a blob, or to an error. Pure: sends no
//! request.
//!
//! | file | idea |
//! |---|---|
//! | `facts` | the facts in the headers: length, version, checksums |
//! | `place` | whether the response matches the request, and the position of its bytes |
//!
//! Sources: RFC 9110 (ranges, conditions, entity tags), RFC 9530 (`Repr-Digest`), and the
//! references of Google Cloud Storage (XML API), Amazon S3 and Azure Blob Storage for their
//! headers.

mod facts;
mod place;

use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use http::StatusCode;
use http_body_util::BodyExt;
use tidegate_core::retry::RetryClass;

#[cfg(feature = "http")]
pub(super) use self::facts::is_decoded;
#[cfg(feature = "s3")]
pub(super) use self::facts::range_of;
pub(super) use self::facts::{info, is_encoded};
pub(super) use self::place::{
    Placement, at_the_end, may_be_the_end, place, proves_nothing, same_version, unsatisfied_len,
};
use super::{BlobInfo, Body, Opened, Version};
use crate::error::{Error, ErrorKind, Operation, Result, Setting};
use crate::transport::{ResponseBody, ResponseHead, classify};

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
    /// Refuses a version that cannot be requested from this remote.
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

/// A response whose bytes belong at `placement`.
pub(super) fn opened(
    head: &ResponseHead,
    info: BlobInfo,
    placement: &Placement,
    body: Body,
) -> Opened {
    Opened {
        end: placement.end,
        whole: placement.whole,
        unhurried: false,
        waited: head.waited,
        requests: head.requests,
        ..Opened::new(info, placement.start, body)
    }
}

/// A body as it arrives.
pub(super) fn frames(body: ResponseBody, target: String) -> Body {
    Box::pin(body.into_data_stream().map(move |frame| {
        frame.map_err(|error| {
            let failure = classify(&error);
            Error::new(failure.kind, Operation::Read, target.clone(), failure.message)
                .caused_by(error)
                .retryable(failure.retry)
        })
    }))
}

/// The error for a status other than success. `pinned` says whether the request named a version.
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
        407 => (ErrorKind::NoAccess, "the proxy requires credentials (407)".to_owned()),
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
        _ if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED => error.with_hint(Setting::Proxy),
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
