//! The meaning of a gRPC status: its kind, whether a retry can help, and the server's message.
//!
//! If this side made the status, because a connection broke, it has a cause; the cause decides, as
//! in other modules. If the server sent it, it has a code, a message, and details. `RetryInfo` in
//! the details says when to retry ("clients SHOULD respect the information provided",
//! `remote_execution.proto`).
//!
//! The server's text is not trusted: it is truncated and escaped before it is shown on a terminal.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use prost::Message as _;
use prost_types::Any;
use tidegate_core::retry::RetryClass;
use tidegate_reapi::rpc;
use tonic::{Code, Status};

use super::grpc_body::NoGrpc;
use crate::error::{Error, ErrorKind, Hint, Operation, Setting};
use crate::transport::classify;

/// Characters of a server's message that are shown.
const CHARS_MAX: usize = 300;

/// The messages of gRPC's libraries (those for Go and C++, for Java, and `tonic`) for a message
/// beyond the size limit. Their codes have other meanings as well.
const TOO_LARGE: [&str; 3] =
    ["larger than max", "exceeds maximum size", "message length too large"];

/// Maximum retry delay that is taken from a server; the caller has its own limits for retries.
const RETRY_SECONDS_MAX: i64 = 24 * 3600;

/// The server's description of a failure.
#[derive(Debug, thiserror::Error)]
#[error("the server says {code}{colon}{message}", colon = if message.is_empty() { "" } else { ": " })]
struct ServerStatus {
    code: &'static str,
    /// Truncated and escaped.
    message: String,
}

/// The error for a failed call about `target`, which holds no secrets.
pub(super) fn failed(status: &Status, operation: Operation, target: &str) -> Error {
    if let Some(cause) = status.source() {
        return broken(cause, operation, target);
    }
    // Details are a complete `google.rpc.Status`; a malformed one counts as empty.
    let details = rpc::Status::decode(status.details()).unwrap_or_default().details;
    refused(status.code(), status.message(), &details, operation, target)
}

/// The error for one blob of a batch.
pub(super) fn failed_in_batch(status: &rpc::Status, operation: Operation, target: &str) -> Error {
    let code = Code::from_i32(status.code);
    refused(code, &status.message, &status.details, operation, target)
}

