//! Failures of the store and of the wire as statuses.
//!
//! | failure | status | why |
//! |---|---|---|
//! | the store or the disk is full | `RESOURCE_EXHAUSTED` with `RetryInfo` | eviction may free space |
//! | the memory is in use | `RESOURCE_EXHAUSTED` with `RetryInfo` | other calls end |
//! | the client has too many requests in flight | `RESOURCE_EXHAUSTED` with `RetryInfo` | its other calls end |
//! | bytes differ from their digest on arrival | `INVALID_ARGUMENT` | a retry sends the same bytes |
//! | stored bytes are damaged | `NOT_FOUND` | the store has dropped them, so a client that sends them again repairs the cache |
//! | the server stops | `UNAVAILABLE` | another attempt reaches the next server |
//! | the disk fails | `INTERNAL` | only the server's operator can help |

use std::error::Error as _;
use std::time::Duration;

use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use prost::Message;
use prost_types::Any;
use tidegate::{Error, ErrorKind, Operation};
use tidegate_reapi::rpc;
use tonic::{Code, Status};

use crate::serve::access::QuotaUsed;
use crate::serve::body::{self, ResponseBody};
use crate::serve::clients::TooManyRequests;
use crate::serve::observe::{MissReason, RefusalReason, StatusMark};
use crate::store::StoreError;

/// When a client may try again: the store evicts in fractions of a second, and calls end soon.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<prost_types::Duration>,
}

/// Bytes or a name that the API does not allow.
pub(super) fn invalid(error: &tidegate_reapi::Error) -> Status {
    match error {
        tidegate_reapi::Error::Compressed(_) => {
            Status::unimplemented("messages with a grpc-encoding are not supported")
        }
        tidegate_reapi::Error::MessageTooLong { len, max } => Status::resource_exhausted(format!(
            "the message is larger than max ({len} vs. {max} bytes)"
        )),
        error => Status::invalid_argument(error.to_string()),
    }
}

/// A refusal that does not last.
pub(super) fn exhausted(message: impl Into<String>) -> Status {
    let message = message.into();
    let details = rpc::Status {
        code: Code::ResourceExhausted as i32,
        message: message.clone(),
        details: vec![retry_info()],
    };
    Status::with_details(Code::ResourceExhausted, message, details.encode_to_vec().into())
}

/// The instance has written what it may.
pub(super) fn of_quota(used: &QuotaUsed) -> Status {
    // Without RetryInfo: clients would wait for hours.
    Status::resource_exhausted(used.to_string())
}

/// The memory of the server is in use.
pub(super) fn no_memory(bytes: u64) -> Status {
    let status = exhausted(format!("the server has no {bytes} bytes of memory for this call now"));
    StatusMark::Refusal(RefusalReason::Memory).on(status)
}

/// The client has too many requests in flight.
pub(super) fn too_many_requests(error: TooManyRequests) -> Status {
    StatusMark::Refusal(RefusalReason::Client).on(exhausted(error.to_string()))
}

fn retry_info() -> Any {
    let seconds = i64::try_from(RETRY_AFTER.as_secs()).unwrap_or(i64::MAX);
    let retry_delay = Some(prost_types::Duration { seconds, nanos: 0 });
    Any {
        type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
        value: RetryInfo { retry_delay }.encode_to_vec(),
    }
}

/// A failure of the store.
pub(super) fn of(error: &Error) -> Status {
    let text = error.to_string();
    let cause = error.source().and_then(|cause| cause.downcast_ref::<StoreError>());
    match (cause, error.kind()) {
        (Some(StoreError::Full { .. } | StoreError::DiskFull | StoreError::LogBroken), _) => {
            StatusMark::Refusal(RefusalReason::Full).on(exhausted(text))
        }
        (Some(StoreError::TooLarge { .. }), _) => Status::resource_exhausted(text),
        // Bytes that differ from their digest, or a call that cannot be.
        (Some(StoreError::Mismatch), _) | (_, ErrorKind::Invalid) => Status::invalid_argument(text),
        (Some(StoreError::Damaged), _) => {
            StatusMark::Miss(MissReason::Damaged).on(Status::not_found(text))
        }
        (_, ErrorKind::NotFound) => Status::not_found(text),
        (_, ErrorKind::Integrity) if error.operation() == Operation::Write => {
            Status::invalid_argument(text)
        }
        (_, ErrorKind::Integrity) => {
            StatusMark::Miss(MissReason::Damaged).on(Status::not_found(text))
        }
        (_, ErrorKind::Unsupported) => {
            StatusMark::Refusal(RefusalReason::Memory).on(exhausted(text))
        }
        (_, ErrorKind::Cancelled) => Status::unavailable("the server is stopping"),
        _ => Status::internal(text),
    }
}

/// The status of one blob of a batch.
pub(super) fn in_batch(status: &Status) -> rpc::Status {
    let details = rpc::Status::decode(status.details()).unwrap_or_default().details;
    rpc::Status { code: status.code() as i32, message: status.message().to_owned(), details }
}

/// A response that is only a status.
pub(super) fn response(status: &Status) -> Response<ResponseBody> {
    let mut response = Response::new(body::full(""));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc+proto"));
    if status.add_header(headers).is_err() {
        // It has no metadata that could be invalid.
        headers.insert("grpc-status", HeaderValue::from(Code::Internal as i32));
    }
    response
}
