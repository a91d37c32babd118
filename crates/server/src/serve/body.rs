//! The body of every response.

use bytes::Bytes;

use super::error::ServeError;

/// The body of a response. It ends with an error if the store fails meanwhile, so that no client
/// takes a part for the whole.
pub(crate) type ResponseBody = http_body_util::combinators::UnsyncBoxBody<Bytes, ServeError>;
