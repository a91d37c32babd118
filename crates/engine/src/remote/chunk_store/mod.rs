//! What is asked of a store of chunks, and what it is asked for: a remote can be one, too.
//!
//! | file | idea |
//! |---|---|
//! | `store` | [`ChunkStore`]: which chunks are missing, get, put, manifest, register |
//! | `manifest` | [`Manifest`]: the ordered list of chunks that make up a blob, validated |

mod manifest;
mod store;

pub use manifest::{Manifest, ManifestError};
pub use store::{BatchLimits, ChunkStore, PutRequest, PutSource, Registered, StoreProfile};
