//! One exchange with a service that gives credentials: a small request and a small answer, within a
//! limited time.
//!
//! Invariant: an error names the service's host, and no part of the request or of an answer that may
//! be secret.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use object_store::client::HttpRequest;

use crate::transport::Transport;

/// Token services answer within a second. A service that needs longer is not reached.
const TIME_MAX: Duration = Duration::from_secs(30);

/// A token has at most a few KiB. This limit only stops a service that answers forever.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// An answer in text that an error shows has at most this many characters: one line on a terminal,
/// or a few.
const SHOWN_CHARS_MAX: usize = 300;

/// Sends the request. Returns the status and the body. The error is one line.
pub(super) async fn ask(
    transport: &Transport,
    request: HttpRequest,
) -> Result<(StatusCode, Bytes), String> {
    let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    let exchange = async {
        let sent = transport.send(request).await;
        let (head, body) = sent.map_err(|error| innermost(&error))?;
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| innermost(error.as_ref()))?;
        Ok::<_, String>((head.status, body.to_bytes()))
    };
    match tokio::time::timeout(TIME_MAX, exchange).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(reason)) => Err(format!("{host} cannot be reached: {reason}")),
        Err(_elapsed) => Err(format!("{host} did not answer within {} s", TIME_MAX.as_secs())),
    }
}

/// The text of a service in one line of limited length.
pub(super) fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(SHOWN_CHARS_MAX).collect()
}

fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut level = error;
    while let Some(cause) = level.source() {
        level = cause;
    }
    level.to_string()
}
