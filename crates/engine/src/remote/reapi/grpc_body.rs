//! [`GrpcBody`]: the body of a gRPC response, which ends with a status or is an error.
//!
//! In HTTP/2, a server or a proxy can end a stream without a status. hyper reports a stream that
//! was reset without an error as an ordinary end. In gRPC only a status ends a response. So a
//! response without a status is a broken connection here, which is retried, and not an unknown
//! failure of the server.
//!
//! The content type identifies a response that is not gRPC, such as a proxy's HTML page. If it were
//! read as messages, it would be a failure of the server that might pass.
//!
//! If a response contradicts itself, the failure counts. Examples are a failure status next to a
//! success, an HTTP status other than 200 next to a gRPC success, and a second message in a unary
//! response. `tonic` takes the first status and the first message. So an empty message before the
//! real one would say that no blob is missing from the cache.
//!
//! This module also removes status details that are not base64, because `tonic` would panic on
//! them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tidegate_reapi::framing::MessageCounter;
use tonic::{Code, Status};

use super::channel::Lease;
use crate::transport::RequestEvent;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// With or without padding: readers of such headers must accept both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// See the module docs. Counts as a stream of its connection until it is dropped.
#[derive(Debug)]
pub(super) struct GrpcBody {
    body: Incoming,
    /// The status has arrived, or none is expected.
    ended: bool,
    /// Counts messages of a unary response, which may have only one.
    counter: Option<MessageCounter>,
    lease: Lease,
    event: RequestEvent,
}

impl GrpcBody {
    /// Wraps the body of `response`, which has one message unless it `is_stream`.
    pub(super) fn wrap(
        response: http::Response<Incoming>,
        mut lease: Lease,
        is_stream: bool,
        mut event: RequestEvent,
    ) -> Result<http::Response<Self>, NoGrpc> {
        lease.received();
        let (mut head, body) = response.into_parts();
        event.answered(head.status);
        event.grpc_status(&head.headers);
        sanitise(&mut head.headers);
        refuse_status(head.status, &mut head.headers);
        if !body.is_end_stream() && has_success(&head.headers) {
            // A success this early means nothing: the status at the end decides.
            head.headers.remove(Status::GRPC_STATUS);
        }
        let ended = head.status != StatusCode::OK || has_status(&head.headers);
        if ended || !is_grpc(&head.headers) {
            lease.end();
        }
        if !ended && !is_grpc(&head.headers) {
            event.failed(&NoGrpc);
            return Err(NoGrpc);
        }
        if body.is_end_stream() {
            event.complete();
        }
        let counter = (!is_stream).then(MessageCounter::default);
        Ok(http::Response::from_parts(head, Self { body, ended, counter, lease, event }))
    }
}

/// The response is not gRPC.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("expected an answer of type application/grpc")]
pub(super) struct NoGrpc;

