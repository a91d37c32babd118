//! Blobs as chunks: only chunks that the other side lacks travel.
//!
//! The machinery knows a store of chunks by a small trait, [`ChunkStore`], and nothing of the
//! protocol behind it.
//!
//! | file | idea |
//! |---|---|
//! | `store` | what is asked of a store of chunks |
//! | `cut` | a file's chunks with their digests, on all cores |
//! | `manifest` | the ordered list of chunks that make up a blob, validated |
//! | `attempt` | one call of a store, made as often as it takes |
//! | `chunk` | a chunk's bytes, verified |
//! | `inflight` | what several transfers want at once is done once |

mod attempt;
mod chunk;
mod cut;
mod inflight;
mod manifest;
mod store;

pub use cut::{CutChunk, CutOptions, CutStream, cut_file};
pub use manifest::{Manifest, ManifestError};
pub use store::{BatchLimits, ChunkStore, PutRequest, PutSource, Registered, StoreProfile};
