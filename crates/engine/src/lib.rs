//! Tidegate moves large blobs between object storage, memory and disk: as fast as the link allows,
//! in bounded memory, surviving interruptions, with every byte verified.
//!
//! ```no_run
//! use tidegate::{Client, Target};
//!
//! # async fn example() -> tidegate::Result<()> {
//! let client = Client::default();
//! let blob = client.locate("gs://bucket/model.safetensors")?;
//! let report = client.download(&blob, Target::file("model.safetensors")).await?;
//! println!("{} bytes, verified: {:?}", report.bytes, report.verified);
//! # Ok(())
//! # }
//! ```
//!
//! Modules depend on each other downwards only:
//!
//! | module | idea |
//! |---|---|
//! | [`Client`] | the state that all transfers share, and the one way to begin a transfer |
//! | `download` | many shards of one blob into one target |
//! | [`chunked`] | one blob as chunks; only the chunks that the other side lacks are sent |
//! | [`read`] | one blob as a stream, with as many requests as needed |
//! | [`buffer`] | a blob in memory that many writers fill at once |
//! | [`remote`] | places that hold blobs, behind features: `http`, `gcs`, `s3`, `azure`; local files always |
//! | [`store`] | places that hold blobs by their digests, and blobs as lists of chunks |
//! | `transfer` | the parts that transfers of shards and of chunks share |
//! | `sink` | where downloaded bytes go: files, streams, memory |
//! | [`budget`] | the process-wide limits that all transfers share |
//! | [`error`] | the one error type |
//! | [`events`] | the `tracing` events of requests and restarts |

mod blocking;
pub mod budget;
pub mod buffer;
pub mod chunked;
mod client;
mod download;
pub mod error;
pub mod events;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzed;
mod names;
mod offload;
mod progress;
pub mod read;
pub mod remote;
mod report;
mod sink;
pub mod store;
mod sync;
mod transfer;
#[cfg(feature = "_transport")]
pub mod transport;
mod upload;
mod verified;

pub use budget::{Budget, BudgetOptions, BytesPermit};
pub use client::{
    ChunkPolicy, Client, ClientOptions, CompareBuilder, Comparison, DeleteBuilder, Difference,
    DownloadBuilder, PresignBuilder, ReadBuilder, StatBuilder, Unchanged, UploadBuilder,
    file_matches,
};
pub use error::{Error, ErrorKind, Operation, Result, Setting};
pub use progress::{Progress, Snapshot};
pub use remote::Location;
pub use report::{ChunkReport, ChunkTotals, Form, MirrorReport, Report, StoreRequests};
pub use sink::file::{Durability, StateFolder};
pub use tidegate_core::checksum::{
    Checksum, ChecksumAlgorithm, Checksummer, Coverage, Crc, CrcAlgorithm, StoredChecksum,
};
pub use tidegate_core::digest::{Digest, DigestFunction};
pub use tidegate_core::range::ByteRange;
pub use tidegate_core::retry::{RetryClass, RetryPolicy};
pub use tidegate_core::window::WindowOptions;
pub use tokio_util::sync::CancellationToken;
pub use transfer::target::Target;
pub use upload::{ContentCoding, OnFailure, UploadSource};
pub use verified::{PartsChecksum, Unverified, Verified};

/// The examples of the user's guide, run as tests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/buffer.md")]
    struct Buffer;
    #[doc = include_str!("../../../docs/reading.md")]
    struct Reading;
    #[cfg(feature = "reapi")]
    #[doc = include_str!("../../../docs/chunked.md")]
    struct Chunked;
}