/// The error for a connection that could not be opened or broke.
fn broken(cause: &(dyn std::error::Error + 'static), operation: Operation, target: &str) -> Error {
    let failure = reset(cause).or_else(|| foreign(cause)).unwrap_or_else(|| {
        let failure = classify(cause);
        (failure.kind, failure.retry, failure.message, failure.hint)
    });
    let (kind, retry, message, hint) = failure;
    let error = Error::new(kind, operation, target, message)
        .caused_by(Broken(levels(cause)))
        .retryable(retry);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// The message of each level of an error, the outermost first.
fn levels(cause: &(dyn std::error::Error + 'static)) -> String {
    let mut text = shown(&cause.to_string());
    let mut level = cause.source();
    while let Some(error) = level {
        text.push_str(": ");
        text.push_str(&shown(&error.to_string()));
        level = error.source();
    }
    text
}

/// The text of a transport error; `tonic` only lends the error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Broken(String);

type Meaning = (ErrorKind, RetryClass, &'static str, Option<Hint>);

/// The meaning of a stream or connection that the server reset (RFC 9113 section 7, and gRPC over
/// HTTP/2, "Errors").
fn reset(cause: &(dyn std::error::Error + 'static)) -> Option<Meaning> {
    let mut level = Some(cause);
    while let Some(error) = level {
        if let Some(reason) = error.downcast_ref::<h2::Error>().and_then(h2::Error::reason) {
            let message = match reason {
                h2::Reason::ENHANCE_YOUR_CALM => {
                    let message = "the server asks for fewer requests";
                    return Some((ErrorKind::Throttled, RetryClass::Now, message, None));
                }
                h2::Reason::REFUSED_STREAM => "the server took no more requests",
                h2::Reason::NO_ERROR => "the server closed the connection",
                _ => "the server reset the stream",
            };
            return Some((ErrorKind::Transport, RetryClass::Now, message, None));
        }
        level = error.source();
    }
    None
}

/// The error if the server does not speak gRPC.
fn foreign(cause: &(dyn std::error::Error + 'static)) -> Option<Meaning> {
    let mut level = Some(cause);
    while let Some(error) = level {
        if error.is::<NoGrpc>() {
            let message = "what answers there is no gRPC server";
            let hint = "check the address and the port";
            return Some((ErrorKind::Unsupported, RetryClass::Never, message, Some(hint.into())));
        }
        level = error.source();
    }
    None
}

fn refused(
    code: Code,
    message: &str,
    details: &[Any],
    operation: Operation,
    target: &str,
) -> Error {
    let too_large = matches!(code, Code::ResourceExhausted | Code::OutOfRange)
        && TOO_LARGE.iter().any(|words| message.contains(words));
    let (kind, retry, text) = if too_large {
        (ErrorKind::Unsupported, false, "a message is longer than its receiver takes")
    } else {
        meaning(code)
    };
    let retry = match retry_delay(details) {
        Some(delay) => RetryClass::After(delay),
        None if retry => RetryClass::Now,
        None => RetryClass::Never,
    };
    let status = ServerStatus { code: name(code), message: shown(message) };
    let error = Error::new(kind, operation, target, text).caused_by(status).retryable(retry);
    match kind {
        ErrorKind::NotFound => error.with_hint("check the digest and the instance's name"),
        ErrorKind::Remote if code == Code::InvalidArgument => {
            error.with_hint("check the instance's name; the server says what it refuses")
        }
        ErrorKind::NoAccess => error.with_hint(Setting::Headers),
        _ => error,
    }
}

/// The kind, whether the same call can succeed later, and the message.
fn meaning(code: Code) -> (ErrorKind, bool, &'static str) {
    match code {
        Code::NotFound => (ErrorKind::NotFound, false, "it is not there"),
        Code::PermissionDenied => (ErrorKind::NoAccess, false, "the server refuses access"),
        Code::Unauthenticated => (ErrorKind::NoAccess, false, "the server asks for credentials"),
        Code::ResourceExhausted => {
            (ErrorKind::Throttled, true, "the server has no more to give at the moment")
        }
        Code::Unavailable => (ErrorKind::Remote, true, "the server is not available"),
        Code::DeadlineExceeded => (ErrorKind::Timeout, true, "the server took too long"),
        Code::Aborted | Code::Cancelled => (ErrorKind::Remote, true, "the server gave up"),
        // Servers use both for internal failures, some of them temporary.
        Code::Internal | Code::Unknown => (ErrorKind::Remote, true, "the server failed"),
        Code::DataLoss => (ErrorKind::Integrity, false, "the server lost data"),
        Code::OutOfRange => (ErrorKind::OutOfRange, false, "the range does not fit"),
        Code::Unimplemented => (ErrorKind::Unsupported, false, "the server cannot do it"),
        // Mistakes on the command line are found before any request. So here an invalid argument is
        // the server's judgement of a request, like the other codes.
        Code::Ok | Code::FailedPrecondition | Code::AlreadyExists | Code::InvalidArgument => {
            (ErrorKind::Remote, false, "the server refuses the request")
        }
    }
}

/// The delay that the server asks for before a retry.
fn retry_delay(details: &[Any]) -> Option<Duration> {
    let named = |any: &&Any| any.type_url.rsplit('/').next() == Some("google.rpc.RetryInfo");
    let info = rpc::RetryInfo::decode(details.iter().find(named)?.value.as_slice()).ok()?;
    let delay = info.retry_delay?;
    let seconds = u64::try_from(delay.seconds.min(RETRY_SECONDS_MAX)).ok()?;
    let nanos = u32::try_from(delay.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(seconds, nanos))
}

/// The well-known names of the codes.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// Untrusted text, truncated and escaped.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(CHARS_MAX).flat_map(escaped).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Leaves quotes as they are: they are harmless on a terminal.
fn escaped(c: char) -> impl Iterator<Item = char> {
    let plain = matches!(c, '"' | '\'');
    let escape = (!plain).then(|| c.escape_debug());
    plain.then_some(c).into_iter().chain(escape.into_iter().flatten())
}

/// The error for a response that cannot be correct, which only this side detects.
pub(super) fn wrong(target: &str, operation: Operation, message: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Integrity, operation, target, message.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_details(code: Code, details: Vec<Any>) -> Status {
        let status = rpc::Status { code: code as i32, message: String::new(), details };
        Status::with_details(code, "no \x1b[2J", status.encode_to_vec().into())
    }

    fn retry_info(seconds: i64, nanos: i32) -> Any {
        let retry_delay = Some(prost_types::Duration { seconds, nanos });
        Any {
            type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
            value: rpc::RetryInfo { retry_delay }.encode_to_vec(),
        }
    }

    #[test]
    fn every_code_has_its_kind_and_the_servers_words_are_kept() {
        for (code, kind, retry) in [
            (Code::NotFound, ErrorKind::NotFound, RetryClass::Never),
            (Code::ResourceExhausted, ErrorKind::Throttled, RetryClass::Now),
            (Code::Unavailable, ErrorKind::Remote, RetryClass::Now),
            (Code::Internal, ErrorKind::Remote, RetryClass::Now),
            (Code::DeadlineExceeded, ErrorKind::Timeout, RetryClass::Now),
            (Code::PermissionDenied, ErrorKind::NoAccess, RetryClass::Never),
            (Code::Unauthenticated, ErrorKind::NoAccess, RetryClass::Never),
            (Code::InvalidArgument, ErrorKind::Remote, RetryClass::Never),
            (Code::Unimplemented, ErrorKind::Unsupported, RetryClass::Never),
            (Code::FailedPrecondition, ErrorKind::Remote, RetryClass::Never),
            (Code::DataLoss, ErrorKind::Integrity, RetryClass::Never),
        ] {
            let error = failed(&with_details(code, vec![]), Operation::Read, "grpc://h:1");
            assert_eq!((error.kind(), error.retry()), (kind, &retry), "{code:?}");
            let chain = error.chain();
            assert!(chain.contains(name(code)) && chain.contains("no \\u{1b}[2J"), "{chain}");
        }
    }

    #[test]
    fn a_server_says_when_to_come_again() {
        for (details, retry) in [
            (vec![retry_info(2, 500_000_000)], RetryClass::After(Duration::from_millis(2_500))),
            (vec![Any::default(), retry_info(0, 1)], RetryClass::After(Duration::from_nanos(1))),
            (vec![retry_info(i64::MAX, 0)], RetryClass::After(Duration::from_hours(24))),
            (vec![retry_info(-1, 0)], RetryClass::Now),
            (vec![retry_info(0, -1)], RetryClass::Now),
            (vec![retry_info(0, i32::MAX)], RetryClass::Now),
        ] {
            let status = with_details(Code::Unavailable, details);
            let error = failed(&status, Operation::Read, "grpc://h:1");
            assert_eq!(error.retry(), &retry);
        }
        let status = rpc::Status {
            code: Code::ResourceExhausted as i32,
            message: "later".to_owned(),
            details: vec![retry_info(3, 0)],
        };
        let error = failed_in_batch(&status, Operation::Write, "grpc://h:1");
        assert_eq!(error.retry(), &RetryClass::After(Duration::from_secs(3)));
    }

    #[test]
    fn a_message_that_the_server_cannot_take_is_not_sent_again() {
        for (code, message) in [
            (Code::ResourceExhausted, "grpc: received message larger than max (5 vs. 4)"),
            (Code::ResourceExhausted, "gRPC message exceeds maximum size 4194304: 5000000"),
            (Code::OutOfRange, "Error, decoded message length too large: found 5 bytes"),
        ] {
            let error = failed(&Status::new(code, message), Operation::Write, "grpc://h:1");
            let meaning = (error.kind(), error.retry());
            assert_eq!(meaning, (ErrorKind::Unsupported, &RetryClass::Never), "{message}");
        }
    }

    #[test]
    fn long_messages_are_cut() {
        let error = failed(&Status::internal("é".repeat(5_000)), Operation::Read, "grpc://h:1");
        assert!(error.chain().chars().count() < 400, "{}", error.chain());
    }
}
