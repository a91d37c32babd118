//! Every request, cut at every byte: by the end of the stream, by a reset of the stream, by the end of
//! the connection, by a reset of the connection. The client gets a precise status or a closed
//! connection, nothing half-written is named, the server serves on, and its memory is free again.
//!
//! | file | idea |
//! |---|---|
//! | `calls` | a request for each call of gRPC, and what it would name |
//! | `recorded` | the bytes of a connection, recorded and sent again up to a cut |
//! | `streams` | cuts of streams, which their connection survives |
//! | `connections` | cuts of connections with gRPC |
//! | `plain` | cuts of connections with HTTP/1.1 |
//! | `responses` | cuts while a response is sent |

mod calls;
mod connections;
mod plain;
mod recorded;
mod responses;
mod streams;

use crate::bed::{Bed, blob_name, memory_is_free, noise, sha256};

/// Cuts in flight at a time.
const CUTS: usize = 24;

/// The server still stores and serves.
async fn serves_on(bed: &Bed) {
    let bytes = noise(5000, 77);
    bed.put(&[&bytes]).await;
    assert!(bed.read(&blob_name(&sha256(&bytes)), 0, 0).await.unwrap() == bytes);
    memory_is_free(bed).await;
}