impl Body for GrpcBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.lease.received();
        if !matches!(frame, Some(Ok(_))) {
            self.lease.end();
        }
        Poll::Ready(match frame {
            None if self.ended => {
                self.event.complete();
                None
            }
            None => {
                self.ended = true;
                let message = "the answer ended without a status";
                let error = io::Error::new(io::ErrorKind::UnexpectedEof, message);
                self.event.failed(&error);
                Some(Err(error.into()))
            }
            Some(Err(error)) => {
                self.event.failed(&error);
                Some(Err(error.into()))
            }
            Some(Ok(mut frame)) => {
                self.event.received(frame.data_ref().map_or(0, Bytes::len));
                if let (Some(counter), Some(data)) = (&mut self.counter, frame.data_ref())
                    && counter.count(data) > 1
                {
                    self.ended = true;
                    let message = "expected one message, got more";
                    let error = io::Error::new(io::ErrorKind::InvalidData, message);
                    self.event.failed(&error);
                    return Poll::Ready(Some(Err(error.into())));
                }
                if let Some(trailers) = frame.trailers_mut() {
                    self.event.grpc_status(trailers);
                    self.event.complete();
                    sanitise(trailers);
                    self.ended |= has_status(trailers);
                    self.lease.end();
                }
                Some(Ok(frame))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn has_status(headers: &HeaderMap) -> bool {
    headers.contains_key(Status::GRPC_STATUS)
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

fn has_success(headers: &HeaderMap) -> bool {
    Status::from_header_map(headers).is_some_and(|status| status.code() == Code::Ok)
}

/// An HTTP status other than 200 is a failure, also with a gRPC status of success (gRPC, "HTTP to
/// gRPC Status Code Mapping").
fn refuse_status(status: StatusCode, headers: &mut HeaderMap) {
    let code = match status {
        StatusCode::OK => return,
        StatusCode::BAD_REQUEST => Code::Internal,
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::Unimplemented,
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Code::Unavailable,
        _ => Code::Unknown,
    };
    if Status::from_header_map(headers).is_some_and(|status| status.code() != Code::Ok) {
        return;
    }
    headers.insert(Status::GRPC_STATUS, HeaderValue::from(code as i32));
    let message = format!("the answer has HTTP status {}", status.as_u16());
    if let Ok(message) = HeaderValue::try_from(message.replace(' ', "%20")) {
        headers.insert(Status::GRPC_MESSAGE, message);
    }
}

fn sanitise(headers: &mut HeaderMap) {
    let statuses: Vec<HeaderValue> = headers.get_all(Status::GRPC_STATUS).iter().cloned().collect();
    if statuses.windows(2).any(|pair| pair[0] != pair[1]) {
        // `AlreadyExists` is a success of some calls.
        let successes = [Code::Ok, Code::AlreadyExists].map(|code| HeaderValue::from(code as i32));
        let failure = statuses.into_iter().find(|status| !successes.contains(status));
        let failure = failure.unwrap_or_else(|| HeaderValue::from(Code::Internal as i32));
        headers.insert(Status::GRPC_STATUS, failure);
    }
    let sound = |details: &HeaderValue| BASE64.decode(details).is_ok();
    if headers.get(Status::GRPC_STATUS_DETAILS).is_some_and(|details| !sound(details)) {
        headers.remove(Status::GRPC_STATUS_DETAILS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_that_are_no_base64_are_taken_away() {
        for (details, kept) in [("CAU", true), ("CAUSAA==", true), ("?", false), ("A", false)] {
            let mut headers = HeaderMap::new();
            headers.insert(Status::GRPC_STATUS, "5".parse().unwrap());
            headers.insert(Status::GRPC_STATUS_DETAILS, details.parse().unwrap());
            sanitise(&mut headers);
            assert_eq!(headers.contains_key(Status::GRPC_STATUS_DETAILS), kept, "{details}");
            assert!(Status::from_header_map(&headers).is_some());
        }
    }

    #[test]
    fn a_failure_counts_wherever_it_stands() {
        for (statuses, kept) in [
            (["0", "13"], "13"),
            (["14", "0"], "14"),
            (["6", "14"], "14"),
            (["0", "6"], "13"),
            (["0", "0"], "0"),
            (["6", "6"], "6"),
        ] {
            let mut headers = HeaderMap::new();
            for status in statuses {
                headers.append(Status::GRPC_STATUS, status.parse().unwrap());
            }
            sanitise(&mut headers);
            assert_eq!(headers[Status::GRPC_STATUS], kept);
        }
        for (http, grpc, code) in [
            (200, None, None),
            (503, None, Some(Code::Unavailable)),
            (503, Some("0"), Some(Code::Unavailable)),
            (404, Some("5"), Some(Code::NotFound)),
            (206, None, Some(Code::Unknown)),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(grpc) = grpc {
                headers.insert(Status::GRPC_STATUS, grpc.parse().unwrap());
            }
            refuse_status(StatusCode::from_u16(http).unwrap(), &mut headers);
            assert_eq!(Status::from_header_map(&headers).map(|status| status.code()), code);
        }
    }
}
