//! What an operator sees of the server, over real sockets.
//!
//! | file | what it tests |
//! |---|---|
//! | `bed` | a server, and its operator who asks over HTTP |
//! | `metrics` | `/metrics`: hits, misses, bytes, latencies, the store |
//! | `status` | `/status`: the same, and tables of bounded size |
//! | `requests` | identifiers of requests, and what clients of gRPC say of them |
//! | `page` | `/` and its policy |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bed;
mod metrics;
mod page;
mod requests;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../serve/bed.rs"]
mod serving;
mod status;
