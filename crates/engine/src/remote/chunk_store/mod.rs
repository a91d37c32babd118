//! What is asked of a store of chunks, and what it is asked for: a remote can be one, too.
//!
//! | file | idea |
//! |---|---|
//! | `store` | [`ChunkStore`]: which chunks are missing, get, put, manifest, register |
//! | `manifest` | [`Manifest`]: the ordered list of chunks that make up a blob, validated |
//! | `store_remote` | the blobs of a store as those of a remote |
//! | `send_progress` | [`SendProgress`]: how much of a request has gone out |

mod manifest;
mod send_progress;
mod store;
mod store_remote;

pub use manifest::{Manifest, ManifestError};
#[cfg(feature = "reapi")]
pub(crate) use send_progress::Outgoing;
pub use send_progress::SendProgress;
pub(crate) use send_progress::SentBytes;
pub use store::{BatchLimits, ChunkStore, PutRequest, PutSource, Registered, StoreProfile};
pub(super) use store_remote::StoreRemote;
