//! Tidegate moves large blobs between object storage, memory and disk: as fast as the link allows,
//! in bounded memory, surviving interruptions, with every byte verified.
//!
//! ```no_run
//! use tidegate::download::{DownloadOptions, Target, download};
//! use tidegate::remote::{RemoteOptions, Remotes};
//!
//! # async fn example() -> tidegate::Result<()> {
//! let remotes = Remotes::new(RemoteOptions::default());
//! let blob = remotes.locate("gs://bucket/model.safetensors")?;
//! let target = Target::File("model.safetensors".into());
//! let report = download(&blob, target, &DownloadOptions::default()).await?;
//! println!("{} bytes, verified: {:?}", report.bytes, report.verified);
//! # Ok(())
//! # }
//! ```
//!
//! Modules depend on each other downwards only:
//!
//! | module | idea |
//! |---|---|
//! | [`download`] | many shards of one blob into one target |
//! | [`chunked`] | one blob as chunks, of which only those travel that the other side lacks |
//! | [`read`] | one blob as a stream, through as many requests as it takes |
//! | [`buffer`] | a blob in memory that many writers fill at once |
//! | [`remote`] | places that hold blobs, behind features: `http`, `gcs`, `s3`, `azure`; local files always |
//! | `sink` | where bytes are put: files, streams, memory |
//! | [`budget`] | the process-wide limits that all transfers share |
//! | [`error`] | the one error |

pub mod budget;
pub mod buffer;
pub mod chunked;
pub mod download;
pub mod error;
mod names;
pub mod read;
pub mod remote;
mod sink;
mod sync;
#[cfg(feature = "_transport")]
pub mod transport;

pub use budget::{Budget, BudgetOptions};
pub use error::{Error, ErrorKind, Operation, Result};
pub use sink::file::{Durability, StateFolder};
pub use tidegate_core as core;

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
