//! The server: one port for the Remote Execution API and for HTTP, over one store.
//!
//! | file or folder | idea |
//! |---|---|
//! | `options` | what the owner of a server chooses, and its limits |
//! | `server` | opens the store, binds the port, runs until it is stopped |
//! | `listener` | accepts connections up to a limit, and drains them |
//! | `clients` | what each client has: connections and requests, and their limits |
//! | `connection` | HTTP/1.1 or HTTP/2 on one connection; its idle time and its tasks |
//! | `gather` | the writes of one turn of a connection, sent together |
//! | `stall` | clients that stall lose what they hold |
//! | `window` | the receive windows of HTTP/2, as far as the memory pays them |
//! | `route` | gRPC to `grpc`, everything else to HTTP |
//! | `access` | who may do what: credentials, roles, tenants, quotas, TLS |
//! | `body` | the body of a response |
//! | `purge` | removes values for the operator |
//! | `error` | [`ServeError`]: why a request over HTTP fails, or a body ends early |
//! | `fill` | blobs on their way from a remote into the store |
//! | `origin` | [`OriginOptions`]: `/origin/NAME/PATH`, filled from remotes |
//! | `upstream` | another cache, which fills what the store lacks |
//! | `grpc` | the Remote Execution API |
//! | `observe` | what an operator sees: metrics, status, the names of requests |
//! | `http` | [`HttpCache`]: `/cas/`, `/ac/`, and the HTTP dialects of build tools |
//!
//! ```text
//!   listener -> connection -> route -> access
//!                                   -> grpc -> store
//!                                   -> http -> store
//!                                   -> origin -> store, or fill -> store
//! ```
//!
//! Invariants:
//! - Each task belongs to a connection, each connection to the listener, and the listener to
//!   [`Server::run`], which returns when all of them have ended.
//! - Bytes of messages and pieces of blobs are charged to one [`tidegate::Budget`]. A call that holds
//!   bytes never waits for more; it is refused instead, and the client may retry.
//! - The receive windows of HTTP/2 and fills have a part of the memory each. Only the smallest windows
//!   are outside of it; see `window`.

mod access;
mod body;
mod clients;
mod connection;
mod error;
mod fill;
mod gather;
mod grpc;
mod http;
mod listener;
mod observe;
mod options;
mod origin;
mod purge;
mod route;
mod server;
mod stall;
mod upstream;
mod window;

pub use access::{Caller, Quota, QuotaUsed, Role, Tenant, TlsFiles};
pub use clients::TooManyRequests;
pub use error::ServeError;
pub use fill::FillError;
pub use http::{HttpCache, HttpLimits};
pub use options::{ServeLimits, ServeOptions};
pub use origin::{Origin, OriginOptions};
pub use purge::PurgeRequest;
pub use server::Server;
