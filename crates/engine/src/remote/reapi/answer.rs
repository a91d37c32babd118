//! [`Answer`]: the body of a gRPC answer, which ends with a status or is an error.
//!
//! HTTP/2 lets a server, or a proxy between, end a stream without a word, and hyper gives the end
//! of one that was reset without an error as an ordinary end. In gRPC only a status ends an answer;
//! so one without is a broken connection here, which is tried again, and not an unknown failure of
//! the server.
//!
//! What answers with anything but gRPC, such as a proxy with a page for people, is told by the type
//! of what it sends. Taken for messages, it would be a failure of the server that might pass.
//!
//! It also takes away what would make `tonic` panic: details of a status that are not base64.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tonic::Status;

use super::channel::Lease;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// With or without padding, as the readers of such headers must take them.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// See the module docs. Holds its place among its connection's streams until it is dropped.
#[derive(Debug)]
pub(super) struct Answer {
    body: Incoming,
    /// The status came, or none is due.
    ended: bool,
    lease: Lease,
}

impl Answer {
    /// Wraps the body of `response`.
    pub(super) fn wrap(
        response: http::Response<Incoming>,
        mut lease: Lease,
    ) -> Result<http::Response<Self>, NoGrpc> {
        lease.hear();
        let (mut head, body) = response.into_parts();
        sanitise(&mut head.headers);
        let ended = head.status != StatusCode::OK || has_status(&head.headers);
        if ended || !is_grpc(&head.headers) {
            lease.end();
        }
        if !ended && !is_grpc(&head.headers) {
            return Err(NoGrpc);
        }
        Ok(http::Response::from_parts(head, Self { body, ended, lease }))
    }
}

/// The answer is of something else.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("expected an answer of type application/grpc")]
pub(super) struct NoGrpc;

impl Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.lease.hear();
        if !matches!(frame, Some(Ok(_))) {
            self.lease.end();
        }
        Poll::Ready(match frame {
            None if self.ended => None,
            None => {
                self.ended = true;
                let message = "the answer ended without a status";
                Some(Err(io::Error::new(io::ErrorKind::UnexpectedEof, message).into()))
            }
            Some(Err(error)) => Some(Err(error.into())),
            Some(Ok(mut frame)) => {
                if let Some(trailers) = frame.trailers_mut() {
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

fn sanitise(headers: &mut HeaderMap) {
    let sound = |details: &http::HeaderValue| BASE64.decode(details).is_ok();
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
}
