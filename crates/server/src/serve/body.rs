//! The body of every response.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};

use super::error::ServeError;

/// The body of a response. It ends with an error if the store fails meanwhile, so that no client takes
/// a part for the whole.
pub(crate) type ResponseBody = http_body_util::combinators::UnsyncBoxBody<Bytes, ServeError>;

/// A body that is in memory.
pub(crate) fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}
