//! What a gRPC status means: a kind, whether asking again can help, and what the server says of it.
//!
//! A status that this side made, because a connection broke, has a cause; it is told from the
//! cause as everywhere else. One that the server sent has a code, a message, and details, of which
//! `RetryInfo` says when to come again ("clients SHOULD respect the information provided",
//! `remote_execution.proto`).
//!
//! What a server writes is shown cut and escaped: it is a stranger's text on a terminal.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use prost::Message as _;
use prost_types::Any;
use tidegate_core::retry::RetryClass;
use tidegate_reapi::rpc;
use tonic::{Code, Status};

use super::answer::NoGrpc;
use crate::error::{Error, ErrorKind, Hint, Operation, Setting};
use crate::transport::classify;

/// Characters of a server's message that are shown.
const CHARS_MAX: usize = 300;

/// What gRPC's libraries say (those for Go and C++, for Java, and `tonic`) of a message that is
/// longer than they take, under codes that mean other things as well.
const TOO_LARGE: [&str; 3] =
    ["larger than max", "exceeds maximum size", "message length too large"];

/// The longest that a server's wish to be left alone is kept in mind; whoever retries has bounds of
/// his own.
const RETRY_SECONDS_MAX: i64 = 24 * 3600;

/// What a server says of a failure.
#[derive(Debug, thiserror::Error)]
#[error("the server says {code}{colon}{message}", colon = if message.is_empty() { "" } else { ": " })]
struct ServerStatus {
    code: &'static str,
    /// Cut and escaped.
    message: String,
}

/// A failed call about `target`, which holds no secrets.
pub(super) fn failed(status: &Status, operation: Operation, target: &str) -> Error {
    if let Some(cause) = status.source() {
        return broken(cause, operation, target);
    }
    // Details are a whole `google.rpc.Status` again; one that cannot be read tells nothing.
    let details = rpc::Status::decode(status.details()).unwrap_or_default().details;
    refused(status.code(), status.message(), &details, operation, target)
}

/// One blob of a batch that failed.
pub(super) fn failed_in_batch(status: &rpc::Status, operation: Operation, target: &str) -> Error {
    let code = Code::from_i32(status.code);
    refused(code, &status.message, &status.details, operation, target)
}

/// A connection that could not be made or broke.
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

/// What each level of an error says, the outermost first.
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

/// The text of a transport's error, of which `tonic` gives no more than a loan.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Broken(String);

type Meaning = (ErrorKind, RetryClass, &'static str, Option<Hint>);

/// What a stream or connection that the server reset says (RFC 9113 section 7, and gRPC over
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

/// What answers is no gRPC server.
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

/// The kind, whether the same call can succeed later, and what to say.
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
        // Both are what a server says of its own trouble, some of it passing.
        Code::Internal | Code::Unknown => (ErrorKind::Remote, true, "the server failed"),
        Code::DataLoss => (ErrorKind::Integrity, false, "the server lost data"),
        Code::OutOfRange => (ErrorKind::OutOfRange, false, "the range does not fit"),
        Code::Unimplemented => (ErrorKind::Unsupported, false, "the server cannot do it"),
        // What is wrong with the command line is found here, before anything is asked: so an invalid
        // argument is the server's opinion of a request, like the others.
        Code::Ok | Code::FailedPrecondition | Code::AlreadyExists | Code::InvalidArgument => {
            (ErrorKind::Remote, false, "the server refuses the request")
        }
    }
}

/// When the server wants to be asked again.
fn retry_delay(details: &[Any]) -> Option<Duration> {
    let named = |any: &&Any| any.type_url.rsplit('/').next() == Some("google.rpc.RetryInfo");
    let info = rpc::RetryInfo::decode(details.iter().find(named)?.value.as_slice()).ok()?;
    let delay = info.retry_delay?;
    let seconds = u64::try_from(delay.seconds.min(RETRY_SECONDS_MAX)).ok()?;
    let nanos = u32::try_from(delay.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(seconds, nanos))
}

/// The names that people know the codes by.
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

/// A stranger's text, cut and escaped.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(CHARS_MAX).flat_map(escaped).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Quotes are left as they are: they do nothing to a terminal.
fn escaped(c: char) -> impl Iterator<Item = char> {
    let plain = matches!(c, '"' | '\'');
    let escape = (!plain).then(|| c.escape_debug());
    plain.then_some(c).into_iter().chain(escape.into_iter().flatten())
}

/// A failure that only this side sees: an answer that cannot be right.
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
