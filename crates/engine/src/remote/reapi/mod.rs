//! Caches that speak the Remote Execution API over gRPC: whole blobs as a
//! [`Remote`](super::Remote), and chunks as a [`ChunkStore`](crate::store::ChunkStore).
//!
//! Like every remote it makes one attempt for each call and says in the error whether another can
//! help. What a server says of itself is asked once and obeyed; what it says of blobs and chunks is
//! checked before anything is allocated or done by it.
//!
//! | file | idea |
//! |---|---|
//! | `url` | what a `grpc://` URL names |
//! | `options` | what the caller chooses |
//! | `cache` | one instance of a cache; the calls of `ChunkStore` |
//! | `blob` | the calls of `Remote` |
//! | `capabilities` | what the server says it can do |
//! | `missing`, `batch`, `read`, `write`, `split` | the calls, one or two a file |
//! | `split_response` | the chunks of a blob, as they arrive |
//! | `bounded` | responses with no more entries than were asked for |
//! | `outgoing` | requests that carry the bytes of blobs |
//! | `channel`, `answer` | connections, and answers that end with a status |
//! | `metadata` | the headers of every request |
//! | `failure` | what a status means |
//!
//! What a server needs as well is in `tidegate_reapi`: resource names, digests, framing, messages
//! without a copy, the counting of entries, zstd.
//!
//! Sources: `remote_execution.proto` and `bytestream.proto`, which `crates/reapi` holds; "gRPC over
//! HTTP/2" of the gRPC project.

mod answer;
mod batch;
mod blob;
mod bounded;
mod cache;
mod capabilities;
mod channel;
mod failure;
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
