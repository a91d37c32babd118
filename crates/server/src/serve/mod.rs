//! The server: what it answers over the network.
//!
//! | module | idea |
//! |---|---|
//! | `http` | [`HttpCache`]: `/cas/`, `/ac/`, and the HTTP dialects of build tools |
//! | `body` | the body of every response |
//! | `error` | [`ServeError`]: why a request fails |

mod body;
mod error;
mod http;

pub use self::error::ServeError;
pub use self::http::{HttpCache, HttpLimits, Tenant};
