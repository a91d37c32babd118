//! The events that the library emits with the crate [`tracing`], for a program's own subscriber.
//!
//! | target | level | one event for |
//! |---|---|---|
//! | [`REQUEST`] | debug | each HTTP request and each gRPC call, when it ends |
//! | [`RESTART`] | debug | each restart of a stream and each retry of a call, before its delay |
//! | `tidegate` and below | warn, debug, trace | what else may explain a result, with free fields |
//!
//! The names and the meaning of the fields below are kept; fields may be added. A field that has no
//! value is left out.
//!
//! # `tidegate::request`
//!
//! | field | type | meaning |
//! |---|---|---|
//! | `method` | text | the method; `POST` for gRPC |
//! | `url` | text | the URL without user info, query and fragment |
//! | `range` | text | the header `Range` |
//! | `status` | integer | the HTTP status; absent if there was no response |
//! | `grpc_status` | text | the number of the gRPC status |
//! | `connection` | text | `new`: made for this request; `reused`; absent if there was none |
//! | `connect_ms` | float | time to make the connection, with TLS |
//! | `first_byte_ms` | float | time from the start, with `connect_ms`, to the head of the response |
//! | `ms` | float | time from the start to the end of the request |
//! | `sent_bytes` | integer | bytes of the request's body; for gRPC, those that the connection took |
//! | `received_bytes` | integer | bytes of the response's body that arrived |
//! | `outcome` | text | `complete`: the body was read to its end; `dropped` before that; `failed` |
//! | `error` | text | why it failed |
//!
//! Redirects, requests for credentials and hedges are requests of their own. An error of the server,
//! such as status 503, is a complete request. The event's parent is the span of the read that sent
//! the request.
//!
//! # `tidegate::restart`
//!
//! | field | type | meaning |
//! |---|---|---|
//! | `target` | text | the blob, or the target of the transfer, as in errors |
//! | `offset` | integer | for a stream, the first byte that is requested again |
//! | `attempt` | integer | the number of the request that follows, 2 or more |
//! | `delay_ms` | integer | the delay before it |
//! | `error` | text | the reason, with its causes |
//!
//! # Secrets and cost
//!
//! Events hold no user info, no query of a URL and no header except `Range`. A path is shown as it
//! is. This covers the events of this crate only. Dependencies emit events too, under the targets
//! `h2`, `hyper_util` and `object_store`, and this crate does not control their content.
//!
//! Without a subscriber, or with one that does not want these events, a request costs one load of
//! an atomic integer more.

/// The target of the event of each request.
pub const REQUEST: &str = "tidegate::request";

/// The target of the event of each restart.
pub const RESTART: &str = "tidegate::restart";
