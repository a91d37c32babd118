//! Caches that speak the Remote Execution API over gRPC: whole blobs as a
//! [`Remote`](super::Remote), and chunks as a [`ChunkStore`](crate::store::ChunkStore).
//!
//! Like every remote, a cache makes one attempt for each call, and the error says whether another
//! can help. The server's capabilities are requested once and followed. The server's statements
//! about blobs and chunks are checked before memory is allocated for them.
//!
//! | file | idea |
//! |---|---|
//! | `url` | the parts of a `grpc://` URL |
//! | `options` | the caller's options |
//! | `cache` | one instance of a cache; the calls of `ChunkStore` |
//! | `blob` | the calls of `Remote` |
//! | `action` | results of actions |
//! | `capabilities` | the server's capabilities |
//! | `missing`, `batch`, `read`, `write`, `split` | the calls, one or two per file |
//! | `split_response` | the chunks of a blob, as they arrive |
//! | `bounded` | limits on the number of entries in a response |
//! | `outgoing` | requests that carry the bytes of blobs |
//! | `channel`, `grpc_body` | connections, and responses that end with a status |
//! | `metadata` | the headers of every request |
//! | `failure` | the meaning of a status |
//!
//! `tidegate_reapi` has the code that a server also needs: resource names, digests, framing,
//! messages without a copy, the counting of entries, zstd.
//!
//! Sources: `remote_execution.proto` and `bytestream.proto`, which `crates/reapi` holds; "gRPC over
//! HTTP/2" of the gRPC project.

mod action;
mod batch;
mod blob;
mod bounded;
mod cache;
mod capabilities;
mod channel;
mod failure;
mod grpc_body;
mod metadata;
mod missing;
mod options;
mod outgoing;
mod read;
mod split;
mod split_response;
mod url;
mod write;

pub use cache::ReapiCache;
pub use options::{Compression, ReapiOptions};
pub use url::CacheUrl;
