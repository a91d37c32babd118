//! The end of a call: gRPC's codes, with details that say when to retry.
//!
//! Source: `doc/statuscodes.md` and `doc/PROTOCOL-HTTP2.md` of gRPC.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use prost::Message as _;
use tidegate_reapi::rpc;

/// Characters that `grpc-message` must escape.
const MESSAGE: &AsciiSet = &CONTROLS.add(b'%');

/// gRPC's status codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are gRPC's own")]
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

/// A code with its message and its retry delay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcStatus {
    /// The code.
    pub code: Code,
    /// The error message.
    pub message: String,
    /// Milliseconds until a retry, sent as `google.rpc.RetryInfo`.
    pub retry_after_ms: Option<u64>,
}

impl GrpcStatus {
    /// A code with a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after_ms: None }
    }

    /// Sets the retry delay.
    #[must_use]
    pub fn retry_after_ms(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }

    pub(crate) fn ok() -> Self {
        Self::new(Code::Ok, "")
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    /// The status within a response about several blobs.
    pub(crate) fn message(&self) -> rpc::Status {
        rpc::Status {
            code: self.code as i32,
            message: self.message.clone(),
            details: self.retry_after_ms.map(retry_info).into_iter().collect(),
        }
    }

    /// The status as trailers that end a call.
    pub(crate) fn trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::with_capacity(3);
        let mut add = |name: &'static str, value: String| {
            if let Ok(value) = HeaderValue::try_from(value) {
                trailers.insert(HeaderName::from_static(name), value);
            }
        };
        add("grpc-status", (self.code as i32).to_string());
        if !self.message.is_empty() {
            add("grpc-message", utf8_percent_encode(&self.message, MESSAGE).to_string());
        }
        if self.retry_after_ms.is_some() {
            let details = STANDARD_NO_PAD.encode(self.message().encode_to_vec());
            add("grpc-status-details-bin", details);
        }
        trailers
    }
}

fn retry_info(ms: u64) -> prost_types::Any {
    let duration = prost_types::Duration {
        seconds: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        nanos: i32::try_from(ms % 1000 * 1_000_000).unwrap_or(0),
    };
    let info = rpc::RetryInfo { retry_delay: Some(duration) };
    prost_types::Any {
        type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
        value: info.encode_to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_have_the_status_and_the_retry_delay() {
        let status = GrpcStatus::new(Code::ResourceExhausted, "50% über").retry_after_ms(1500);
        let trailers = status.trailers();
        assert_eq!(trailers["grpc-status"], "8");
        assert_eq!(trailers["grpc-message"], "50%25 %C3%BCber");
        let details = STANDARD_NO_PAD.decode(&trailers["grpc-status-details-bin"]).unwrap();
        let details = rpc::Status::decode(&details[..]).unwrap();
        assert_eq!((details.code, details.details.len()), (8, 1));
        let info = rpc::RetryInfo::decode(&details.details[0].value[..]).unwrap();
        let delay = info.retry_delay.unwrap();
        assert_eq!((delay.seconds, delay.nanos), (1, 500_000_000));
    }
}
