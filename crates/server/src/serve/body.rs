//! The body of every response, and why one ends early.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};

/// The body of a response.
pub(crate) type ResponseBody = http_body_util::combinators::UnsyncBoxBody<Bytes, ServeError>;

/// Why a body ended before its last byte. The connection is then cut, so that no client takes the
/// part for the whole.
#[derive(Debug, thiserror::Error)]
#[error("the response ended early")]
pub(crate) struct ServeError(#[from] pub(crate) tidegate::Error);

/// A body that is in memory.
pub(crate) fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}
