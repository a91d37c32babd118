//! Blobs as chunks: only chunks that the other side lacks travel.
//!
//! The machinery knows a store of chunks by a small trait, [`ChunkStore`], and nothing of the
//! protocol behind it.
//!
//! | file | idea |
//! |---|---|
//! | `store` | what is asked of a store of chunks |
//! | `manifest` | the ordered list of chunks that make up a blob, validated |

mod manifest;
mod store;

pub use manifest::{Manifest, ManifestError};
pub use store::{BatchLimits, ChunkStore, PutRequest, PutSource, Registered, StoreProfile};
